"""Allocations that fail below the Python package: each ends as phaze.NoMemory (or the whole answer, where the library can do
without), and all memory is given back.

    test_faults.py [MOST]    tries at most MOST failing allocations of each call, 150 unless told otherwise
"""
import ctypes
import os
import re
import subprocess
import sys

MOST = int(sys.argv[1]) if len(sys.argv) > 1 else max(4, 150 // int(os.environ.get("PHAZE_TEST_PART", "1")))


def library_path():
    """The shared library that the package's module is linked with."""
    for folder in sys.path:
        module = os.path.join(folder, "phaze", "_phaze.abi3.so")
        if os.path.exists(module):
            found = re.search(r"libphaze\S* => (\S+)", subprocess.run(["ldd", module], capture_output=True, text=True, check=True).stdout)
            return found[1]
    raise SystemExit("the package phaze is not in PYTHONPATH")


class Allocator(ctypes.Structure):
    """struct pz_allocator, which counts blocks and fails once."""
    ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    RESIZE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    _fields_ = [("alloc", ALLOC), ("resize", RESIZE), ("free", FREE), ("ctx", ctypes.c_void_p)]

    def __init__(self):
        super().__init__()
        libc = ctypes.CDLL(None)
        self.malloc, self.realloc, self.release = libc.malloc, libc.realloc, libc.free
        self.malloc.restype = self.realloc.restype = ctypes.c_void_p
        self.malloc.argtypes, self.realloc.argtypes, self.release.argtypes = [ctypes.c_size_t], [ctypes.c_void_p, ctypes.c_size_t], [ctypes.c_void_p]
        self.live = self.calls = self.fails_at = 0
        self.alloc, self.resize, self.free = self.ALLOC(self.do_alloc), self.RESIZE(self.do_resize), self.FREE(self.do_free)

    def is_failing(self):
        self.calls += 1
        return self.calls == self.fails_at

    def do_alloc(self, _, size):
        if self.is_failing():
            return None
        self.live += 1
        return self.malloc(size)

    def do_resize(self, _, block, size):
        if self.is_failing():
            return None
        self.live += not block
        return self.realloc(block, size)

    def do_free(self, _, block):
        self.live -= 1
        self.release(block)


allocator = Allocator()
shared = ctypes.CDLL(library_path())
if shared.pz_alloc_use(ctypes.byref(allocator), None) != 0:
    raise SystemExit("the allocator cannot be set")

import phaze  # noqa: E402  pylint: disable=wrong-import-position

CALLS = {
    "predict": lambda: phaze.predict("gpt2", "h100", "dgx-h100", devices=8, batch=64).step_s,
    "predict_many": lambda: [p.step_s for p in phaze.predict_many(
        "gpt2", "h100", "dgx-h100", [{"devices": 8, "pp": pp, "batch": 64, "mbs": mbs} for pp in (1, 2) for mbs in (1, 2)], threads=1)],
    "place": lambda: phaze.place("gpt2", "h200", devices=2, batch=8, seq=64, threads=1).step_s,
    "changes": lambda: len(str(phaze.predict("gpt2-xl", "h200", devices=1, batch=256, mbs=256).changes())),
}


def main():
    wrong = 0
    for name, call in CALLS.items():
        right = call()
        call()  # caches of Python are filled
        before, allocator.calls = allocator.live, 0
        assert call() == right
        n, errors = allocator.calls, 0
        for at in sorted({1 + i * (n - 1) // max(1, MOST - 1) for i in range(MOST)}):
            allocator.calls, allocator.fails_at = 0, at
            try:
                if call() != right:
                    print(f"{name}: another answer when allocation {at} fails")
                    wrong += 1
            except phaze.NoMemory as error:
                errors += 1
                if "out of memory" not in str(error):
                    print(f"{name}: allocation {at} fails with '{error}'")
                    wrong += 1
            allocator.fails_at = 0
            if allocator.live != before:
                print(f"{name}: {allocator.live - before} blocks are lost when allocation {at} fails")
                wrong += 1
                before = allocator.live
        print(f"{name}: {n} allocations, {errors} errors")
        if not errors:
            wrong += 1
    sys.exit(1 if wrong else 0)


main()
