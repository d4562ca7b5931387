"""The questions: estimate, schedule, predict, place, search, validate."""
from __future__ import annotations

import math
import os
import tempfile
import warnings
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from . import _records as records
from ._errors import BadUse, NoAnswer, call
from ._machine import (Chip, Cluster, Machine, Path, PhazeWarning, Workload, of_device)
from ._phaze import ffi, lib
from ._results import (ChipPlacement, Estimate, Placement, Prediction, Scaling, Schedule,
                       SearchResult, Validation, Verification)
from ._run import Progress, Run
from ._values import Options, Record, _enumerator, _text, option_names

AnyChip = Union[str, "os.PathLike[str]", Mapping[str, Any], Chip]
AnyCluster = Union[str, "os.PathLike[str]", Mapping[str, Any], Cluster, None]


def _takes(struct: str):
    """Name the options of a struct of phaze.h in the docstring of the function that takes them."""

    def named(function):
        function.__doc__ += f"\n\n    Options (struct {struct} of phaze.h): " + ", ".join(
            option_names(struct)) + ".\n    "
        return function

    return named


def _warn_of(model: Path, seq: Optional[int]) -> None:
    """Say what the model says of itself: a sequence that is longer than its positions."""
    if seq:
        Workload.load(model, seq=seq)


# ---- operators -------------------------------------------------------------------------------


def _loaded(model: Union[Path, Workload], options: Mapping[str, Any]) -> Workload:
    if isinstance(model, Workload):
        if options:
            raise TypeError("options are for a model's name, not for a Workload: "
                            + ", ".join(options))
        return model
    return Workload.load(model, **options)


def _estimated(cost, layer, direction: int) -> List[Record]:
    out, e, ops = [], ffi.new("struct pz_estimate *"), layer.ops[direction]
    for i in range(ops.n):
        op = ops.op + i
        call(lib.pz_cost_op, cost, op, e)
        one = Record(layer=_text(layer.name), count=layer.count,
                     direction=_enumerator("enum pz_direction", direction), name=_text(op.name),
                     op_class=_text(lib.pz_op_class_name(op.op_class)))
        vars(one).update(vars(records.Estimate._read(e)))
        if op.op_class == lib.PZ_CLASS_NONE:
            one.bound = "none"
        out.append(one)
    return out


@_takes("pz_workload_options")
def estimate(model: Union[Path, Workload], chip: AnyChip, cluster: AnyCluster = None,
             **options: Any) -> Estimate:
    """Time, energy and bottleneck of every operator of a model on a chip.

    >>> import phaze
    >>> e = phaze.estimate("gpt2-xl", "h200", mbs=4)
    >>> e.backward_s > e.forward_s
    True
    >>> sorted({o.op_class for o in e.operators})
    ['fused', 'none', 'tensor', 'vector']
    """
    w = _loaded(model, options)
    machine = Machine(chip, cluster, of_device(w), "tp")
    cost, found, sums = machine.cost(), [], [[0.0, 0.0], [0.0, 0.0]]
    for i in range(w._c.n_layers):
        layer = w._c.layers + i
        for d in (lib.PZ_FORWARD, lib.PZ_BACKWARD):
            ops = _estimated(cost, layer, d)
            sums[d][0] += layer.count * sum(o.latency_s for o in ops)
            sums[d][1] += layer.count * sum(o.energy_j for o in ops)
            found += ops
    optimizer = ffi.new("struct pz_estimate *")
    lib.pz_cost_optimizer(machine.chip._c, w.totals.params, lib.PZ_ADAM_BYTES, optimizer)
    return Estimate(model=w.model, chip=machine.chip, operators=found, forward_s=sums[0][0],
                    backward_s=sums[1][0], forward_j=sums[0][1], backward_j=sums[1][1],
                    optimizer_s=optimizer.latency_s)


