"""search against every chip of its space: random spaces, limits, objectives and models, both evaluators, each chip in a
space of its own, through the public interface alone; and what no winner may do, by formulas of this file.

    PYTHONPATH=build/release/python python3 tests/python/oracle_chips.py [SPACES [SEED]]

Prints a line for every difference.
"""
import itertools
import math
import os
import random
import sys
import tempfile

import phaze

AXES = {"tensor_cores": [4, 8, 12, 16, 24], "local_kib": [32, 64, 128], "vector_cores": [4, 8, 16], "lanes": [32, 64, 128],
        "glb_mib": [2, 4, 8, 16], "glb_bytes_per_cycle": [256, 512, 1024], "clock_mhz": [600, 800, 1000, 1400],
        "hbm_stacks": [1, 2], "link_gb_per_s": [10, 50, 200]}
PAPER = {"tensor_cores": [1, 2, 4, 8, 24], "vector_cores": [1, 2, 4, 16], "lanes": [64, 128], "glb_mib": [4, 8, 16, 32]}
MODELS = ["gpt2", "bert-base", "opt-125m"]
OBJECTIVES = ["throughput", "throughput", "mean", "weighted", "regret", "per-watt", "per-mm2", "per-dollar", "per-ownership", "per-joule"]


def some(r, values, most):
    return sorted(r.sample(values, r.randint(1, min(most, len(values)))))


def space_of(r, training, most):
    """A space of at most so many chips, and its lists."""
    while True:
        if training:
            lists = {k: some(r, v, 2) for k, v in AXES.items()}
            lists.update(nodes=some(r, ["7nm", "5nm", "16nm"], 2), arrays=some(r, ["16x16", "32x32", "32x64", "64x64"], 2),
                         hbm=some(r, ["hbm2e", "hbm3", "hbm3e"], 2))
        else:
            lists = {k: some(r, v, 3) for k, v in PAPER.items()}
            lists.update(arrays=some(r, ["64x64", "64x128", "128x128", "32x32"], 2))
        if 2 <= math.prod(map(len, lists.values())) <= most:
            return lists


def space_text(lists, training):
    top = {k: v for k, v in lists.items() if k in ("nodes", "arrays", "hbm")}
    text = {"name": "drawn", "about": "", **top, "axes": {k: v for k, v in lists.items() if k not in top}}
    return text if training else {**text, "base": "tpuv4", "least_part": 0}


def alone(lists):
    for values in itertools.product(*lists.values()):
        yield {k: [v] for k, v in zip(lists, values)}


