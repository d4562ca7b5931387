#!/usr/bin/env python3
"""How well predictions meet my own measurements: a table of training runs beside their predictions.

    examples/validate_runs.py [RUNS.csv]
"""
import pathlib
import sys

import phaze

runs = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("runs.csv")
found = phaze.validate(runs)
print(found)
print()
for p in found.points:
    print(f"{p.id:16} measured {p.measured_s:6.3f} s, predicted {p.predicted_s:6.3f} s, "
          f"{100 * (p.predicted_s / p.measured_s - 1):+.1f}%" if p.predicted_s else f"{p.id}: {p.reason}")
