#!/usr/bin/env python3
"""Host time of launches from native code: calls of a library, without a framework around them.  Needs PyTorch (for its
libraries) and one GPU.

    python3 native.py OUT.csv

cublas: cublasGemmEx of 256 x 256 x 256 in bf16; memset: cudaMemsetAsync of 64 KiB; call: a call that launches nothing, which
is what Python itself takes.  host_us has the mean of 20,000 calls, less `call`; the device is faster than the host."""
import csv
import ctypes
import glob
import os
import sys
import time

import torch

N = 20000


def library(name):
    base = os.path.dirname(torch.__file__)
    found = glob.glob(f"{base}/../nvidia/**/{name}.so*", recursive=True) + glob.glob(f"{base}/lib/{name}*.so*")
    return ctypes.CDLL(sorted(found)[0]) if found else ctypes.CDLL(name + ".so")


def mean_us(call):
    for _ in range(200):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(N):
        call()
    took = time.perf_counter() - start
    torch.cuda.synchronize()
    return took / N * 1e6


def main():
    torch.zeros(1, device="cuda")
    cublas, cudart = library("libcublas"), library("libcudart")
    handle, version = ctypes.c_void_p(), ctypes.c_int()
    assert cublas.cublasCreate_v2(ctypes.byref(handle)) == 0
    n = 256
    a, b, c = (torch.randn(n, n, device="cuda").bfloat16() for _ in range(3))
    work = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    cublas.cublasSetWorkspace_v2(handle, ctypes.c_void_p(work.data_ptr()), ctypes.c_size_t(work.numel()))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    bf16, compute = 14, 68  # CUDA_R_16BF, CUBLAS_COMPUTE_32F
    args = [handle, 1, 0, n, n, n, ctypes.byref(one), ctypes.c_void_p(a.data_ptr()), bf16, n, ctypes.c_void_p(b.data_ptr()),
            bf16, n, ctypes.byref(zero), ctypes.c_void_p(c.data_ptr()), bf16, n, compute, -1]
    assert cublas.cublasGemmEx(*args) == 0
    at, size = ctypes.c_void_p(work.data_ptr()), ctypes.c_size_t(65536)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    rows = {
        "call": mean_us(lambda: cublas.cublasGetVersion_v2(handle, ctypes.byref(version))),
        "cublas": mean_us(lambda: cublas.cublasGemmEx(*args)),
        "memset": mean_us(lambda: cudart.cudaMemsetAsync(at, 0, size, stream)),
    }
    with open(sys.argv[1], "w", newline="") as out:
        w = csv.writer(out, lineterminator="\n")
        w.writerow(["what", "host_us"])
        for what, us in rows.items():
            w.writerow([what, f"{us - (0 if what == 'call' else rows['call']):.2f}"])
    print(open(sys.argv[1]).read(), rows)


main()
