#!/usr/bin/env python3
"""Pages that open offline: how the best plan scales, the report of a small search, which is compared with other ways to
choose and verified, how predictions meet measurements, and, where explore.wasm is at hand, one that finds plans by itself.

    examples/pages.py FOLDER [explore.wasm]
"""
import pathlib
import sys

import phaze

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "pages")
folder.mkdir(exist_ok=True)
scaling = phaze.scale("llama3-8b", "h100", "dgx-h100", devices=[8, 16, 32], batch_per_device=4)
print(scaling, "\n")
pages = {"scaling": scaling.page(), "plan": scaling.rows[-1].placement.page()}

space = {"name": "small", "about": "", "base": "tpuv4", "tensor_cores": [1, 2], "rows": [64], "cols": [64, 128],
         "vector_cores": [1, 2], "glb_mib": [4], "least_part": 0}
found = phaze.compare("gpt2", space, budget=60, devices=16, batch=64, output=folder / "run")
for method in found.comparison.runs[-1].methods:
    print(f"{method.name}: {method.chip}, {method.objective:.4g} times the reference")
print(f"verified: {bool(phaze.verify(folder / 'run'))}")
report = phaze.report(folder / "run")
pages["report"] = report.html
print(f"report: {len(report.datasets['chips'])} chips, {len(report.datasets['operators'])} operators")
pages["validation"] = phaze.validate(pathlib.Path(__file__).with_name("runs.csv")).text("page")
try:
    pages["explore"] = phaze.explore("llama3-8b", "h100", "dgx-h100", devices=32, batch=128,
                                     wasm=sys.argv[2] if len(sys.argv) > 2 else None)
except phaze.FileError as why:
    print(why)
for name, html in pages.items():
    (folder / f"{name}.html").write_text(html)
    print(f"{folder / name}.html: {len(html)} characters")
