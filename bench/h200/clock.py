#!/usr/bin/env python3
"""What the clock of a training step does to its kernels.  Needs PyTorch and one GPU.

    python3 clock.py OUT.csv

Each kernel of the forward and backward pass of a decoder layer is timed three ways: in a burst after a second of rest
(burst_us), alone in a loop of three seconds (alone_us), and in a loop of three seconds over all of them, as a step runs
them (step_us).  Events around each call; medians."""
import csv
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

D, T = "cuda", torch.bfloat16
TOKENS, H, FFN, SEQ, HEADS, KV = 16384, 4096, 14336, 8192, 32, 8


def rand(*shape):
    return torch.randn(*shape, device=D, dtype=T) * 0.5


def kernels():
    x, w1, w2, g = rand(TOKENS, H), rand(FFN, H), rand(H, FFN), rand(TOKENS, FFN)
    a8 = torch.randn(TOKENS, H, device=D).to(torch.float8_e4m3fn)
    b8 = torch.randn(FFN, H, device=D).to(torch.float8_e4m3fn)
    one = torch.ones((), device=D)
    out = {
        "gemm_fwd": lambda: F.linear(x, w1),
        "gemm_dgrad": lambda: g @ w1,
        "gemm_wgrad": lambda: g.t() @ x,
        "gemm_down": lambda: F.linear(g, w2),
        "fp8_gemm": lambda: torch._scaled_mm(a8, b8.t(), scale_a=one, scale_b=one, out_dtype=T),
        "silu": lambda: F.silu(g),
    }
    n = torch.nn.RMSNorm(H, device=D, dtype=T)
    out["rmsnorm"] = lambda: n(x)
    q, k, v = (rand(TOKENS // SEQ, h, SEQ, 128).requires_grad_() for h in (HEADS, KV, KV))
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        def fwd(backend=backend):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        o = fwd()
        do = torch.randn_like(o)
        def bwd(o=o, do=do):
            torch.autograd.grad(o, (q, k, v), do, retain_graph=True)
        out[name + "_fwd"], out[name + "_bwd"] = fwd, bwd
    return out


def timed(f, pairs):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    f()
    b.record()
    pairs.append((a, b))


def median_us(pairs):
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in pairs) * 1e3


def burst(f):
    for _ in range(2):
        f()
    torch.cuda.synchronize()
    times = []
    for _ in range(4):
        time.sleep(1)
        pairs = []
        for _ in range(4):
            timed(f, pairs)
        times.append(median_us(pairs))
    return statistics.median(times)


def loop(fs, seconds=3):
    """Medians of each over the last two thirds."""
    end = time.perf_counter() + seconds
    all_pairs = {name: [] for name in fs}
    while time.perf_counter() < end:
        for name, f in fs.items():
            timed(f, all_pairs[name])
        if sum(map(len, all_pairs.values())) % (8 * len(fs)) == 0:
            torch.cuda.synchronize()
    return {n: median_us(p[len(p) // 3:]) for n, p in all_pairs.items()}


def main():
    ks = kernels()
    for f in ks.values():
        f()
    bursts = {n: burst(f) for n, f in ks.items()}
    alone = {}
    for n, f in ks.items():
        time.sleep(1)
        alone.update(loop({n: f}))
    steps = {}
    for name, skip in (("bf16_cudnn", ("fp8", "flash")), ("bf16_flash", ("fp8", "cudnn")), ("fp8_cudnn", ("gemm_", "flash"))):
        order = {n: f for n, f in ks.items() if not n.startswith(skip)}
        if name.startswith("fp8"):
            order.update({f"fp8_gemm{i}": ks["fp8_gemm"] for i in range(3)})
        time.sleep(1)
        steps[name] = loop(order, 4)
    with open(sys.argv[1], "w", newline="") as out:
        c = csv.writer(out, lineterminator="\n")
        c.writerow(["kernel", "burst_us", "alone_us", *(f"step_{s}_us" for s in steps)])
        for n in ks:
            c.writerow([n, f"{bursts[n]:.1f}", f"{alone[n]:.1f}", *(f"{s[n]:.1f}" if n in s else "" for s in steps.values())])
    print(open(sys.argv[1]).read())


main()
