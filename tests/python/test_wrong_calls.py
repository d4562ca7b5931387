"""Wrong calls of every function of the Python package: each ends with an error of the library, a TypeError or a
ValueError, or with an answer whose numbers are finite; none crashes, hangs or leaks.

    test_wrong_calls.py [CALLS [SEED]]    default 400 1; calls and seed are told where one fails

Every call is a right one with one or two of its parameters, of all that its signature has, replaced.  The calls are
made in a process of their own, so that its end is seen.
"""
import faulthandler
import inspect
import itertools
import math
import os
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings

import phaze
from phaze._phaze import lib
from phaze._values import names_of

SOURCE = os.environ["PHAZE_SOURCE"]
LONGEST_S = float(os.environ.get("PHAZE_LONGEST_S", "10"))  # of the processor's time, of one call
ALLOWED = (phaze.Error, TypeError, ValueError)
# the package's own names of exceptions of Python: a subclass of ValueError that says nothing of the parameter
STRANGE = (UnicodeError,)
# what may be not a number: there is no reference, nothing was counted
NOT_KNOWN = {"ratio", "mean", "bias", "worst", "memory_mean", "memory_bias", "memory_worst", "rank_correlation", "regret",
             "left_out", "families_mean", "spread", "value", "geometric_mean", "median", "least", "most"}


class Foreign:
    """An object of somebody else, which has any attribute and is no answer to anything."""

    def __repr__(self):
        return "Foreign()"


class Path:
    def __init__(self, text):
        self.text = text

    def __fspath__(self):
        return self.text

    def __repr__(self):
        return f"Path({self.text!r})"


def deep(n=3000):
    x = {}
    for _ in range(n):
        x = {"a": x}
    return x


WORDS = [w for n in dir(lib) if n.endswith("_names") for w in names_of(n)]


def wrong_value(rng, hint):
    """A value of any kind, often one of the parameter's type."""
    kinds = [
        lambda: rng.choice([None, True, False, ..., NotImplemented]),
        lambda: rng.choice([0, -1, 1, 2, 3, 4, 7, 8, 64, 1000, 1 << 20, (1 << 24) + 1, 1 << 31, -(1 << 31), 1 << 32, (1 << 63) - 1, 1 << 63,
                            -(1 << 63) - 1, 1 << 64, 10 ** 30]),
        lambda: rng.choice([math.nan, math.inf, -math.inf, -0.0, 0.5, 1e-320, 1e308, -1e308, 1e18, 2.0, 1 + 1j]),
        lambda: rng.choice(["", " ", "none", "all", "no such", "gpt2\0", "\0", "h100\0x", "\ud800", "a\udc80b", "ü", "\n", "1", "-1",
                            "nan", "%s%n", "../../etc/passwd", "/", "/dev/null", "/dev/zero", ".", "x" * 5000, "tp", "lora:1",
                            "lora:16:all", "a,b", "grad,,param", "{", "[]", "--tp 4\n", "\n\n", "\x1b[31m"]),
        lambda: rng.choice([b"", b"gpt2", b"\xff\xfe", bytearray(b"x"), memoryview(b"x")]),
        lambda: rng.choice([[], [2], [1, 2], [1.0], [1.0, 2.0, 3.0], [None], ["a"], [[1]], list(range(40)), list(range(100000)),
                            [math.nan], [-1], [1 << 70], ["gpt2", "gpt2"], ["gpt2"] * 100, ("x",), {1}, frozenset("ab"),
                            range(5), iter([1]), itertools.count(1)]),
        lambda: rng.choice([{}, {"a": 1}, {1: 2}, {None: None}, {"seq": -1}, {"seq": math.nan}, {"name": "x"}, {"rank": 4},
                            {"model": "gpt2", "tp": "x"}, {"\0": "\0"}, {"\ud800": 1}, {"h100": math.nan}, {"h100": "x"}, deep()]),
        lambda: rng.choice([Foreign(), Foreign, object(), type, repr, len, phaze, Path("gpt2"), Path("a\0"), Path(b"\xff"), Path(3)]),
        lambda: rng.choice(OBJECTS),
        lambda: rng.choice(WORDS + phaze.models() + phaze.chips() + phaze.clusters()),
    ]
    meant = [kinds[k] for word, k in (("int", 1), ("float", 1), ("float", 2), ("str", 3), ("str", 9), ("Sequence", 5), ("Iterable", 5),
                                      ("Mapping", 6), ("bool", 0)) if word in hint]
    return rng.choice(meant if meant and rng.random() < 0.6 else kinds)()


OBJECTS = []


