#!/usr/bin/env python3
"""What would make a run that I have faster: a launch script of Megatron-LM, or a plan; and the script of the best plan.

    examples/tune_run.py [LAUNCH.sh]
"""
import sys

import phaze

run = phaze.read_plan(sys.argv[1] if len(sys.argv) > 1 else
                      {"model": "llama2-7b", "devices": 64, "tp": 8, "batch": 512}, devices=64)
tuned = phaze.tune(run, "h100", "dgx-h100")
print(tuned)

best = phaze.place("llama2-7b", "h100", "dgx-h100", devices=64, batch=512, framework="megatron")
script = phaze.emit(best)
print(f"\nthe best plan, {best.step_s:.4g} s per step, as a script of {len(script.splitlines())} lines")
assert phaze.read_plan(script).plan.tp == best.plan.tp