def product(chip: AnyChip, m: int, n: int, k: int, batch: int = 1, warm: bool = False) -> records.Mapping:
    """One matrix product batch x (m x k)(k x n) on a chip, and the mapping chosen for it.  `warm`: a call
    repeated on the same data, as benchmarks do.

    >>> import phaze
    >>> p = phaze.product("h200", 4096, 4096, 4096)
    >>> p.bound, 0.5 < p.utilisation < 1
    ('compute', True)
    """
    cost = Machine(chip, None, 1).cost()
    out = ffi.new("struct pz_mapping *")
    call(lib.pz_cost_product, cost,
         ffi.new("struct pz_product *", {"batch": batch, "m": m, "n": n, "k": k, "warm": warm}), out)
    return records.Mapping._read(out)


@_takes("pz_workload_options")
def schedule(model: Union[Path, Workload], chip: AnyChip, layer: str, direction: str = "forward",
             cluster: AnyCluster = None, *, steps: Optional[int] = None, modes: Optional[str] = None,
             **options: Any) -> Schedule:
    """The shortest schedule of one layer's operators on the cores of a chip.  `steps` limits the effort,
    `modes` is all, cores or two.

    >>> import phaze
    >>> s = phaze.schedule("gpt2", "tpuv4", "block")
    >>> s.optimal, s.lower_bound_s <= s.makespan_s
    (True, True)
    """
    w = _loaded(model, options)
    names = [_text(w._c.layers[i].name) for i in range(w._c.n_layers)]
    if layer not in names:
        raise BadUse(f"{w.model} has no layer {layer!r}; accepted: {', '.join(names)}")
    if direction not in ("forward", "backward"):
        raise BadUse(f"direction {direction!r}; accepted: forward, backward")
    machine = Machine(chip, cluster, of_device(w), "tp")
    o = Options("pz_schedule_options", {"steps": steps, "modes": modes}, "schedule")
    out = ffi.new("struct pz_layer_schedule **")
    call(lib.pz_schedule_layer, machine.cost(), w._c.layers + names.index(layer),
         ("forward", "backward").index(direction), o.c, out)
    try:
        found = Schedule._read(out[0])
    finally:
        lib.pz_layer_schedule_free(out[0])
    found.model, found.chip = w.model, machine.chip
    return found


# ---- plans -----------------------------------------------------------------------------------


@_takes("pz_plan")
def predict(model: Path, chip: AnyChip, cluster: AnyCluster = None, *, events: bool = False,
            **options: Any) -> Prediction:
    """What one training plan takes, as frameworks run it.  What is not given is as the framework does it;
    without a cluster the devices of one node are linked at the chip's own rate, more of them stand in the
    cluster that the chip stands in.  `events` keeps every event of the pipeline.

    >>> import phaze
    >>> p = phaze.predict("llama2-7b", "h100", "dgx-h100", devices=64, tp=4, batch=512)
    >>> p.plan.dp, p.fits
    (16, True)
    >>> abs(sum(vars(p.parts).values()) / p.step_s - 1) < 1e-9
    True
    >>> phaze.predict("llama2-7b", "h100", devices=64, batch=512).cluster.name
    'dgx-h100'
    """
    o = Options("pz_plan", options, "predict")
    degrees = [n or 1 for n in (o.c.tp, o.c.cp, o.c.pp, o.c.dp)]
    devices = o.c.devices or min(math.prod(degrees), 1 << 24)
    machine = Machine(chip, cluster, max(devices, 1), training=True)
    out = ffi.new("struct pz_training_run **")
    call(lib.pz_training_predict, os.fsencode(model), machine.chip._c, machine.net, o.c, events, out)
    run = ffi.gc(out[0], lib.pz_training_run_free)
    return Prediction._of(run, run, os.fspath(model), machine)


def _is_onnx(model: Path) -> bool:
    return os.fspath(model).endswith(".onnx")