def calls(folder):
    """Functions and methods with parameters that are right, and how often they are drawn."""
    data = os.path.join(SOURCE, "tests", "data")
    small = {"name": "small", "about": "", "base": "tpuv4", "tensor_cores": [1], "rows": [64], "cols": [32, 64], "vector_cores": [1],
             "glb_mib": [4], "least_part": 0}
    quick = {"space": small, "evaluator": "original", "budget": 60, "devices": 2, "batch": 4, "mbs": 1, "tp": 1, "steps": 20,
             "threads": 1, "workload": {"seq": 64}, "hbm_gib": 32}
    without = {k: v for k, v in quick.items() if k != "evaluator"}
    run_folder = os.path.join(folder, "run")
    phaze.search("gpt2", output=run_folder, **quick)
    ops, steps = os.path.join(folder, "ops.csv"), os.path.join(data, "steps.csv")
    with open(ops, "w", encoding="utf-8") as f:
        f.write("op,b,m,n,k,extra,kernel_us\n" + "gemm,1,4096,4096,4096,,210\n" * 2)
    plan = {"devices": 4, "batch": 8, "tp": 2}
    machine = {"model": "gpt2", "chip": "h100", "cluster": None}
    run = {"model": "gpt2", "chip": "h100", **plan}
    chip, net = phaze.Chip.load("h100"), phaze.Cluster.load("dgx-h100")
    p = phaze.predict("gpt2", "h100", **plan, events=True)
    best, scaled = phaze.place("gpt2", "h100", devices=2, batch=2, threads=1), phaze.scale("gpt2", "h100", devices=[1, 2], batch=2)
    described = phaze.place("gpt2", "tpuv4", devices=2, batch=4, tp=1, mbs=1, steps=20)
    work, read = phaze.graph("gpt2", seq=64), phaze.read_plan(run)
    layer, instance = phaze.schedule("gpt2", "tpuv4", "head", steps=20), os.path.join(data, "schedule", "I_n8_tc3_vc1.json")
    checked = phaze.validate(os.path.join(SOURCE, "examples", "runs.csv"), threads=1)
    copied = pickle.loads(pickle.dumps(p))
    report = phaze.report(run_folder, threads=1)
    OBJECTS.extend([chip, net, p, best, work, read, layer, copied, pickle.loads(pickle.dumps(read)), scaled, report,
                    pickle.loads(pickle.dumps(layer)), described.best])
    always = [(f, {}) for f in (phaze.models, phaze.chips, phaze.clusters, phaze.spaces, phaze.frameworks, phaze.silicon)]
    often = [
        (phaze.predict, {**machine, **plan}), (phaze.predict, {**machine, "pp": 3, "recompute": "full", "stage_recompute": [1, 1, 1]}),
        (phaze.graph, {"model": "gpt2", "seq": 64}), (phaze.Workload.load, {"model": "gpt2", "seq": 64}),
        (phaze.product, {"chip": "h100", "m": 64, "n": 64, "k": 64}), (phaze.known, {"chip": "h100"}), (phaze.sources, {"chip": "h100"}),
        (phaze.fields, {"file": "chip"}), (phaze.read_plan, {"run": run}), (phaze.emit, {"plan": p}), (phaze.diff, {"a": run, "b": run}),
        (phaze.schedule, {"model": "gpt2", "chip": "tpuv4", "layer": "head", "steps": 20, "seq": 64}),
        (phaze.schedule_instance, {"instance": instance, "steps": 20}),
        (phaze.place_instance, {"instance": os.path.join(data, "place", "chain.json")}),
        (phaze.estimate_ops, {"ops": os.path.join(data, "few_ops.csv"), "chip": "h200"}),
        (phaze.power, {"ops": os.path.join(data, "power.csv"), "chip": "h200"}),
        (phaze.Chip.load, {"name": "h100"}), (phaze.Chip.from_dict, {"description": chip.to_dict()}), (phaze.Chip.of, {"given": "h100"}),
        (phaze.Chip.from_json, {"text": '{"name": "x"}'}), (chip.replace, {"name": "x"}), (chip.bill, {}),
        (phaze.Cluster.load, {"name": "dgx-h100"}), (phaze.Cluster.from_dict, {"description": net.to_dict()}),
        (phaze.Cluster.of, {"given": "dgx-h100"}), (net.replace, {"name": "x"}), (net.reaching, {"devices": 16}),
        (phaze.Space.load, {"space": small}), (p.cost, {"tokens": 1e9}), (copied.cost, {"tokens": 1e9}), (p.page, {}), (p.trace, {}),
        (p.changes, {}), (p.script, {}), (best.page, {}), (scaled.page, {}), (described.best.trace, {}), (layer.trace, {}),
        (read.to_plan_file, {}), (checked.text, {}), (work.dot, {}), (report.to_frame, {"name": "layers"}),
        (phaze.explore, {"models": "gpt2", "chip": "h100", "wasm": instance}), (phaze.load_run, {"directory": run_folder}),
    ]
    sometimes = [
        (phaze.place, {**machine, "devices": 2, "batch": 2, "threads": 1}), (phaze.explain, {**machine, **plan}),
        (phaze.place, {"model": "gpt2", "chip": "tpuv4", "devices": 2, "batch": 4, "tp": 1, "mbs": 1, "steps": 20}),
        (phaze.scale, {**machine, "devices": [1, 2], "batch": 2, "threads": 1}), (phaze.estimate, {"model": "gpt2", "chip": "h200", "seq": 64}),
        (phaze.schedule_plan, {"model": "gpt2", "chip": "tpuv6e", "framework": "compiled", "execution": "scheduled", "steps": 20}),
        (phaze.tune, {"run": run, "threads": 1}), (phaze.predict_many, {**machine, "plans": [plan], "threads": 1}), (phaze.predict_runs, {"runs": os.path.join(SOURCE, "examples", "runs.csv"), "threads": 1}),
        (phaze.search, {"models": "gpt2", **quick}), (phaze.compare, {"models": "gpt2", **without}),
        (phaze.original, {"models": ["gpt2"], **without}), (phaze.compare_chips, {"models": "gpt2", "chips": ["h100"], "devices": 2, "batch": 2,
                                                                                "threads": 1, "workload": {"seq": 64}}),
        (phaze.report, {"directory": run_folder, "threads": 1}), (phaze.verify, {"directory": run_folder, "sample": 1, "threads": 1}),
        (phaze.calibrate, {"ops": ops, "chip": "h200"}), (phaze.calibrate_steps, {"steps": steps, "threads": 1}),
        (phaze.validate, {"runs": os.path.join(SOURCE, "examples", "runs.csv"), "threads": 1}),
    ]
    named = {f.__name__ for f, _ in always + often + sometimes}
    missing = [n for n in phaze.__all__ if inspect.isfunction(getattr(phaze, n)) and n not in named]
    assert not missing, missing
    return [(c, w) for group, w in ((always, 1), (often, 6), (sometimes, 2)) for c in group]


