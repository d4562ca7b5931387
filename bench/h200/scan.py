#!/usr/bin/env python3
"""Mamba-2's scan in chunks on an H200: kernels of our own in Triton, divided as those of state-spaces/mamba, to see what
backward takes over forward, and each kernel of it.  Writes scan.csv: kernel, direction, batch, tokens, heads, head width,
state, groups, chunk, kernel_us (median of graph replays).  Results are compared with a plain
recurrence first."""
import csv
import sys

import torch
import triton
import triton.language as tl

CFG = [triton.Config({"BM": m, "BN": n, "BK": k}, num_warps=w, num_stages=s)
       for m, n, k, w, s in [(128, 64, 32, 4, 3), (64, 64, 32, 4, 3), (64, 128, 32, 4, 3), (128, 128, 32, 8, 3),
                             (64, 64, 64, 4, 2), (32, 64, 32, 2, 4), (64, 32, 32, 2, 4)]]


@triton.jit
def sums(dt, bias, A, out, dA, L, H: tl.constexpr, C: tl.constexpr):
    """dt after its softplus, and sums of dt A within chunks: [B, H, NC, C]."""
    c, h, b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    t = tl.arange(0, C)
    v = tl.load(dt + (b * L + c * C + t) * H + h).to(tl.float32) + tl.load(bias + h)
    v = tl.where(v <= 20, tl.log(1 + tl.exp(v)), v)
    at = ((b * H + h) * (L // C) + c) * C + t
    tl.store(out + at, v)
    tl.store(dA + at, tl.cumsum(v * tl.load(A + h), 0))


@triton.autotune(CFG, key=["P", "N", "C"])
@triton.jit
def chunk_state(x, B, dt, dA, S, L, H: tl.constexpr, G: tl.constexpr, P: tl.constexpr, N: tl.constexpr,
                C: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """S[p, n] = sum over tokens of x[p] B[n] dt exp(last - dA); fp32."""
    nn: tl.constexpr = (N + BN - 1) // BN
    pm, pn = tl.program_id(0) // nn, tl.program_id(0) % nn
    NC = L // C
    b, c, h = tl.program_id(1) // NC, tl.program_id(1) % NC, tl.program_id(2)
    om, on, ok = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    vec = ((b * H + h) * NC + c) * C
    last = tl.load(dA + vec + C - 1)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, C, BK):
        t = b * L + c * C + k + ok
        xv = tl.load(x + (t[None, :] * H + h) * P + om[:, None], mask=om[:, None] < P, other=0.)
        bv = tl.load(B + (t[:, None] * G + h // (H // G)) * N + on[None, :], mask=on[None, :] < N, other=0.).to(tl.float32)
        s = tl.exp(last - tl.load(dA + vec + k + ok)) * tl.load(dt + vec + k + ok)
        acc += tl.dot(xv, (bv * s[:, None]).to(xv.dtype))
    at = (((b * NC + c) * H + h) * P + om[:, None]) * N + on[None, :]
    tl.store(S + at, acc, mask=(om[:, None] < P) & (on[None, :] < N))


@triton.jit
def passing(S, dA, out, L, H: tl.constexpr, PN: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    i, b, h = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    NC = L // C
    o = i * BLOCK + tl.arange(0, BLOCK)
    s = tl.zeros((BLOCK,), tl.float32)
    for c in range(NC):
        at = ((b * NC + c) * H + h) * PN + o
        tl.store(out + at, s)
        s = s * tl.exp(tl.load(dA + ((b * H + h) * NC + c) * C + C - 1)) + tl.load(S + at)


@triton.autotune(CFG, key=["N", "C"])
@triton.jit
def bmm(Cm, B, CB, L, G: tl.constexpr, N: tl.constexpr, C: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
        BK: tl.constexpr):
    nn: tl.constexpr = C // BN
    pm, pn = tl.program_id(0) // nn, tl.program_id(0) % nn
    NC = L // C
    b, c, g = tl.program_id(1) // NC, tl.program_id(1) % NC, tl.program_id(2)
    om, on, ok = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    if pn * BN >= (pm + 1) * BM:
        return
    t = b * L + c * C
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, N, BK):
        a = tl.load(Cm + ((t + om[:, None]) * G + g) * N + k + ok[None, :])
        v = tl.load(B + ((t + on[None, :]) * G + g) * N + k + ok[:, None])
        acc += tl.dot(a, v)
    tl.store(CB + (((b * NC + c) * G + g) * C + om[:, None]) * C + on[None, :], acc)


@triton.autotune(CFG, key=["P", "N", "C"])
@triton.jit
def chunk_scan(CB, x, dt, dA, Cm, S, D, y, L, H: tl.constexpr, G: tl.constexpr, P: tl.constexpr, N: tl.constexpr,
               C: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    nn: tl.constexpr = (P + BN - 1) // BN
    pm, pn = tl.program_id(0) // nn, tl.program_id(0) % nn
    NC = L // C
    b, c, h = tl.program_id(1) // NC, tl.program_id(1) % NC, tl.program_id(2)
    g = h // (H // G)
    om, on, ok = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    vec = ((b * H + h) * NC + c) * C
    t = b * L + c * C
    dm = tl.load(dA + vec + om)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, N, BK):
        cv = tl.load(Cm + ((t + om[:, None]) * G + g) * N + k + ok[None, :])
        sv = tl.load(S + (((b * NC + c) * H + h) * P + on[None, :]) * N + k + ok[:, None], mask=on[None, :] < P, other=0.)
        acc += tl.dot(cv, sv.to(cv.dtype))
    acc *= tl.exp(dm)[:, None]
    for k in range(0, (pm + 1) * BM, BK):
        cb = tl.load(CB + (((b * NC + c) * G + g) * C + om[:, None]) * C + k + ok[None, :])
        cb *= tl.exp(tl.minimum(dm[:, None] - tl.load(dA + vec + k + ok)[None, :], 0.)) * tl.load(dt + vec + k + ok)[None, :]
        cb = tl.where(om[:, None] >= k + ok[None, :], cb, 0.)
        xv = tl.load(x + ((t + k + ok[:, None]) * H + h) * P + on[None, :], mask=on[None, :] < P, other=0.)
        acc += tl.dot(cb.to(xv.dtype), xv)
    at = ((t + om[:, None]) * H + h) * P + on[None, :]
    m = on[None, :] < P
    acc += tl.load(x + at, mask=m, other=0.).to(tl.float32) * tl.load(D + h)
    tl.store(y + at, acc.to(y.dtype.element_ty), mask=m)


@triton.autotune(CFG, key=["P", "N", "C"])
@triton.jit
def d_states(dy, Cm, dA, dS, L, H: tl.constexpr, G: tl.constexpr, P: tl.constexpr, N: tl.constexpr, C: tl.constexpr,
             BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    nn: tl.constexpr = (N + BN - 1) // BN
    pm, pn = tl.program_id(0) // nn, tl.program_id(0) % nn
    NC = L // C
    b, c, h = tl.program_id(1) // NC, tl.program_id(1) % NC, tl.program_id(2)
    om, on, ok = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    vec = ((b * H + h) * NC + c) * C
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, C, BK):
        t = b * L + c * C + k + ok
        dv = tl.load(dy + (t[None, :] * H + h) * P + om[:, None], mask=om[:, None] < P, other=0.).to(tl.float32)
        dv = (dv * tl.exp(tl.load(dA + vec + k + ok))[None, :]).to(dy.dtype.element_ty)
        cv = tl.load(Cm + (t[:, None] * G + h // (H // G)) * N + on[None, :], mask=on[None, :] < N, other=0.)
        acc += tl.dot(dv, cv)
    at = (((b * NC + c) * H + h) * P + om[:, None]) * N + on[None, :]
    tl.store(dS + at, acc, mask=(om[:, None] < P) & (on[None, :] < N))


@triton.jit
def passing_bwd(S, dS, dA, S16, dS16, dd, L, H: tl.constexpr, PN: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    i, b, h = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    NC = L // C
    o = i * BLOCK + tl.arange(0, BLOCK)
    d = tl.zeros((BLOCK,), tl.float32)
    for j in range(NC):
        c = NC - 1 - j
        at = ((b * NC + c) * H + h) * PN + o
        tl.store(dS16 + at, d.to(dS16.dtype.element_ty))
        s = tl.load(S + at)
        tl.store(S16 + at, s.to(S16.dtype.element_ty))
        scale = tl.exp(tl.load(dA + ((b * H + h) * NC + c) * C + C - 1))
        tl.store(dd + ((b * H + h) * NC + c) * (PN // BLOCK) + i, tl.sum(s * d) * scale)
        d = d * scale + tl.load(dS + at)


@triton.autotune(CFG, key=["P", "N", "C"], reset_to_zero=["ddt", "dD"])
@triton.jit
def d_x(x, CB, dt, dA, dy, B, dS, D, dx, ddt, dD, L, H: tl.constexpr, G: tl.constexpr, P: tl.constexpr,
        N: tl.constexpr, C: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    nn: tl.constexpr = (P + BN - 1) // BN
    pm, pn = tl.program_id(0) // nn, tl.program_id(0) % nn
    NC = L // C
    b, c, h = tl.program_id(1) // NC, tl.program_id(1) % NC, tl.program_id(2)
    g = h // (H // G)
    om, on, ok = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    vec = ((b * H + h) * NC + c) * C
    t = b * L + c * C
    dm, last = tl.load(dA + vec + om), tl.load(dA + vec + C - 1)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, N, BK):
        bv = tl.load(B + ((t + om[:, None]) * G + g) * N + k + ok[None, :])
        sv = tl.load(dS + (((b * NC + c) * H + h) * P + on[None, :]) * N + k + ok[:, None], mask=on[None, :] < P, other=0.)
        acc += tl.dot(bv, sv.to(bv.dtype))
    acc *= tl.exp(last - dm)[:, None]
    for k in range((pm * BM) // BK * BK, C, BK):
        cb = tl.load(CB + (((b * NC + c) * G + g) * C + k + ok[None, :]) * C + om[:, None])
        cb *= tl.exp(tl.minimum(tl.load(dA + vec + k + ok)[None, :] - dm[:, None], 0.))
        cb = tl.where(om[:, None] <= k + ok[None, :], cb, 0.)
        dv = tl.load(dy + ((t + k + ok[:, None]) * H + h) * P + on[None, :], mask=on[None, :] < P, other=0.)
        acc += tl.dot(cb.to(dv.dtype), dv)
    at = ((t + om[:, None]) * H + h) * P + on[None, :]
    m = on[None, :] < P
    xv = tl.load(x + at, mask=m, other=0.).to(tl.float32)
    dv = tl.load(dy + at, mask=m, other=0.).to(tl.float32)
    tl.store(dx + at, (acc * tl.load(dt + vec + om)[:, None] + dv * tl.load(D + h)).to(dx.dtype.element_ty), mask=m)
    tl.atomic_add(ddt + vec + om, tl.sum(acc * xv, 1))
    tl.atomic_add(dD + h, tl.sum(dv * xv))


@triton.autotune(CFG, key=["P", "N", "C"], reset_to_zero=["dd"])
@triton.jit
def d_b(x, dS, B, dt, dA, dB, dd, L, H: tl.constexpr, G: tl.constexpr, P: tl.constexpr, N: tl.constexpr,
        C: tl.constexpr, STATE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """dB of a group from x and dS, or (STATE 0) dC from dy and S: summed over the heads of the group."""
    nn: tl.constexpr = (N + BN - 1) // BN
    pm, pn = tl.program_id(0) // nn, tl.program_id(0) % nn
    NC = L // C
    b, c, g = tl.program_id(1) // NC, tl.program_id(1) % NC, tl.program_id(2)
    om, on, ok = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    t = b * L + c * C
    mn = on[None, :] < N
    bv = tl.load(B + ((t + om[:, None]) * G + g) * N + on[None, :], mask=mn, other=0.).to(tl.float32)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(H // G):
        h = g * (H // G) + i
        vec = ((b * H + h) * NC + c) * C
        one = tl.zeros((BM, BN), tl.float32)
        for k in range(0, P, BK):
            xv = tl.load(x + ((t + om[:, None]) * H + h) * P + k + ok[None, :], mask=k + ok[None, :] < P, other=0.)
            sv = tl.load(dS + (((b * NC + c) * H + h) * P + k + ok[:, None]) * N + on[None, :],
                         mask=(k + ok[:, None] < P) & mn, other=0.)
            one += tl.dot(xv, sv.to(xv.dtype))
        dm = tl.load(dA + vec + om)
        if STATE:
            one *= (tl.exp(tl.load(dA + vec + C - 1) - dm) * tl.load(dt + vec + om))[:, None]
        else:
            one *= tl.exp(dm)[:, None]
        tl.atomic_add(dd + vec + om, tl.sum(one * bv, 1))
        acc += one
    tl.store(dB + ((t + om[:, None]) * G + g) * N + on[None, :], acc, mask=mn)


@triton.autotune(CFG, key=["P", "C"])
@triton.jit
def d_cb(x, dy, dt, dA, dCB, L, H: tl.constexpr, G: tl.constexpr, P: tl.constexpr, C: tl.constexpr, BM: tl.constexpr,
         BN: tl.constexpr, BK: tl.constexpr):
    nn: tl.constexpr = C // BN
    pm, pn = tl.program_id(0) // nn, tl.program_id(0) % nn
    NC = L // C
    b, c, g = tl.program_id(1) // NC, tl.program_id(1) % NC, tl.program_id(2)
    om, on, ok = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    t = b * L + c * C
    out = dCB + (((b * NC + c) * G + g) * C + om[:, None]) * C + on[None, :]
    if pn * BN >= (pm + 1) * BM:
        tl.store(out, tl.zeros((BM, BN), dCB.dtype.element_ty))
        return
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(H // G):
        h = g * (H // G) + i
        vec = ((b * H + h) * NC + c) * C
        one = tl.zeros((BM, BN), tl.float32)
        for k in range(0, P, BK):
            dv = tl.load(dy + ((t + om[:, None]) * H + h) * P + k + ok[None, :], mask=k + ok[None, :] < P, other=0.)
            xv = tl.load(x + ((t + on[None, :]) * H + h) * P + k + ok[:, None], mask=k + ok[:, None] < P, other=0.)
            one += tl.dot(dv, xv)
        d = tl.minimum(tl.load(dA + vec + om)[:, None] - tl.load(dA + vec + on)[None, :], 0.)
        acc += one * tl.exp(d) * tl.load(dt + vec + on)[None, :]
    tl.store(out, tl.where(om[:, None] >= on[None, :], acc, 0.).to(dCB.dtype.element_ty))


@triton.autotune(CFG, key=["N", "C"])
@triton.jit
def bmm_bwd(dCB, other, own, out, L, G: tl.constexpr, N: tl.constexpr, C: tl.constexpr, TRANS: tl.constexpr,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    nn: tl.constexpr = (N + BN - 1) // BN
    pm, pn = tl.program_id(0) // nn, tl.program_id(0) % nn
    NC = L // C
    b, c, g = tl.program_id(1) // NC, tl.program_id(1) % NC, tl.program_id(2)
    om, on, ok = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    t = b * L + c * C
    base = ((b * NC + c) * G + g) * C
    mn = on[None, :] < N
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, C, BK):
        if TRANS:
            a = tl.load(dCB + (base + k + ok[None, :]) * C + om[:, None])
        else:
            a = tl.load(dCB + (base + om[:, None]) * C + k + ok[None, :])
        v = tl.load(other + ((t + k + ok[:, None]) * G + g) * N + on[None, :], mask=mn, other=0.)
        acc += tl.dot(a.to(v.dtype), v)
    at = ((t + om[:, None]) * G + g) * N + on[None, :]
    acc += tl.load(own + at, mask=mn, other=0.)
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=mn)


@triton.autotune(CFG, key=["P", "C"])
@triton.jit
def d_decay(x, dy, dt, dA, CB, dd, L, H: tl.constexpr, G: tl.constexpr, P: tl.constexpr, C: tl.constexpr,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Of the decays between tokens of a chunk: sums over rows of dy x^T C B decay, block by block of columns."""
    pm = tl.program_id(0)
    NC = L // C
    b, c, h = tl.program_id(1) // NC, tl.program_id(1) % NC, tl.program_id(2)
    g = h // (H // G)
    om, on, op = pm * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, P)
    vec = ((b * H + h) * NC + c) * C
    t = b * L + c * C
    dm = tl.load(dA + vec + om)
    dv = tl.load(dy + ((t + om[:, None]) * H + h) * P + op[None, :])
    row = tl.zeros((BM,), tl.float32)
    for n in range(0, (pm + 1) * BM, BN):
        xv = tl.load(x + ((t + n + on[None, :]) * H + h) * P + op[:, None])
        acc = tl.dot(dv, xv) * tl.load(dt + vec + n + on)[None, :]
        acc *= tl.exp(tl.minimum(dm[:, None] - tl.load(dA + vec + n + on)[None, :], 0.))
        acc *= tl.load(CB + (((b * NC + c) * G + g) * C + om[:, None]) * C + n + on[None, :])
        acc = tl.where(om[:, None] >= n + on[None, :] + 1, acc, 0.)
        sums_ = row[:, None] + tl.cumsum(acc, 1)
        row += tl.sum(acc, 1)
        tl.store(dd + ((((b * NC + c) * H + h) * (C // BM) + pm) * C) + n + on, tl.sum(sums_, 0))


@triton.jit
def sums_bwd(ddA, ddt, dt, A, out, L, H: tl.constexpr, C: tl.constexpr):
    c, h, b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    t = tl.arange(0, C)
    at = ((b * H + h) * (L // C) + c) * C + t
    v = tl.load(ddA + at)
    v = tl.sum(v) - tl.cumsum(v, 0) + v
    v = v * tl.load(A + h) + tl.load(ddt + at)
    s = tl.load(dt + at)
    tl.store(out + (b * L + c * C + t) * H + h, (v * (1 - tl.exp(-s))).to(out.dtype.element_ty))


class Scan:
    def __init__(self, b, L, H, P, N, G, C):
        self.sizes = (b, L, H, P, N, G, C)
        torch.manual_seed(0)
        r = lambda *s: torch.randn(*s, device="cuda", dtype=torch.bfloat16)
        f = lambda *s, d=torch.float32: torch.zeros(*s, device="cuda", dtype=d)
        NC = L // C
        self.x, self.dy, self.B, self.C, self.raw = r(b, L, H, P), r(b, L, H, P), r(b, L, G, N), r(b, L, G, N), r(b, L, H)
        self.A = -torch.rand(H, device="cuda") - 0.5
        self.bias = torch.rand(H, device="cuda") - 4
        self.D = torch.randn(H, device="cuda")
        self.dt, self.dA = f(b, H, NC, C), f(b, H, NC, C)
        self.S, self.prev, self.dS = f(b, NC, H, P, N), f(b, NC, H, P, N), f(b, NC, H, P, N)
        self.CB, self.dCB = f(b, NC, G, C, C), f(b, NC, G, C, C)
        self.y, self.dx = torch.empty_like(self.x), torch.empty_like(self.x)
        self.S16, self.dS16 = f(b, NC, H, P, N, d=torch.bfloat16), f(b, NC, H, P, N, d=torch.bfloat16)
        self.dd, self.dd2, self.ddt, self.dD = f(b, H, NC, 64), f(b, H, NC, C), f(b, H, NC, C), f(H)
        self.dB32, self.dC32 = f(b, L, G, N), f(b, L, G, N)
        self.dB, self.dC, self.draw = torch.empty_like(self.B), torch.empty_like(self.C), torch.empty_like(self.raw)
        self.ddecay = f(b, NC, H, 8, C)

    def kernels(self):
        b, L, H, P, N, G, C = self.sizes
        NC, cd = L // C, triton.cdiv
        tiles = lambda M, Q, Z: (lambda m: (cd(M, m["BM"]) * cd(Q, m["BN"]), b * NC, Z))
        rows = lambda m: (cd(C, m["BM"]), b * NC, H)
        k = dict(H=H, C=C)
        kg = dict(G=G, N=N, C=C)
        kp = dict(H=H, G=G, P=P, N=N, C=C)
        s = self
        return {
            "sums": lambda: sums[(NC, H, b)](s.raw, s.bias, s.A, s.dt, s.dA, L, **k),
            "chunk_state": lambda: chunk_state[tiles(P, N, H)](s.x, s.B, s.dt, s.dA, s.S, L, **kp),
            "passing": lambda: passing[(P * N // 512, b, H)](s.S, s.dA, s.prev, L, H=H, PN=P * N, C=C, BLOCK=512),
            "bmm": lambda: bmm[tiles(C, C, G)](s.C, s.B, s.CB, L, **kg),
            "chunk_scan": lambda: chunk_scan[tiles(C, P, H)](s.CB, s.x, s.dt, s.dA, s.C, s.prev, s.D, s.y, L, **kp),
            "d_states": lambda: d_states[tiles(P, N, H)](s.dy, s.C, s.dA, s.dS, L, **kp),
            "passing_bwd": lambda: passing_bwd[(P * N // 512, b, H)](s.prev, s.dS, s.dA, s.S16, s.dS16, s.dd, L, H=H, PN=P * N, C=C, BLOCK=512),
            "d_x": lambda: d_x[tiles(C, P, H)](s.x, s.CB, s.dt, s.dA, s.dy, s.B, s.dS16, s.D, s.dx, s.ddt, s.dD, L, **kp),
            "d_b": lambda: d_b[tiles(C, N, G)](s.x, s.dS16, s.B, s.dt, s.dA, s.dB32, s.dd2, L, STATE=1, **kp),
            "d_c": lambda: d_b[tiles(C, N, G)](s.dy, s.S16, s.C, s.dt, s.dA, s.dC32, s.dd2, L, STATE=0, **kp),
            "d_cb": lambda: d_cb[tiles(C, C, G)](s.x, s.dy, s.dt, s.dA, s.dCB, L, H=H, G=G, P=P, C=C),
            "bmm_db": lambda: bmm_bwd[tiles(C, N, G)](s.dCB, s.C, s.dB32, s.dB, L, TRANS=1, **kg),
            "bmm_dc": lambda: bmm_bwd[tiles(C, N, G)](s.dCB, s.B, s.dC32, s.dC, L, TRANS=0, **kg),
            "d_decay": lambda: d_decay[rows](s.x, s.dy, s.dt, s.dA, s.CB, s.ddecay, L, H=H, G=G, P=P, C=C),
            "sums_bwd": lambda: sums_bwd[(NC, H, b)](s.dd2, s.ddt, s.dt, s.A, s.draw, L, **k),
        }


FORWARD = ["sums", "chunk_state", "passing", "bmm", "chunk_scan"]
BACKWARD = ["sums", "bmm", "chunk_state", "passing", "d_states", "passing_bwd", "d_x", "d_b", "d_c", "d_cb", "bmm_db",
            "bmm_dc", "d_decay", "sums_bwd"]


def time_us(fn, calls=5, replays=8):
    for _ in range(3):
        fn()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(calls):
            fn()
    times = []
    for _ in range(replays):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        g.replay()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) * 1e3 / calls)
    return sorted(times)[len(times) // 2]


def check():
    """y and dx of a small case against a plain recurrence."""
    s = Scan(1, 512, 8, 64, 128, 1, 128)
    k = s.kernels()
    for name in FORWARD + BACKWARD:
        k[name]()
    b, L, H, P, N, G, C = s.sizes
    x = s.x.float().requires_grad_()
    dt = torch.nn.functional.softplus(s.raw.float() + s.bias)
    state, ys = torch.zeros(H, P, N, device="cuda"), []
    for t in range(L):
        decay = torch.exp(dt[0, t] * s.A)[:, None, None]
        state = state * decay + (dt[0, t][:, None] * x[0, t])[:, :, None] * s.B[0, t, 0].float()[None, None]
        ys.append((state * s.C[0, t, 0].float()).sum(-1) + s.D[:, None] * x[0, t])
    y = torch.stack(ys)[None]
    y.backward(s.dy.float())
    far = lambda a, b: ((a.float() - b).norm() / b.norm()).item()
    print("error of y %.4f, of dx %.4f" % (far(s.y, y.detach()), far(s.dx, x.grad)))


def main():
    check()
    out = csv.writer(open(sys.argv[1], "w"), lineterminator="\n")
    out.writerow("kernel,direction,batch,tokens,heads,width,state,groups,chunk,kernel_us".split(","))
    for sizes in [(1, 8192, 64, 64, 128, 8, 128), (2, 8192, 64, 64, 128, 8, 128), (1, 4096, 32, 64, 128, 8, 128),
                  (4, 8192, 64, 64, 128, 8, 128), (1, 8192, 128, 64, 128, 8, 128), (1, 8192, 64, 64, 128, 8, 256)]:
        s = Scan(*sizes)
        k = s.kernels()
        for name in dict.fromkeys(FORWARD + BACKWARD):
            k[name]()
        for label, names in (("forward", FORWARD), ("backward", BACKWARD)):
            def run():
                for n in names:
                    k[n]()
            us = time_us(run)
            out.writerow(["all", label, *sizes, "%.1f" % us])
            print(label, sizes, "%.1f us" % us, flush=True)
        for n in k:
            out.writerow([n, "forward" if n in FORWARD else "backward", *sizes, "%.1f" % time_us(k[n])])
        del s, k
        torch.cuda.empty_cache()


main()
