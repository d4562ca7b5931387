#!/usr/bin/env python3
"""Tables: training runs, predicted beside what was measured; operators of a chip; their power; the chip's bill beside what
is known of its dies; and chips beside each other.

    examples/tables.py [RUNS.csv [OPS.csv [POWER.csv]]]
"""
import pathlib
import sys

import phaze

here = pathlib.Path(__file__).parent
data = here.parent / "tests" / "data"
given = sys.argv[1:] + [None] * 3
runs = phaze.predict_runs(given[0] or here / "runs.csv")
print(runs, "\n")
print(f"the table with predictions has {len(runs.csv().splitlines())} lines\n")
print(phaze.estimate_ops(given[1] or data / "few_ops.csv", "h200"), "\n")
print(phaze.power(given[2] or data / "power.csv", "h200"), "\n")
bill, known = phaze.Chip.load("h200").bill(), phaze.known("h200")
print(f"h200: {bill.area_mm2:.0f} mm2 (known {known.mm2:.0f}), {bill.watts:.0f} W, "
      f"from {len(phaze.silicon())} constants and {len(phaze.sources('h200'))} sources")
print(phaze.compare_chips("gpt2", ["h200", "tpuv5p", "mi300x"], devices=8, batch=32))