def _place_training(model: Path, machine: Machine, o: Options, weak: bool = False) -> Placement:
    out = ffi.new("struct pz_training_plans **")
    name = os.fsencode(model)
    call(lib.pz_training_place, name, machine.chip._c, machine.net, o.c, out)
    found = ffi.gc(out[0], lib.pz_training_plans_free)
    if not found.n:
        call(lib.pz_training_nothing_fits, name, machine.chip._c, machine.net, o.c, weak, found)
    return Placement(
        model=os.fspath(model), chip=machine.chip, cluster=machine.cluster, devices=o.c.plan.devices,
        batch=o.c.plan.batch, certificate=records.PlanCertificate._read(found.certificate),
        plans=[Prediction._of(found.runs[i], found, os.fspath(model), machine)
               for i in range(found.n)],
        fastest=Prediction._of(found.fastest or found.runs[0], found, os.fspath(model), machine))


def _place_described(model: Path, machine: Machine, o: Options, given: Mapping[str, Any]) -> ChipPlacement:
    notes: List[Any] = []
    handle = ffi.new_handle(notes)
    o.c.note, o.c.note_ctx = lib.phaze_note, handle
    out = ffi.new("struct pz_partitions **")
    call(lib.pz_partition_model, os.fsencode(model), machine.chip._c, machine.net, o.c, out)
    try:
        plans = records.Partitions._read(out[0]).plans
    finally:
        lib.pz_partitions_free(out[0])
    wrote = (lib.PZ_LIST_TP if "tp" in given else 0) | (lib.PZ_LIST_MBS if "mbs" in given else 0)
    for lists, text in notes:
        if not lists or lists & wrote:
            warnings.warn(text, PhazeWarning, stacklevel=3)
    return ChipPlacement(model=os.fspath(model), chip=machine.chip, cluster=machine.cluster, plans=plans)


@ffi.def_extern()
def phaze_note(ctx, lists, text):
    ffi.from_handle(ctx).append((lists, _text(text)))


@_takes("pz_training_place_options")
@_takes("pz_plan")
def place(model: Path, chip: AnyChip, cluster: AnyCluster = None, *, devices: int = 1024,
          batch: int = 4096, seq: Optional[int] = None, top: int = 1, framework: Optional[str] = None,
          tie: float = 0.01, **options: Any) -> Union[Placement, ChipPlacement]:
    """The best plan to train a model on so many devices, proved.  Degrees that are given (tp, pp, dp, cp, ep,
    mbs, zero, recompute ...) are pinned, the others are searched; `top` plans are returned.  Plans within
    `tie` of the fastest are equal to the model: the first is the simplest of them, `fastest` the one with
    the shortest predicted step.  On a chip that is
    only described (chip.built is False) the answer is a ChipPlacement, with the options of struct
    pz_partition_options: tp=[1, 2, 4], mbs=[1, 2], recompute="full" ...

    >>> import phaze
    >>> best = phaze.place("llama3-8b", "h100", "dgx-h100", devices=16, batch=64, top=2)
    >>> best.proved, best.plan.devices, best.plans[0].step_s <= 1.01 * best.fastest.step_s
    (True, 16, True)
    >>> phaze.place("llama2-7b", "h100", devices=1, batch=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    phaze.NoAnswer: no plan of llama2-7b fits on 1 x h100: ...
    """
    machine = Machine(chip, cluster, devices, training=not _is_onnx(model))
    if not machine.chip.built or _is_onnx(model):
        workload = {**options.pop("workload", {}), **({"seq": seq} if seq else {})}
        if framework is not None:
            raise BadUse(f"framework {framework!r}: {machine.chip.name} is described, not built; "
                         "frameworks run on chips that are built")
        given = {"devices": devices, "batch": batch, "n_next": top - 1, "workload": workload or None,
                 **options}
        return _place_described(model, machine, Options("pz_partition_options", given, "place"), given)
    _warn_of(model, seq)
    of_plan = option_names("pz_plan")
    plan = Options("pz_plan", {"devices": devices, "batch": batch, "seq": seq, "framework": framework,
                               **{k: v for k, v in options.items() if k in of_plan}}, "place")
    o = Options("pz_training_place_options",
                {"top": top, "tie": tie, **{k: v for k, v in options.items() if k not in of_plan}}, "place")
    o.kept.append(plan)
    o.c.plan = plan.c[0]
    o.c.pinned = lib.pz_plan_given(plan.c) & lib.pz_plan_searched()
    return _place_training(model, machine, o)