def not_finite(value, path=""):
    """The first number of an answer that is none."""
    if isinstance(value, float) and not math.isfinite(value):
        known = math.isnan(value) and path.rsplit(".", 1)[-1].split("[")[0] in NOT_KNOWN
        return None if known else f"{path} = {value}"
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    found = (not_finite(v, f"{path}.{k}" if isinstance(value, dict) else path) for k, v in items)
    return next((f for f in found if f), None)


def told(arguments):
    def brief(v):
        try:
            return ascii(v)[:300]
        except RecursionError:
            return "deep"

    return ", ".join(f"{k}={brief(v)}" for k, v in arguments.items())


def tried(function, arguments):
    """What is wrong with how a call ended; None: nothing."""
    start = time.process_time()
    try:
        answer = function(**arguments)
        if isinstance(answer, list):
            answer = answer[:3]
        repr(answer), str(answer)
        wrong = not_finite(answer.to_dict() if hasattr(answer, "to_dict") else answer)
    except ALLOWED as error:
        wrong = f"{type(error).__name__}: {error}" if isinstance(error, (phaze.Internal,) + STRANGE) or not str(error) else None
    except BaseException as error:  # pylint: disable=broad-except
        wrong = f"{type(error).__name__}: {error}"
    took = time.process_time() - start
    return wrong or (f"took {took:.1f} s" if took > LONGEST_S else None)


def child(n, seed):
    faulthandler.enable()
    warnings.simplefilter("ignore")
    if "PHAZE_SANITIZED" not in os.environ:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    rng, failed, slowest = random.Random(seed), 0, (0, "")
    only = os.environ.get("PHAZE_ONLY")
    with tempfile.TemporaryDirectory() as folder:
        drawn = calls(folder)
        os.chdir(folder)
        for i in range(n):
            (function, right), = rng.choices([c for c, _ in drawn], [w for _, w in drawn])
            hints = {k: str(x.annotation) for k, x in inspect.signature(function).parameters.items() if x.kind != x.VAR_POSITIONAL}
            arguments = dict(right)
            for _ in range(rng.choice((1, 1, 2, 3))):
                name = rng.choice([*hints]) if hints and rng.random() < 0.98 else "no_such"
                arguments[name] = wrong_value(rng, hints.get(name, ""))
                if name == "steps" and isinstance(arguments[name], (int, float)) and arguments[name] > 1000:
                    arguments[name] = 1000  # effort that is asked for is taken
            if only and int(only) != i:
                continue
            os.pwrite(3, f"{i}: {function.__qualname__}({told(arguments)})".encode()[:4000].ljust(4000), 0)
            faulthandler.dump_traceback_later(60 * LONGEST_S, exit=True)
            start = time.process_time()
            wrong = tried(function, arguments)
            faulthandler.cancel_dump_traceback_later()
            slowest = max(slowest, (time.process_time() - start, function.__qualname__))
            if wrong:
                failed += 1
                print(f"call {i} of seed {seed}: {function.__qualname__}({told(arguments)}): {wrong}", flush=True)
        os.chdir("/")
    print(f"{n} wrong calls, seed {seed}: {failed} ended as they should not; the longest took {slowest[0]:.2f} s ({slowest[1]})")
    return failed


def main():
    n, seed = ([int(a) for a in sys.argv[1:] if a != "child"] + [400, 1][len([a for a in sys.argv[1:] if a != "child"]):])[:2]
    if "child" in sys.argv:
        sys.exit(min(child(n, seed), 1))
    with tempfile.TemporaryFile() as last:
        os.dup2(last.fileno(), 3)
        done = subprocess.run([sys.executable, "-B", __file__, str(n), str(seed), "child"], pass_fds=(3,), check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"status {done.returncode} in call {os.pread(3, 4000, 0).decode(errors='replace').rstrip()}, seed {seed}")
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
