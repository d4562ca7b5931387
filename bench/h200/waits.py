#!/usr/bin/env python3
"""A host that waits for the device in the middle of every layer, as dispatchers of tokens do: what the wait costs.
Needs PyTorch and one GPU.

    python3 waits.py OUT.csv

queues: layers of `first` kernels, a wait, and `second` kernels; the host spends host1_us and host2_us on their launches,
the device device1_us and device2_us (kernels that spin).  layer_us is the measured time of a layer with the wait,
free_us without.
experts: forward of decoder layers with experts, without a wait (free_us) and where the counts of tokens are copied to
the host (layer_us); host1_us: launches of a layer, device1_us: its kernels as a CUDA graph.
product: the launch of one GEMM from Python, and of each of 16 from a C++ loop (torch._foreach_mul_ of 16 matrices is not
one; a loop of torch.mm is)."""
import csv
import sys
import time

import torch

from host import Block, graph_of, seconds

D = "cuda"


def spin(until):
    while time.perf_counter() < until:
        pass


class Queues:
    def __init__(self, n1, h1, d1, n2, h2, d2, hz):
        self.parts = ((n1, h1, int(d1 * hz)), (n2, h2, int(d2 * hz)))
        self.counts = torch.zeros(64, dtype=torch.int64, device=D)
        self.host = torch.zeros(64, dtype=torch.int64).pin_memory()
        self.event = torch.cuda.Event()

    def part(self, i):
        n, h, cycles = self.parts[i]
        for _ in range(n):
            t = time.perf_counter()
            torch.cuda._sleep(cycles)
            spin(t + h)

    def layers(self, n, wait):
        for _ in range(n):
            self.part(0)
            if wait:
                self.host.copy_(self.counts, non_blocking=True)
                self.event.record()
                self.event.synchronize()
            self.part(1)


def rate():
    """Cycles a second of torch.cuda._sleep."""
    n = 20000000
    s = seconds(lambda: torch.cuda._sleep(n), 20)
    return n / s


class Counted(Block):
    """Counts of tokens go to the host, once."""

    def routed(self, x):
        b, s, h = x.shape
        t = x.view(-1, h)
        p = torch.softmax(self.router(t).float(), -1)
        w, e = torch.topk(p, self.top, -1)
        e = (torch.arange(t.shape[0], device=D)[:, None] + torch.arange(self.top, device=D)[None]) % self.experts
        order = torch.argsort(e.view(-1), stable=True)
        counts = torch.zeros(self.experts, dtype=torch.int64, device=D)
        counts.scatter_add_(0, e.view(-1), torch.ones_like(e.view(-1)))
        if self.sync:
            counts.tolist()  # the host waits here
        rows = t[order // self.top].view(self.experts, -1, h)
        a, g = torch.bmm(rows, self.w1).chunk(2, -1)
        y = torch.bmm(torch.nn.functional.silu(a) * g, self.w2).view(-1, h)
        y = y * w.reshape(-1)[order][:, None].to(y.dtype)
        return torch.zeros_like(t).index_add(0, order // self.top, y).view(b, s, h)


def forward_of(h, tokens, layers, backward, **kw):
    m = torch.nn.Sequential(*[Counted(h, **kw) for _ in range(layers)])
    x = torch.randn(1, tokens, h, device=D, dtype=torch.bfloat16, requires_grad=True)

    def both():
        m(x).sum().backward()

    def forward():
        with torch.no_grad():
            m(x)

    return both if backward else forward


def main():
    rows = []
    hz = rate()
    u = 1e-6
    cases = [(h1, d1, h2, d2) for h1, d1 in ((10, 10), (10, 40), (40, 10), (40, 40)) for h2, d2 in ((10, 10), (10, 40), (40, 10), (40, 40))]
    cases += [(10, 10, 10, 0.5), (20, 0.5, 20, 0.5), (10, 100, 10, 100), (20, 60, 20, 20), (60, 20, 20, 20)]
    for h1, d1, h2, d2 in cases:
        n = 16
        q = Queues(n, h1 * u, d1 * u, n, h2 * u, d2 * u, hz)
        free, wait = (seconds(lambda w=w: q.layers(20, w), 5) / 20 for w in (False, True))
        rows.append(("queues", 0, n * h1, n * d1, n * h2, n * d2, free * 1e6, wait * 1e6))
    for backward in (False, True):
        for tokens in (512, 1024, 2048, 4096, 8192):
            kw = dict(experts=32, top=4, ffn=768)
            host = seconds(forward_of(2048, 32, 8, backward, **kw), 20) / 8
            device = seconds(graph_of(forward_of(2048, tokens, 8, backward, **kw)), 20) / 8
            free = seconds(forward_of(2048, tokens, 8, backward, **kw), 20) / 8
            wait = seconds(forward_of(2048, tokens, 8, backward, sync=True, **kw), 20) / 8
            rows.append(("experts_step" if backward else "experts", tokens, host * 1e6, device * 1e6, 0, 0, free * 1e6, wait * 1e6))
            torch.cuda.empty_cache()
    x = torch.randn(256, 256, device=D, dtype=torch.bfloat16)
    o = torch.empty_like(x)
    a16 = torch.randn(16, 256, 256, device=D, dtype=torch.bfloat16)
    rows.append(("product", 1, seconds(lambda: torch.mm(x, x, out=o), 2000) * 1e6, 0, 0, 0, 0, 0))
    lin = torch.nn.Linear(256, 256, bias=False, device=D, dtype=torch.bfloat16)
    rows.append(("linear", 1, seconds(lambda: lin(x), 2000) * 1e6, 0, 0, 0, 0, 0))
    rows.append(("add", 1, seconds(lambda: x + x, 2000) * 1e6, 0, 0, 0, 0, 0))
    rows.append(("sync", 1, seconds(lambda: (x + x, torch.cuda.synchronize()), 2000) * 1e6, 0, 0, 0, 0, 0))
    c = torch.zeros(64, dtype=torch.int64, device=D)
    rows.append(("tolist", 1, seconds(lambda: c.tolist(), 2000) * 1e6, 0, 0, 0, 0, 0))
    with open(sys.argv[1], "w", newline="") as out:
        w = csv.writer(out)
        w.writerow(["what", "tokens", "host1_us", "device1_us", "host2_us", "device2_us", "free_us", "layer_us"])
        for r in rows:
            w.writerow(list(r[:2]) + ["%.1f" % v for v in r[2:]])


if __name__ == "__main__":
    main()
