#!/usr/bin/env python3
"""Schedules and plans on the cores of a chip of 22 nm, with timelines; problems in the original system's JSON formats, by
branch and bound and by the integer program; and what its assumptions make of a search.

    examples/schedules.py [SCHEDULE.json [PLACE.json]]
"""
import pathlib
import sys

import phaze

data = pathlib.Path(__file__).parent.parent / "tests" / "data"
given = sys.argv[1:] + [None] * 2
layer = [phaze.schedule("gpt2", "tpuv4", "block", direction) for direction in ("forward", "backward")]
print(layer[0])
print(f"timeline of both passes: {len(layer[0].trace(layer[1]))} characters\n")

instance = given[0] or data / "schedule" / "I_n8_tc3_vc1.json"
for solver in ("exact", "ilp"):
    found = phaze.schedule_instance(instance, solver=solver)
    print(f"{solver}: makespan {found.makespan_s:g}, {'proven optimal' if found.optimal else f'gap {found.gap:.2%}'}")
print(phaze.place_instance(given[1] or data / "place" / "chain.json", check=True), "\n")

plan = phaze.place("gpt2", "tpuv4", devices=16, batch=64)
print(f"{plan.text}: {plan.step_s:.4g} s; timeline: {len(plan.best.trace())} characters\n")
space = {"name": "small", "about": "", "base": "tpuv4", "tensor_cores": [1, 2], "rows": [64], "cols": [64, 128],
         "vector_cores": [1, 2], "glb_mib": [4], "least_part": 0}
print(phaze.original(["gpt2", "bert-base"], space, budget=60, devices=16, batch=64))
