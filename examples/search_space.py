#!/usr/bin/env python3
"""The best chip of a space of my own for two models.  What is found is kept in a directory: stopped with
Ctrl-C, the same call goes on where it was.

    examples/search_space.py [DIRECTORY]
"""
import sys

import phaze

space = {
    "name": "mine", "about": "a quarter of a TPU v4 and less", "base": "tpuv4",
    "tensor_cores": [1, 2, 4], "rows": [64, 128], "cols": [64, 128],
    "vector_cores": [1, 2, 4], "glb_mib": [4, 16], "least_part": 0,
}
asked = phaze.Space.load(space, budget=60)
print(f"{asked.within} of {asked.chips} chips are within {asked.limit_mm2:g} mm2")


def progress(state):
    print(f"{state.phase}: {state.done} of {state.total} {state.unit} {state.note}", file=sys.stderr)


try:
    found = phaze.search(["bert-base", "gpt2"], space, budget=60, devices=64, batch=256, pareto=True,
                         output=sys.argv[1] if len(sys.argv) > 1 else None, progress=progress)
except KeyboardInterrupt:
    sys.exit("interrupted; run it again to go on")
print(found)
for point in found.front.points:
    print(f"{point.area_mm2:8.2f} mm2  {point.objective:.4g} times the reference  {point.chip}")
