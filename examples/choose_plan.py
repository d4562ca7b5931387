#!/usr/bin/env python3
"""The best plan to train a model on my cluster, the next best, and what the run costs.

    examples/choose_plan.py [MODEL] [DEVICES]
"""
import sys

import phaze

model = sys.argv[1] if len(sys.argv) > 1 else "llama3-8b"
devices = int(sys.argv[2]) if len(sys.argv) > 2 else 64

# My nodes: eight H100 each, and a network of half the usual rate between them.
usual = phaze.Cluster.load("dgx-h100").to_dict()
inside, between = usual["levels"][0], usual["levels"][1]
mine = phaze.Cluster.from_dict({**usual, "name": "my-cluster", "about": "half the network",
                                "levels": [inside, {**between, "bytes_per_s": between["bytes_per_s"] / 2}]})

found = phaze.place(model, "h100", mine, devices=devices, batch=8 * devices, top=4)
print(found)

cost = found.best.cost(tokens=1e12, price=2.5, mtbf_s=50_000 * 3600)
print(f"\n1T tokens: {cost.all_seconds / 86400:.1f} days, {cost.all_dollars:,.0f} dollars, "
      f"goodput {100 * cost.goodput:.1f}%")