def laws(found, options):
    """What a winner must not be: lists what is broken."""
    best, wrong = found.best, []
    chip = best.chip
    flop_per_s = 2 * chip.tensor.cores * chip.tensor.rows * chip.tensor.cols * chip.clock_hz
    for limit, value in (("limit_mm2", best.area_mm2), ("limit_dollars", best.dollars)):
        if options.get(limit) and value > options[limit] * (1 + 1e-12):
            wrong.append(f"{limit}: {value}")
    for m in best.models:
        if not m.training:
            if not 0 < m.plan.flop_utilisation <= 1:
                wrong.append(f"{m.model}: {m.plan.flop_utilisation} of peak")
            if m.plan.lower_bound_s > m.plan.step_s * (1 + 1e-12):
                wrong.append(f"{m.model}: bound {m.plan.lower_bound_s} above {m.plan.step_s}")
            for k, stage in enumerate(m.plan.stages):
                if stage.memory_bytes > m.plan.hbm_bytes:
                    wrong.append(f"{m.model}: stage {k} holds {stage.memory_bytes}")
            if m.plan.tp * m.plan.pp * m.plan.dp > options["devices"]:
                wrong.append(f"{m.model}: too many devices")
            continue
        t, p = m.training, m.training.plan
        seq = options["workload"]["seq"]
        layers, hidden = 12, 768  # of all MODELS
        params = 12 * layers * hidden ** 2
        tokens, devices = options["batch"] * seq, p.tp * p.cp * p.pp * p.dp
        link, hbm = chip.link.bytes_per_s, chip.hbm.stacks * chip.hbm.bytes_per_s_per_stack
        micro = options["batch"] // p.dp // p.mbs
        least = {"FLOP at peak": 6 * params * tokens / devices / flop_per_s,
                 "HBM bytes of the optimizer": 12 * params / (p.tp * p.pp * p.dp * p.cp) / hbm,
                 "gradients on the link": 2 * params / (p.tp * p.pp) * (1 - 1 / p.dp) / link if p.dp > 1 else 0,
                 "activations on the link": micro * layers // p.pp * 4 * (1 - 1 / p.tp) * p.mbs * seq // p.cp * hidden * 2 / link
                 if p.tp > 1 else 0}
        wrong += [f"{m.model}: {what} take {s:.4g} s, the step {t.step_s:.4g}" for what, s in least.items() if s > t.step_s]
        if abs(sum(vars(t.parts).values()) / t.step_s - 1) > 1e-9 or min(vars(t.parts).values()) < 0:
            wrong.append(f"{m.model}: parts {t.parts}")
        if not 0 < t.mfu <= 1:
            wrong.append(f"{m.model}: MFU {t.mfu}")
        if options.get("limit_watts") and t.full_watts > options["limit_watts"] * (1 + 1e-9):
            wrong.append(f"{m.model}: {t.full_watts} W")
        if devices > options["devices"] or p.mbs * p.dp * micro != options["batch"]:
            wrong.append(f"{m.model}: {p}")
    return wrong


def placed(found, folder, options):
    """The winner's steps by place, with the files that the search wrote."""
    wrong = []
    for m in found.best.models:
        best = phaze.place(m.model, f"{folder}/chip.json", f"{folder}/cluster.json", devices=options["devices"], batch=options["batch"],
                           seq=options["workload"]["seq"], tie=0, framework="compiled", all_devices=True, evaluator="training", threads=1,
                           **({"execution": "serial"} if options.get("serial") else {}))
        if best.step_s != m.training.step_s:
            wrong.append(f"{m.model} on {found.best.chip.name}: place has {best.step_s!r}, search {m.training.step_s!r}")
    return wrong


def value_of(objective, one, weights, tops):
    """The objective by the numbers of a chip alone; None: not told here."""
    ratios, rates = [m.ratio for m in one.models], [m.samples_per_s for m in one.models]
    n = len(ratios)
    if objective == "throughput" or (objective == "regret" and n == 1):  # nothing to regret on its own best chip
        return math.prod(ratios) ** (1 / n)
    if objective == "mean":
        return sum(rates) / n
    if objective == "weighted":
        return math.exp(sum(w * math.log(x) for w, x in zip(weights, ratios)) / sum(weights))
    if objective == "regret":
        return min(x / t for x, t in zip(rates, tops))
    return one.objective


def case_of(r, i, most):
    training = i % 2 == 0
    lists = space_of(r, training, most)
    models = r.sample(MODELS, r.choice([1, 1, 2]))
    options = {"devices": r.choice([2, 4, 8]), "batch": r.choice([4, 8, 12]), "workload": {"seq": r.choice([32, 64, 96])}, "gap": 0, "threads": 1,
               "objective": r.choice(OBJECTIVES if training else OBJECTIVES[:7])}
    if options["objective"] == "weighted":
        options["weight"] = [r.choice([0.5, 1, 3]) for _ in models]
    if training:
        options.update(scale_up=r.choice([1, 2, 4]), serial=r.random() < 0.4, outer_bytes_per_s=r.choice([5e9, 50e9]))
    else:
        options.update(evaluator="original", mbs=some(r, [1, 2, 4], 2), tp=some(r, [1, 2], 2), hbm_gib=some(r, [1, 4, 32], 2), steps=r.choice([300, 2000]),
                       state=r.choice([2.0, 3.0]))
    chips = list(alone(lists))
    bills = [phaze.search(models[:1], space_text(c, training), **{**options, "objective": "throughput", "weight": None, "limit_mm2": 5000}).best
             for c in r.sample(chips, 2)]
    options["limit_mm2"] = max(b.area_mm2 for b in bills) * r.choice([0.9, 1.0, 1.05, 1.5, 20])
    if training and r.random() < 0.6:
        options["limit_watts"] = r.choice([b.peak_watts for b in bills]) * r.choice([0.5, 0.8, 1.2])
    if training and r.random() < 0.3:
        options["limit_dollars"] = max(b.dollars for b in bills) * r.choice([0.8, 1.01, 2])
    return training, lists, models, options


