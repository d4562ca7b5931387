#!/usr/bin/env python3
"""How step time and MFU change with the sequence length, each with its own best plan, at the same number
of tokens in a step.  Draws a picture where matplotlib is there.

    examples/sweep_sequence.py [PICTURE.png]
"""
import sys

import phaze

TOKENS = 4 << 20
found = []
for seq in (2048, 4096, 8192, 16384):
    best = phaze.place("llama3-8b", "h200", "dgx-h200", devices=64, batch=TOKENS // seq, seq=seq).best
    found.append((seq, best))
    print(f"{seq:6} tokens: {best.step_s:.3f} s, MFU {100 * best.mfu:.1f}%, {best.text}")

try:
    import matplotlib
except ImportError:
    sys.exit(0)
matplotlib.use("Agg")
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
left.plot([s for s, _ in found], [100 * b.mfu for _, b in found], marker="o")
left.set(xscale="log", xlabel="sequence length", ylabel="MFU, %", ylim=(0, None))
found[-1][1].plot("memory", right)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "sequence.png", dpi=120)