def scale(model: Path, chip: AnyChip, cluster: AnyCluster = None, *, devices: Sequence[int],
          batch: int = 4096, batch_per_device: Optional[int] = None, **options: Any) -> Scaling:
    """How the best plan scales with the number of devices, at one batch (strong) or with so many samples
    a device (weak); options as for place.

    >>> import phaze
    >>> s = phaze.scale("llama3-8b", "h100", "dgx-h100", devices=[8, 16], batch_per_device=4)
    >>> [row.batch for row in s], s.rows[0].efficiency
    ([32, 64], 1.0)
    """
    rows: List[Record] = []
    first, why = 0.0, None
    for n in sorted(devices):
        samples = batch_per_device * n if batch_per_device else batch
        row = Record(devices=n, batch=samples, placement=None, tokens_per_s_per_device=0.0,
                     efficiency=0.0)
        try:
            row.placement = place(model, chip, cluster, devices=n, batch=samples, **options)
        except NoAnswer as none:
            why = none
        if isinstance(row.placement, ChipPlacement):
            raise BadUse(f"{row.placement.chip.name} is described, not built; accepted: a built chip")
        if row.placement:
            p = row.placement.best.p
            row.tokens_per_s_per_device = p.tokens / p.step_s / n
            first = first or row.tokens_per_s_per_device
            row.efficiency = row.tokens_per_s_per_device / first
        rows.append(row)
    if why and not first:
        raise why
    return Scaling(model=os.fspath(model), weak=bool(batch_per_device), rows=rows)


# ---- search ----------------------------------------------------------------------------------


def _study(models: Iterable[Path], space, budget, cluster, options: Dict[str, Any]) -> Options:
    given = {k: v for k, v in options.items() if v is not None}
    o = Options("pz_study_options", given, "search")
    names = [models] if isinstance(models, (str, os.PathLike)) else list(models)
    if not 1 <= len(names) <= lib.PZ_SEARCH_MOST_MODELS:
        raise BadUse(f"{len(names)} models; accepted: 1 to {lib.PZ_SEARCH_MOST_MODELS}")
    for i, name in enumerate(names):
        o.c.models[i] = o.keep(name)
    o.c.n_models = len(names)
    if budget is not None:
        o.c.budget = o.keep(budget)
    for field, value in (("space", space), ("cluster", cluster)):
        if isinstance(value, (Mapping, Cluster)):
            import json

            text = value if isinstance(value, Mapping) else value.to_dict()
            setattr(o.c, f"{field}_text", o.keep(json.dumps(text)))
        elif value is not None:
            setattr(o.c, field, o.keep(value))
    if "tp" not in given:  # of the default list what the devices allow
        while o.c.tp.n > 1 and o.c.tp.v[o.c.tp.n - 1] > o.c.devices:
            o.c.tp.n -= 1
    return o


