#!/usr/bin/env python3
"""A chip whose constants are fitted to operators that I measured, and what counts for a plan on it.

    examples/calibrate_chip.py [OPS.csv]
"""
import pathlib
import sys

import phaze

measured = sys.argv[1] if len(sys.argv) > 1 else \
    pathlib.Path(__file__).parent.parent / "tests" / "data" / "h200_ops.csv"
fitted = phaze.calibrate(measured, "h200",
                         progress=lambda s: print(f"{s.phase}: {s.done} of {s.total}", file=sys.stderr))
print(fitted)

mine = fitted.chip.replace(name="my-h200")
print(f"\n{phaze.predict('llama2-7b', mine, tp=8, batch=64).step_s:.4g} s per step on {mine.name}")
explained = phaze.explain("llama2-7b", mine, tp=8, batch=64)
most = max(explained.constants, key=lambda c: abs(c.step_change))
print(f"{most.name} a tenth larger: step {100 * most.step_change:+.2f}%")
