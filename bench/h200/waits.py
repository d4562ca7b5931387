#!/usr/bin/env python3
"""What a wait of the host for the device costs.  Needs PyTorch and one GPU.

    python3 waits.py OUT.csv

queues: layers of 16 kernels, a copy of counts to the host that it waits for, and 16 kernels; kernels spin for
device1_us and device2_us in all, the host for host1_us and host2_us.  free_us: a layer without the wait, wait_us with it.
experts: forward, or a step, of decoder layers with experts (host.py) whose counts of tokens go to the host or stay;
host1_us: the launches of a layer, device1_us: the layer as a CUDA graph, n: tokens."""
import csv
import sys
import time

import torch

from host import D, Block, graph_of, seconds

OUT = []
COUNTS = torch.zeros(64, dtype=torch.int64, device=D)
HOST = COUNTS.cpu().pin_memory()
EVENT = torch.cuda.Event()


def put(what, n, *us):
    OUT.append([what, n] + ["%.1f" % (v * 1e6) for v in us])


def kernels(n, host, cycles):
    for _ in range(n):
        t = time.perf_counter() + host
        torch.cuda._sleep(cycles)
        while time.perf_counter() < t:
            pass


def layers(first, second, wait):
    for _ in range(20):
        kernels(*first)
        if wait:
            HOST.copy_(COUNTS, non_blocking=True)
            EVENT.record()
            EVENT.synchronize()
        kernels(*second)


def queues():
    hz = 2e7 / seconds(lambda: torch.cuda._sleep(20000000), 20)
    parts = [(h * 1e-6, d * 1e-6) for h, d in ((10, 10), (10, 40), (40, 10), (40, 40), (20, 1))]
    for h1, d1 in parts:
        for h2, d2 in parts:
            a, b = (16, h1, int(d1 * hz)), (16, h2, int(d2 * hz))
            free, wait = (seconds(lambda: layers(a, b, w), 5) / 20 for w in (0, 1))
            put("queues", 16, 16 * h1, 16 * d1, 16 * h2, 16 * d2, free, wait)


class Counted(Block):
    def forward(self, x):
        y = super().forward(x)
        if self.count:
            COUNTS.tolist()
        return y


def experts(tokens, count, backward):
    m = torch.nn.Sequential(*[Counted(2048, 32, 4, 768) for _ in range(8)])
    for block in m:
        block.count = count
    x = torch.randn(1, tokens, 2048, device=D, dtype=torch.bfloat16, requires_grad=True)

    def run():
        with torch.set_grad_enabled(backward):
            y = m(x)
        if backward:
            y.sum().backward()

    return run


def main():
    queues()
    for backward in (False, True):
        for tokens in (512, 1024, 2048, 4096, 8192):
            host, free, wait = (seconds(experts(n, w, backward), 20) / 8 for n, w in ((32, 0), (tokens, 0), (tokens, 1)))
            device = seconds(graph_of(experts(tokens, 0, backward)), 10) / 8
            put("experts_step" if backward else "experts", tokens, host, device, 0, 0, free, wait)
            torch.cuda.empty_cache()
    with open(sys.argv[1], "w", newline="") as out:
        w = csv.writer(out)
        w.writerow(["what", "n", "host1_us", "device1_us", "host2_us", "device2_us", "free_us", "wait_us"])
        w.writerows(OUT)


if __name__ == "__main__":
    main()