def judge(training, lists, models, options):
    wrong, ones, beyond = [], [], 0
    for chip in alone(lists):
        try:
            ones.append(phaze.search(models, space_text(chip, training), **options).best)
        except phaze.NoAnswer:
            beyond += 1
    whole = space_text(lists, training)
    if not ones:
        try:
            return [f"no chip, but search has {phaze.search(models, whole, **options).best.chip.name}"]
        except phaze.NoAnswer:
            return []
    tops = [max(o.models[k].samples_per_s for o in ones) for k in range(len(models))]
    values = [value_of(options["objective"], o, options.get("weight"), tops) for o in ones]
    if options["objective"] != "regret" or len(models) == 1:
        wrong += [f"{o.chip.name}: objective {o.objective}, by its rates {v}" for o, v in zip(ones, values)
                  if not math.isclose(o.objective, v, rel_tol=1e-9)]
    want = max(values)
    for exhaustive in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            found = phaze.search(models, whole, exhaustive=exhaustive, output=folder, **options)
            best, c = found.best, found.best.certificate
            if training:
                wrong += placed(found, folder, options)
        how = "exhaustive" if exhaustive else "search"
        if not (want <= best.objective * (1 + c.gap) * (1 + 1e-9) and best.objective <= want * (1 + 1e-9)):
            wrong.append(f"{how}: best {best.objective!r} {best.chip.name}, gap {c.gap}, one by one {want!r} "
                         f"{ones[values.index(want)].chip.name}")
        elif not math.isclose(best.objective, want, rel_tol=1e-12):
            print(f"    within its gap of {c.gap:.3g}: {how} {best.objective!r}, one by one {want!r}")
        total = len(ones) + beyond
        if c.n_chips != total or c.n_infeasible + c.n_excluded + c.n_excluded_by_schedules + c.n_evaluated != total:
            wrong.append(f"{how}: {c}, chips {total}")
        if c.n_infeasible > beyond or (exhaustive and c.n_infeasible + c.n_evaluated != total):
            wrong.append(f"{how}: {c}, {beyond} beyond the limits")
        if exhaustive and c.n_infeasible != beyond:
            wrong.append(f"{how}: {c}, {beyond} beyond the limits")
        wrong += [f"{how}: {x}" for x in laws(found, options)]
    return wrong


def main():
    spaces = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    most = 4 if spaces <= 2 else 8
    only = int(os.environ.get("ONLY", -1))
    wrong = chips = 0
    for i in range(spaces):
        if only >= 0 and i != only:
            continue
        r = random.Random(f"{seed}-{i}")
        case = case_of(r, i, most)
        chips += math.prod(map(len, case[1].values()))
        got = judge(*case)
        if os.environ.get("VERBOSE"):
            print(i, "training" if case[0] else "original", case[3]["objective"], flush=True)
        if got:
            wrong += 1
            print("DIFFERS", i, *case, *(f"\n    {x}" for x in got), flush=True)
    print(f"{spaces} spaces, {chips} chips, {wrong} differ")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
