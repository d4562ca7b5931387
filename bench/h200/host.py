#!/usr/bin/env python3
"""Host and device of a GPU: what launches, synchronisation and gradient accumulation cost.  Needs PyTorch and one GPU.

    python3 host.py OUT.csv

blocks: forward and backward of decoder layers, launched kernel by kernel (eager_us) and replayed as a CUDA graph
(device_us); host_us is the time that the same launches take with hardly any work on the device.
experts: the same of layers with experts, as a sum over layers; with `sync` the host reads the experts' numbers of rows in
every layer, as dispatchers of tokens do.
wgrad: the GEMM of a weight gradient into a 16-bit result (device_us), and adding to an fp32 sum (eager_us)."""
import csv
import sys
import time

import torch
import torch.nn.functional as F

D = "cuda"


def seconds(f, n):
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    t = time.perf_counter()
    for _ in range(n):
        f()
    torch.cuda.synchronize()
    return (time.perf_counter() - t) / n


def graph_of(f):
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(3):
            f()
    torch.cuda.current_stream().wait_stream(s)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        f()
    return g.replay


class Block(torch.nn.Module):
    def __init__(self, h, experts=0, top=0, ffn=0, sync=False):
        super().__init__()
        kw = dict(bias=False, device=D, dtype=torch.bfloat16)
        self.n1 = torch.nn.RMSNorm(h, device=D, dtype=torch.bfloat16)
        self.n2 = torch.nn.RMSNorm(h, device=D, dtype=torch.bfloat16)
        self.qkv = torch.nn.Linear(h, 3 * h, **kw)
        self.out = torch.nn.Linear(h, h, **kw)
        self.experts, self.top, self.sync = experts, top, sync
        if experts:
            self.router = torch.nn.Linear(h, experts, **kw)
            self.w1 = torch.nn.Parameter(torch.randn(experts, h, 2 * ffn, device=D, dtype=torch.bfloat16) * 0.02)
            self.w2 = torch.nn.Parameter(torch.randn(experts, ffn, h, device=D, dtype=torch.bfloat16) * 0.02)
        else:
            self.up = torch.nn.Linear(h, 4 * h, **kw)
            self.gate = torch.nn.Linear(h, 4 * h, **kw)
            self.down = torch.nn.Linear(4 * h, h, **kw)

    def routed(self, x):
        b, s, h = x.shape
        t = x.view(-1, h)
        p = torch.softmax(self.router(t).float(), -1)
        w, e = torch.topk(p, self.top, -1)
        # even load: token i goes to experts i, i + 1, ...
        e = (torch.arange(t.shape[0], device=D)[:, None] + torch.arange(self.top, device=D)[None]) % self.experts
        order = torch.argsort(e.view(-1), stable=True)
        counts = torch.bincount(e.view(-1), minlength=self.experts) if self.sync else None
        if self.sync:
            counts.tolist()  # the host waits here
        rows = t[order // self.top].view(self.experts, -1, h)
        a, g = torch.bmm(rows, self.w1).chunk(2, -1)
        y = torch.bmm(F.silu(a) * g, self.w2).view(-1, h)
        y = y * w.reshape(-1)[order][:, None].to(y.dtype)
        return torch.zeros_like(t).index_add(0, order // self.top, y).view(b, s, h)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, s, 3, h // 128, 128).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, s, h))
        y = self.n2(x)
        return x + (self.routed(y) if self.experts else self.down(F.silu(self.gate(y)) * self.up(y)))


def pass_of(h, tokens, layers, **kw):
    m = torch.nn.Sequential(*[Block(h, **kw) for _ in range(layers)])
    x = torch.randn(1, tokens, h, device=D, dtype=torch.bfloat16, requires_grad=True)

    def run():
        m(x).sum().backward()

    return run


def main():
    rows = []
    for h, layers in ((1024, 16), (2048, 12)):
        host = seconds(pass_of(h, 16, layers), 20) / layers
        for tokens in (256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288):
            run = pass_of(h, tokens, layers)
            eager = seconds(run, 20) / layers
            device = seconds(graph_of(pass_of(h, tokens, layers)), 20) / layers
            rows.append(("blocks", h, tokens, 0, host * 1e6, device * 1e6, eager * 1e6))
            torch.cuda.empty_cache()
    for h, ffn, sync in ((2048, 768, False), (2048, 768, True)):
        kw = dict(experts=32, top=4, ffn=ffn)
        host = seconds(pass_of(h, 32, 8, **kw), 20) / 8
        for tokens in (512, 1024, 2048, 4096, 8192):
            eager = seconds(pass_of(h, tokens, 8, sync=sync, **kw), 20) / 8
            device = seconds(graph_of(pass_of(h, tokens, 8, **kw)), 20) / 8
            rows.append(("experts_sync" if sync else "experts", h, tokens, ffn, host * 1e6, device * 1e6, eager * 1e6))
            torch.cuda.empty_cache()
    for t, n, k in ((2048, 4096, 4096), (4096, 4096, 4096), (8192, 4096, 4096), (4096, 8192, 8192), (8192, 8192, 8192), (16384, 8192, 8192), (4096, 14336, 4096), (8192, 28672, 8192), (2048, 3072, 12288), (2048, 12288, 6144)):
        g = torch.randn(t, n, device=D, dtype=torch.bfloat16)
        x = torch.randn(t, k, device=D, dtype=torch.bfloat16)
        o16 = torch.empty(n, k, device=D, dtype=torch.bfloat16)
        o32 = torch.zeros(n, k, device=D, dtype=torch.float32)

        def plain():
            for _ in range(10):
                torch.mm(g.t(), x, out=o16)

        def fp32():
            for _ in range(10):
                torch.mm(g.t(), x, out_dtype=torch.float32, out=o32)

        def fused():
            for _ in range(10):
                torch.addmm(o32, g.t(), x, out_dtype=torch.float32, out=o32)

        for name, f in (("wgrad_fp32", fp32), ("wgrad_fused", fused)):
            try:
                rows.append((name, t, n, k, 0, seconds(graph_of(plain), 20) * 1e5, seconds(graph_of(f), 20) * 1e5))
            except Exception as e:
                print(name, t, n, k, str(e)[:200], file=sys.stderr)
        del g, x, o16, o32
    with open(sys.argv[1], "w", newline="") as out:
        w = csv.writer(out)
        w.writerow(["what", "m", "n", "k", "host_us", "device_us", "eager_us"])
        for r in rows:
            w.writerow(list(r[:4]) + ["%.1f" % v for v in r[4:]])


if __name__ == "__main__":
    main()