@_takes("pz_study_options")
def search(models: Union[Path, Iterable[Path]], space: Union[Path, Mapping[str, Any], None] = None, *,
           budget: Union[str, float, None] = None, cluster: AnyCluster = None,
           output: Optional[Path] = None, fresh: bool = False, threads: int = 0,
           progress: Optional[Progress] = None, compare: bool = False, detail: bool = False,
           **options: Any) -> SearchResult:
    """The best chip of a design space for models, with proof.

    `space` is a name, a space.json file or such a description as a dict; `budget` a chip whose area is the
    limit, or mm2.  With `output` everything found is kept in that directory: a search that was interrupted
    goes on there when the same call is made again.  `progress` is told how far the search is
    (state.phase, done, total, note) in the thread of the caller; returning False stops the search, which
    then raises Stopped.  Ctrl-C stops it too: KeyboardInterrupt is raised when the run is closed.
    `compare` adds the other ways to choose a chip, `detail` what a report shows.

    >>> import phaze
    >>> mine = {"name": "mine", "about": "", "base": "tpuv4", "tensor_cores": [8, 16], "rows": [64],
    ...         "cols": [64], "vector_cores": [8, 16], "glb_mib": [8], "least_part": 0}
    >>> found = phaze.search("gpt2", mine, budget="tpuv4", devices=16, batch=64)
    >>> found.best.certificate.n_chips, found.chip.tensor.cores
    (4, 16)
    """
    study = _study(models, space, budget, cluster, options)
    with Run(output, fresh, threads, progress) as run:
        run.open(study)
        for name in ["search"] + ["compare"] * compare + ["detail"] * detail:
            run.do(name)
        return run.result()


def load_run(directory: Path, compare: bool = False, detail: bool = False,
             threads: int = 0) -> SearchResult:
    """The result of a finished search in a directory; nothing is written there."""
    with Run(directory, False, threads, None) as run:
        run.look()
        for name in ["compare"] * compare + ["detail"] * detail:
            run.do(name)
        return run.result()


@ffi.def_extern()
def phaze_check(ctx, holds, text):
    ffi.from_handle(ctx).append(Record(holds=bool(holds), text=_text(text)))


def verify(directory: Path, threads: int = 0, sample: Optional[int] = None) -> Verification:
    """Recompute the finished run in a directory and compare."""
    o = Options("pz_verify_options", {"threads": threads, "sample": sample}, "verify")
    checks: List[Record] = []
    handle = ffi.new_handle(checks)
    o.c.say, o.c.ctx = lib.phaze_check, handle
    holds = ffi.new("bool *")
    call(lib.pz_verify, os.fsencode(directory), o.c, holds)
    return Verification(holds=bool(holds[0]), checks=checks)


# ---- validation ------------------------------------------------------------------------------


def _tables(runs: Any, folder: str) -> List[Path]:
    """Paths of the tables; a DataFrame becomes a file."""
    tables = [runs] if isinstance(runs, (str, os.PathLike)) or hasattr(runs, "to_csv") else list(runs)
    for i, t in enumerate(tables):
        if hasattr(t, "to_csv"):
            tables[i] = os.path.join(folder, f"runs{i}.csv")
            t.to_csv(tables[i], index=False)
    return tables


def validate(runs: Any = None, *, ops: Optional[Path] = None, beside: Optional[Path] = None, chip: Path = "h200",
             limits: Optional[Path] = None, threads: int = 0) -> Validation:
    """Predictions beside measurements: of tables of training runs (paths of CSV files or DataFrames, columns
    as for 'phaze predict --runs'), of a table of operators measured on `chip`, of a table of kernels measured on it
    beside communication (columns as for 'phaze validate --beside'), or of the built-in data.

    >>> import phaze
    >>> phaze.validate("no-such.csv")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    phaze.FileError: ...
    """
    with tempfile.TemporaryDirectory() as folder:
        tables = _tables(runs, folder) if runs is not None else []
        o = Options("pz_validate_options", {"ops": ops, "beside": beside, "chip": chip, "limits": limits,
                                            "threads": threads}, "validate")
        names = ffi.new("const char *[]", [o.keep(t) for t in tables] + [ffi.NULL])
        o.c.runs = names
        out = ffi.new("struct pz_validation **")
        call(lib.pz_validate, o.c, out)
    try:
        return Validation._read(out[0])
    finally:
        lib.pz_validation_free(out[0])
