"""The questions: estimate, schedule, predict, explain, place, tune, emit, calibrate, explore, search, validate.

`plan_fields` and `workload_fields` of a signature are written out by build_cffi.py: every field of struct pz_plan or
pz_workload_options that the function does not name itself is a named parameter, None by default.
"""
from __future__ import annotations

import json
import os
import pathlib
import tempfile
import warnings
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _records as records
from ._errors import BadInput, BadUse, FileError, call
from ._machine import (Chip, Cluster, Machine, Path, PhazeWarning, Workload, chips as all_chips, of_device)
from ._phaze import ffi, lib
from ._results import (Calibration, ChipComparison, ChipPlan, Difference, Estimate, Explanation, InstancePlan, OperatorTimes,
                       Original, Placement, PlanSchedules, PowerTable, Prediction, Predictions, Report, RunPlan, Runs,
                       Scaling, Schedule, SearchResult, StepCalibration, Tuning, Validation, Verification)
from ._values import (MOST_NUMBERS, Options, Record, _enumerator, _text, as_json, encoded, file_bytes, listed, made_text,
                      pairs)
from ._watch import Progress, Run, Watch

# of a list of texts
MOST_TEXTS = 4096

AnyChip = Union[str, "os.PathLike[str]", Mapping[str, Any], Chip]
AnyCluster = Union[str, "os.PathLike[str]", Mapping[str, Any], Cluster, None]


def _warn_of(model: Path, seq: Optional[int]) -> None:
    """Say what the model says of itself: a sequence that is longer than its positions."""
    if seq:
        Workload.load(model, seq=seq)


# ---- operators -------------------------------------------------------------------------------


def _loaded(model: Union[Path, Workload], options: Mapping[str, Any]) -> Workload:
    given = [k for k, v in options.items() if v is not None]
    if isinstance(model, Workload):
        if given:
            raise TypeError("these are for a model's name, not for a Workload: " + ", ".join(given))
        return model
    return Workload._load(model, options)


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


def estimate(model: Union[Path, Workload], chip: AnyChip, cluster: AnyCluster = None, *,
             workload_fields=None) -> Estimate:
    """Time, energy and bottleneck of every operator of a model on a chip.

    >>> import phaze
    >>> e = phaze.estimate("gpt2-xl", "h200", mbs=4)
    >>> e.backward_s > e.forward_s
    True
    >>> sorted({o.op_class for o in e.operators})
    ['fused', 'none', 'tensor', 'vector']
    """
    w = _loaded(model, workload_fields)
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
    asked = Options("pz_product", {"batch": batch, "m": m, "n": n, "k": k, "warm": warm}, "product")
    call(lib.pz_cost_product, cost, asked.c, out)
    return records.Mapping._read(out)


def estimate_ops(ops: Any, chip: AnyChip, cluster: AnyCluster = None) -> OperatorTimes:
    """Every operator of a table as a benchmark loop would measure it: the path of a CSV file or a DataFrame with
    columns op, batch (or b), m, n, k, and extra where an operator needs more (doc/cost.md).

    >>> import phaze, tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("op,batch,m,n,k\\ngemm,1,4096,4096,4096\\n")
    ...     file.flush()
    ...     phaze.estimate_ops(file.name, "h200").rows[0].op
    'gemm'
    """
    machine = Machine(chip, cluster, 1)
    name, data = file_bytes(ops)
    found = OperatorTimes._read(Watch().made("pz_op_times", lib.pz_op_times_free, lib.pz_cost_table, machine.cost(),
                                             name, data, len(data)))
    found.chip = machine.chip
    return found


def power(ops: Any, chip: AnyChip) -> PowerTable:
    """Watts, clock and joules of operators that ran for seconds, beside what was measured: the path of a CSV file or a
    DataFrame with columns op, b (or batch), m, n, k; call_us, watts, sm_mhz, joules_per_call as measured.
    """
    own = Chip.of(chip)
    name, data = file_bytes(ops)
    found = PowerTable._read(Watch().made("pz_power_table", lib.pz_power_table_free, lib.pz_power_table, own._c, name,
                                          data, len(data)))
    found.chip = own
    return found


def silicon() -> List[records.Silicon]:
    """The constants of a chip's bill: `value` at 16, 7, 5 and 3 nm, `low` and `high` as factors, source.

    >>> import phaze
    >>> all(len(c.value) == 4 and c.source for c in phaze.silicon())
    True
    """
    found: List[records.Silicon] = []
    while c := lib.pz_silicon_at(len(found)):
        found.append(records.Silicon._read(c))
    return found


def known(chip: str) -> records.Known:
    """What is known of the dies of a built-in chip, to judge its bill: die ("": nothing), mm2, watts.

    >>> import phaze
    >>> phaze.known("h100").mm2
    814.0
    """
    out = ffi.new("struct pz_known *")
    call(lib.pz_known_load, encoded(chip, "chip"), out)
    return records.Known._read(out)


def sources(chip: str) -> Dict[str, str]:
    """Where the numbers of a built-in chip come from.

    >>> import phaze
    >>> len(phaze.sources("h100")) > 0
    True
    """
    text = lib.pz_chip_preset_text(encoded(chip, "chip"))
    if not text:
        raise BadInput(f"there is no built-in chip {chip!r}; accepted: a name of chips()")
    return json.loads(ffi.string(text)).get("sources", {})


def _schedule_options(given: Dict[str, Any], caller: str) -> Options:
    if given["disable"] is not None and not isinstance(given["disable"], str):
        given = {**given, "disable": ",".join(listed("disable", given["disable"], MOST_TEXTS))}
    return Options("pz_schedule_options", given, caller)


def schedule(model: Union[Path, Workload], chip: AnyChip, layer: str, direction: str = "forward",
             cluster: AnyCluster = None, *, steps: Optional[int] = None, modes: Optional[str] = None,
             exclusive: Optional[str] = None, solver: Optional[str] = None, seconds: Optional[float] = None,
             disable: Union[str, Sequence[str], None] = None, lp: Optional[Path] = None, views: bool = False,
             workload_fields=None) -> Schedule:
    """The shortest schedule of one layer's operators on the cores of a chip.  `steps` limits the effort (-1: as the
    command does), `modes` is all, cores or two; with two, `exclusive` says what an operator on all cores excludes,
    all or class.  `solver` is exact, or ilp for the integer program by CBC within `seconds`; `disable` leaves
    techniques of the exact solver out, `lp` writes the integer program to a .lp or .mps file, `views` lists
    operators that take no time too.

    >>> import phaze
    >>> s = phaze.schedule("gpt2", "tpuv4", "block")
    >>> s.optimal, s.lower_bound_s <= s.makespan_s
    (True, True)
    """
    w = _loaded(model, workload_fields)
    names = [_text(w._c.layers[i].name) for i in range(w._c.n_layers)]
    if layer not in names:
        raise BadUse(f"{w.model} has no layer {layer!r}; accepted: {', '.join(names)}")
    if direction not in ("forward", "backward"):
        raise BadUse(f"direction {direction!r}; accepted: forward, backward")
    machine = Machine(chip, cluster, of_device(w), "tp")
    o = _schedule_options({"steps": steps, "modes": modes, "exclusive": exclusive, "solver": solver,
                           "seconds": seconds, "disable": disable, "lp": lp, "views": views}, "schedule")
    c = Watch().made("pz_layer_schedule", lib.pz_layer_schedule_free, lib.pz_schedule_layer, machine.cost(),
                     w._c.layers + names.index(layer), ("forward", "backward").index(direction), o.c)
    found = Schedule._read(c)._hold(c, c)
    found.model, found.chip = w.model, machine.chip
    return found


def schedule_instance(instance: Union[Path, Mapping[str, Any]], *, steps: Optional[int] = None,
                      exclusive: Optional[str] = None, solver: Optional[str] = None, seconds: Optional[float] = None,
                      disable: Union[str, Sequence[str], None] = None, lp: Optional[Path] = None,
                      views: bool = False) -> Schedule:
    """The shortest schedule of a problem in the original system's format: the path of a JSON file, or a dict.  Times
    are in its own unit; parameters as of schedule.

    >>> import phaze
    >>> two = {"num_tc": 1, "num_vc": 1, "edges": [], "ops": [
    ...     {"id": 0, "type": "TC", "latency": 3, "intra_op_latency": 3},
    ...     {"id": 1, "type": "VC", "latency": 2, "intra_op_latency": 2}]}
    >>> phaze.schedule_instance(two).makespan_s, phaze.schedule_instance(two, solver="ilp").makespan_s
    (3.0, 3.0)
    """
    o = _schedule_options({"steps": steps, "exclusive": exclusive, "solver": solver, "seconds": seconds,
                           "disable": disable, "lp": lp, "views": views}, "schedule_instance")
    name, data = file_bytes(instance)
    c = Watch().made("pz_layer_schedule", lib.pz_layer_schedule_free, lib.pz_schedule_instance, name, data, len(data),
                     o.c)
    return Schedule._read(c)._hold(c, c)


def schedule_plan(model: Path, chip: AnyChip, cluster: AnyCluster = None, *, steps: Optional[int] = None,
                  solver: Optional[str] = None, seconds: Optional[float] = None,
                  disable: Union[str, Sequence[str], None] = None, lp: Optional[Path] = None, views: bool = False,
                  plan_fields=None) -> PlanSchedules:
    """Schedules of the passes that a predicted step adds up, on a chip whose cores are scheduled: operators on cores,
    collectives on the link, within its watts.  The other parameters are those of predict and of schedule; `steps` None:
    the effort of a prediction.

    >>> import phaze
    >>> plan = {"framework": "compiled", "execution": "scheduled", "devices": 4, "tp": 2, "mbs": 2, "batch": 16, "halves": True}
    >>> s, p = phaze.schedule_plan("gpt2", "tpuv6e", **plan), phaze.predict("gpt2", "tpuv6e", **plan)
    >>> step = s.microbatches * sum(l.count * min(l.makespan_s, l.serial_s) for l in s.list)
    >>> abs(step / (p.step_s - p.parts.gradient_s - p.parts.optimizer_s) - 1) < 1e-9
    True
    """
    o = Options("pz_plan", plan_fields, "schedule_plan")
    how = _schedule_options({"steps": lib.PZ_PASS_STEPS if steps is None else steps, "solver": solver,
                             "seconds": seconds, "disable": disable, "lp": lp, "views": views}, "schedule_plan")
    machine = Machine(chip, cluster, _asked_devices(o), training=True)
    c = Watch().made("pz_plan_schedules", lib.pz_plan_schedules_free, lib.pz_training_schedule, encoded(model, "model"),
                     machine.chip._c, machine.net, o.c, how.c)
    found = PlanSchedules._read(c)
    found.model, found.chip = os.fspath(model), machine.chip
    found.list = [Schedule._read(c.list + i)._hold(c.list + i, c) for i in range(c.n)]
    for s in found.list:
        s.model, s.chip = found.model, found.chip
    return found


# ---- plans -----------------------------------------------------------------------------------


def _asked_devices(plan: Options) -> int:
    return max(lib.pz_plan_asked_devices(plan.c), 1)


def predict(model: Path, chip: AnyChip, cluster: AnyCluster = None, *, events: bool = False,
            network: bool = True, plan_fields=None) -> Prediction:
    """What one training plan takes, as frameworks run it.  What is not given is as the framework does it;
    without a cluster the devices of one node are linked at the chip's own rate, more of them stand in the
    cluster that the chip stands in.  `events` keeps every event of the pipeline.  Without `network`, collectives
    and transfers take no time, so that the step without its bubble is the compute of a rank alone.  The other
    parameters are the fields of struct pz_plan of phaze.h.

    >>> import phaze
    >>> p = phaze.predict("llama2-7b", "h100", "dgx-h100", devices=64, tp=4, batch=512)
    >>> p.plan.dp, p.fits
    (16, True)
    >>> abs(sum(vars(p.parts).values()) / p.step_s - 1) < 1e-9
    True
    >>> alone = phaze.predict("llama2-7b", "h100", "dgx-h100", devices=64, tp=4, batch=512, network=False)
    >>> alone.parts.tensor_s, alone.stage_s[0] < p.stage_s[0]
    (0.0, True)
    >>> phaze.predict("llama2-7b", "h100", devices=64, batch=512).cluster.name
    'dgx-h100'
    """
    o = Options("pz_plan", plan_fields, "predict")
    machine = Machine(chip, cluster, _asked_devices(o), training=True, network=network)
    out = ffi.new("struct pz_training_run **")
    call(lib.pz_training_predict, encoded(model, "model"), machine.chip._c, machine.net, o.c, events, out)
    run = ffi.gc(out[0], lib.pz_training_run_free)
    return Prediction._of(run, run, os.fspath(model), machine)


def predict_many(model: Path, chip: AnyChip, cluster: AnyCluster = None, plans: Any = (), *, network: bool = True,
                 threads: int = 0) -> Predictions:
    """Predictions of many plans in one call, each as of predict but several times as fast: plans that differ only in
    stages, replicas, batch, ZeRO and recomputation share the times of the layers.  `plans` is a list of dicts with
    fields of a plan, or a DataFrame with a column for each field.  A plan that cannot be predicted is None in the list,
    and its message is in `errors`.

    >>> import phaze
    >>> found = phaze.predict_many("llama2-7b", "h100", "dgx-h100",
    ...                            [{"devices": 64, "tp": tp, "pp": pp, "batch": 512} for tp in (2, 3, 4) for pp in (1, 2)])
    >>> len(found), sorted(found.errors)
    (6, [2, 3])
    >>> found[0].step_s == phaze.predict("llama2-7b", "h100", "dgx-h100", devices=64, tp=2, pp=1, batch=512).step_s
    True
    """
    if isinstance(plans, Mapping):
        raise TypeError("plans: found a dict; accepted: a list of dicts, one for each plan, or a DataFrame")
    rows = plans.to_dict("records") if hasattr(plans, "to_dict") else listed("plans", plans, MOST_NUMBERS)
    asked = [Options("pz_plan", row, "predict_many") for row in rows]
    by_devices: Dict[int, List[int]] = {}
    for i, o in enumerate(asked):
        by_devices.setdefault(_asked_devices(o), []).append(i)
    name, found = os.fspath(model), Predictions([None] * len(asked))
    for devices, members in by_devices.items():
        machine = Machine(chip, cluster, devices, training=True, network=network)
        array = ffi.new("struct pz_plan[]", [asked[i].c[0] for i in members])
        c = Watch().made("pz_training_sweep", lib.pz_training_sweep_free, lib.pz_training_sweep, encoded(model, "model"),
                         machine.chip._c, machine.net, array, len(members), threads)
        for k, i in enumerate(members):
            if c.runs[k]:
                found[i] = Prediction._of(c.runs[k], c, name, machine)
            else:
                found.errors[i] = _text(c.errors[k]) or ""
    return found


def predict_runs(runs: Any, *, threads: int = 0, network: bool = True) -> Runs:
    """Every training run of a table, predicted, with the errors where it has measured times: the path of a CSV file
    or a DataFrame with the columns of doc/predict.md; a model's name and a chip are enough.  `network` as for predict.
    """
    name, data = file_bytes(runs)
    function = lib.pz_runs_predict if network else lib.pz_runs_predict_alone
    c = Watch().made("pz_runs", lib.pz_runs_free, function, name, data, len(data), threads)
    return Runs._read(c)._hold(c, c)


def explain(model: Path, chip: AnyChip, cluster: AnyCluster = None, *, plan_fields=None) -> Explanation:
    """Where every field of a plan comes from, and which constants of the model count for it; parameters as for
    predict.

    >>> import phaze
    >>> e = phaze.explain("llama2-7b", "h100", "dgx-h100", devices=64, tp=4, batch=512)
    >>> {f.name: f.from_ for f in e.fields}["tp"]
    'given'
    >>> any(c.name == "launch_s" for c in e.constants)
    True
    """
    o = Options("pz_plan", plan_fields, "explain")
    machine = Machine(chip, cluster, _asked_devices(o), training=True)
    return Explanation._read(Watch().made("pz_explanation", lib.pz_explanation_free, lib.pz_training_explain,
                                          encoded(model, "model"), machine.chip._c, machine.net, o.c))


def _is_onnx(model: Path) -> bool:
    return encoded(model, "model").endswith(b".onnx")


def _placement(found, model: Path, machine: Machine, devices: int, batch: int) -> Placement:
    return Placement(
        model=os.fspath(model), chip=machine.chip, cluster=machine.cluster, devices=devices, batch=batch,
        certificate=records.PlanCertificate._read(found.certificate), late=bool(found.late), stopped=bool(found.stopped),
        plans=[Prediction._of(found.runs[i], found, os.fspath(model), machine) for i in range(found.n)],
        fastest=Prediction._of(found.fastest or found.runs[0], found, os.fspath(model), machine))


def _place_training(model: Path, machine: Machine, o: Options, progress: Optional[Progress]) -> Placement:
    watch = Watch(progress).attach(o.c)
    name = encoded(model, "model")
    found = watch.made("pz_training_plans", lib.pz_training_plans_free, lib.pz_training_place, name,
                       machine.chip._c, machine.net, o.c)
    if not found.n:
        watch.run(lambda: call(lib.pz_training_nothing_fits, name, machine.chip._c, machine.net, o.c, False, found))
    return _placement(found, model, machine, o.c.plan.devices, o.c.plan.batch)


def _place_described(model: Path, machine: Machine, given: Dict[str, Any]) -> Placement:
    o = Options("pz_partition_options", given, "place")
    notes: List[Any] = []
    handle = ffi.new_handle(notes)
    o.c.note, o.c.note_ctx = lib.phaze_note, handle
    o.kept.append(handle)
    found = Watch().made("pz_partitions", lib.pz_partitions_free, lib.pz_partition_model, encoded(model, "model"),
                         machine.chip._c, machine.net, o.c)
    plans = [ChipPlan._of(found.plans + i, found, os.fspath(model), machine) for i in range(found.n_plans)]
    wrote = (lib.PZ_LIST_TP if given["tp"] else 0) | (lib.PZ_LIST_MBS if given["mbs"] else 0)
    for lists, text in notes:
        if not lists or lists & wrote:
            warnings.warn(text, PhazeWarning, stacklevel=3)
    best = plans[0]
    gap = 1 - best.lower_bound_s / best.step_s if best.step_s > 0 else 0.0
    return Placement(model=os.fspath(model), chip=machine.chip, cluster=machine.cluster, devices=given["devices"],
                     batch=given["batch"], plans=plans, fastest=best, certificate=Record(gap=gap))


@ffi.def_extern()
def phaze_note(ctx, lists, text):
    ffi.from_handle(ctx).append((lists, _text(text)))


def _place_options(plan: Dict[str, Any], options: Dict[str, Any], caller: str) -> Options:
    o = Options("pz_training_place_options", options, caller)
    own = Options("pz_plan", plan, caller)
    o.kept.append(own)
    o.c.plan = own.c[0]
    o.c.pinned = lib.pz_plan_given(own.c) & lib.pz_plan_searched()
    return o


def _refuse(given: Mapping[str, Any], why: str) -> None:
    names = [k for k, v in given.items() if v is not None and v is not False]
    if names:
        raise BadUse(f"{', '.join(names)}: {why}")


def place(model: Path, chip: AnyChip, cluster: AnyCluster = None, *, devices: int = 1024,
          batch: int = 4096, seq: Optional[int] = None, top: int = 1, framework: Optional[str] = None,
          tie: float = 0.001, objective: Optional[str] = None, uniform: bool = False, all_devices: bool = False,
          risk: Optional[str] = None, without: Optional[str] = None,
          events: bool = False, tokens: Optional[float] = None, deadline_s: Optional[float] = None,
          threads: int = 0, seconds: float = 300, progress: Optional[Progress] = None,
          tp: Union[int, Sequence[int], None] = None, mbs: Union[int, Sequence[int], None] = None,
          recompute: Optional[str] = None, hbm_bytes: Optional[float] = None, state: Optional[float] = None,
          steps: Optional[int] = None, check: bool = False, first_stage_gradients: bool = False,
          workload: Optional[Mapping[str, Any]] = None, evaluator: Optional[str] = None,
          plan_fields=None) -> Placement:
    """The best plan to train a model on so many devices, proved.  Degrees that are given (tp, pp, dp, cp, ep,
    mbs, zero, recompute ...) are pinned, the others are searched; `top` plans are returned.  Plans within
    `tie` of the best are equal to the model: the first is the simplest of them, `fastest` the best.  A step
    counts as 1 + the error to expect of the plan times as long, unless `risk` is "none"; `without` names software
    that is not to be used ("te,deepep,hybridep,cuda-graphs").  With a `deadline_s` only plans with which a run over so many `tokens` ends by then;
    where none does the fastest, and the result is `late`.  `progress` is told how far the search is, in the thread of the caller;
    returning False stops it, which then raises Stopped, and Ctrl-C stops it too.  After `seconds` (0: never) the search ends
    with the best plans so far: the result is `stopped`, and certificate.gap says how much better a plan could be.

    ONNX files, and models on a chip of 45 or 22 nm that is only described, have the plans of the evaluator
    original: layers are scheduled on the chip's cores, and there are lists of tp and mbs to choose from, recompute,
    hbm_bytes of a device, `state` (bytes held for a byte of parameters), `steps` of each schedule, `check` by other
    code, first_stage_gradients (of the all-reduce, as the original system), and options of the `workload`.
    `evaluator`, training or original, chooses between the two.

    >>> import phaze
    >>> best = phaze.place("llama3-8b", "h100", "dgx-h100", devices=16, batch=64, top=2)
    >>> best.proved, best.plan.devices, best.plans[0].step_s <= 1.01 * best.fastest.step_s
    (True, 16, True)
    >>> phaze.place("gpt2", "tpuv4", devices=16, batch=64, tp=[1, 2]).plan.tp
    1
    >>> phaze.place("llama2-7b", "h100", devices=1, batch=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    phaze.NoAnswer: no plan of llama2-7b fits on 1 x h100: ...
    """
    machine = Machine(chip, cluster, devices, training=not _is_onnx(model))
    described = not machine.chip.built and not lib.pz_power_static_watts(machine.chip._c) > 0
    if evaluator not in (None, "default", "training", "original"):
        raise BadUse(f"evaluator {evaluator!r}; accepted: training, original")
    if evaluator == "original" or (evaluator != "training" and (described or _is_onnx(model))):
        _refuse({"framework": framework, "objective": objective, "risk": risk, "without": without,
                 "uniform": uniform, "all_devices": all_devices, "events": events, "tokens": tokens, "deadline_s": deadline_s, **plan_fields},
                f"for chips that are built or of 16 nm and below; {machine.chip.name} is neither" if described
                else "for models that frameworks train; an ONNX file is none" if _is_onnx(model)
                else "for the evaluator training")
        sizes = {**(workload or {}), **({"seq": seq} if seq else {})}
        return _place_described(model, machine, {
            "devices": devices, "batch": batch, "n_next": top - 1, "tp": tp, "mbs": mbs, "recompute": recompute,
            "hbm_bytes": hbm_bytes, "state": state, "steps": steps, "check": check,
            "first_stage_gradients": first_stage_gradients, "workload": sizes or None})
    _refuse({"hbm_bytes": hbm_bytes, "state": state, "steps": steps, "check": check,
             "first_stage_gradients": first_stage_gradients, "workload": workload},
            f"for chips of 22 nm; {machine.chip.name} is none")
    _warn_of(model, seq)
    o = _place_options({"devices": devices, "batch": batch, "seq": seq, "framework": framework, "tp": tp,
                        "mbs": mbs, "recompute": recompute, **plan_fields},
                       {"top": top, "tie": tie, "objective": objective, "risk": risk, "without": without,
                        "uniform": uniform, "all_devices": all_devices, "events": events, "threads": threads, "tokens": tokens,
                        "deadline_s": deadline_s, "seconds": seconds}, "place")
    return _place_training(model, machine, o, progress)


def place_instance(instance: Union[Path, Mapping[str, Any]], *, corrected: bool = False, compat: bool = False,
                   check: bool = False) -> InstancePlan:
    """The fastest plan of a placement problem in the original program's format, the path of a JSON file or a dict, and
    the time of the expert plan in it.  `corrected`: the gradient all-reduce counts the largest stage; `compat`: the
    expert plan is divided as the original program does; `check` by other code.

    >>> import phaze
    >>> node = {"parameterSize": 10, "activationSize": 1, "optimalLatencyFw": 1, "optimalLatencyBw": 2}
    >>> p = phaze.place_instance({
    ...     "maxMemoryPerDevice": 100, "maxDevices": 2, "bandwidth": 1e9, "mbsInBatch": 8,
    ...     "nodes": {"1": [{"id": 0, **node}, {"id": 1, **node}]},
    ...     "edges": {"1": [{"sourceId": 0, "destId": 1, "communicationCost": 1}]}})
    >>> p.tp, p.stages[0].nodes[0]
    (1, 0)
    """
    o = Options("pz_instance_options", {"corrected": corrected, "compat": compat, "check": check}, "place_instance")
    name, data = file_bytes(instance)
    return InstancePlan._read(Watch().made("pz_instance_plan", lib.pz_instance_plan_free, lib.pz_partition_instance,
                                           name, data, len(data), o.c))


def scale(model: Path, chip: AnyChip, cluster: AnyCluster = None, *, devices: Sequence[int],
          batch: int = 4096, batch_per_device: Optional[int] = None, tie: float = 0.001,
          objective: Optional[str] = None, uniform: bool = False, all_devices: bool = False,
          tokens: Optional[float] = None, deadline_s: Optional[float] = None, threads: int = 0,
          seconds: float = 300, progress: Optional[Progress] = None, plan_fields=None) -> Scaling:
    """How the best plan scales with the number of devices, at one batch (strong) or with so many samples
    a device (weak); parameters as for place.

    >>> import phaze
    >>> s = phaze.scale("llama3-8b", "h100", "dgx-h100", devices=[8, 16], batch_per_device=4)
    >>> [row.batch for row in s], s.rows[0].efficiency
    ([32, 64], 1.0)
    """
    choices = ffi.new("struct pz_choices *", Options._choices("devices", devices))
    numbers = choices.v[0:choices.n]
    machine = Machine(chip, cluster, max(numbers), training=True)
    if not machine.chip.built:
        raise BadUse(f"{machine.chip.name} is described, not built; accepted: a built chip")
    o = _place_options({"devices": min(numbers), "batch": batch, **plan_fields},
                       {"tie": tie, "objective": objective, "uniform": uniform, "all_devices": all_devices,
                        "threads": threads, "tokens": tokens, "deadline_s": deadline_s, "seconds": seconds}, "scale")
    found = Watch(progress).attach(o.c).made(
        "pz_scaling", lib.pz_scaling_free, lib.pz_training_scale, encoded(model, "model"), machine.chip._c, machine.net,
        o.c, choices, batch_per_device or 0)

    def row(r) -> Record:
        placement = None
        if r.run:
            placement = _placement(r.plans, model, machine, r.devices, r.batch)
            for p in [*placement.plans, placement.fastest]:
                p._owner = found
        return Record(devices=r.devices, batch=r.batch, placement=placement,
                      tokens_per_s_per_device=r.tokens_per_s_per_device, efficiency=r.efficiency)

    return Scaling(model=os.fspath(model), weak=bool(found.weak),
                   rows=[row(found.rows[i]) for i in range(found.n_rows)])._hold(found, found)


def read_plan(run: Union[Path, Mapping[str, Any], str], *, devices: Optional[int] = None,
              vocab: Optional[int] = None, variables: Optional[Mapping[str, Any]] = None,
              ignore: Sequence[str] = ()) -> RunPlan:
    """A training run that you have: the path of a launch script or list of arguments of Megatron-LM, of what emit
    writes for the other frameworks, of torchtitan's configuration in TOML, or of a plan file; their text (with a line end in it); or a plan file as a dict: {"model": "llama2-7b", "tp": 4, ...}.
    `vocab` is the size of the vocabulary where arguments name a tokenizer alone, `variables` values of
    variables of the script, `ignore` arguments to leave out though they are not covered.

    >>> import phaze
    >>> run = phaze.read_plan({"model": "llama2-7b", "chip": "h100", "devices": 64, "tp": 4, "batch": 512})
    >>> run.plan.tp, run.megatron
    (4, False)
    """
    o = Options("pz_run_plan_options", {"devices": devices, "vocab": vocab}, "read_plan")
    o.c.set = _texts(o, "variables", [f"{k}={v}" for k, v in pairs("variables", variables or {})])
    o.c.ignore = _texts(o, "ignore", ignore)
    name, data = (b"plan", encoded(run, "run")) if isinstance(run, str) and "\n" in run else file_bytes(run)
    out = ffi.new("struct pz_run_plan **")
    call(lib.pz_run_plan_read, b"plan" if isinstance(run, Mapping) else name, data, len(data), o.c, out)
    c = ffi.gc(out[0], lib.pz_run_plan_free)
    read = RunPlan._read(c)._hold(c, c)
    for note in read.notes:
        warnings.warn(note, PhazeWarning, stacklevel=3)
    return read


def _texts(o: Options, name: str, list_: Iterable[Path]):
    """A list of texts that ends with NULL."""
    made = ffi.new("const char *[]", [o.keep(t, name) for t in listed(name, list_, MOST_TEXTS)] + [ffi.NULL])
    o.kept.append(made)
    return made


def _machine_of(read: RunPlan, chip: Optional[AnyChip], cluster: AnyCluster) -> Machine:
    """The chip and the cluster that are given, or those of the run."""
    own = chip if chip is not None else read.chip
    if own is None:
        raise BadUse("the run names no chip; accepted: chip, and cluster")
    devices = lib.pz_plan_asked_devices(ffi.addressof(read._held(), "plan"))
    return Machine(own, cluster if cluster is not None else read.cluster, max(devices, 1), training=True)


def tune(run: Union[Path, Mapping[str, Any], str, RunPlan], chip: Optional[AnyChip] = None,
         cluster: AnyCluster = None, *, devices: Optional[int] = None, vocab: Optional[int] = None,
         variables: Optional[Mapping[str, Any]] = None, ignore: Sequence[str] = (),
         measured_s: Optional[float] = None, threads: int = 0, seconds: float = 300,
         progress: Optional[Progress] = None) -> Tuning:
    """What would make a training run faster: the best plan for the same devices and batch, and the single
    changes that bring most.  `run` and what it may leave open as for read_plan, which makes a RunPlan;
    `chip` and `cluster`: as the run says, unless they are given.  `measured_s`: seconds of a step of the run as it was
    measured (of a log what it shows), which corrects all times.  `seconds` as for place.

    >>> import phaze
    >>> t = phaze.tune({"model": "llama2-7b", "devices": 64, "tp": 8, "batch": 512}, "h100", "dgx-h100")
    >>> t.has_best, t.best.gain > 0, t.changes[0].gain > 0
    (True, True, True)
    """
    read = run if isinstance(run, RunPlan) else read_plan(run, devices=devices, vocab=vocab, variables=variables,
                                                          ignore=ignore)
    c = ffi.new("struct pz_run_plan *", read._held()[0])
    o = Options("pz_tune_options", {"threads": threads, "seconds": seconds,
                                    "measured_s": measured_s or c.measured_s}, "tune")
    machine = _machine_of(read, chip, cluster)
    for name, given, field, at in (("chip", chip, machine.chip, lib.PZ_RUN_CHIP),
                                   ("cluster", cluster, machine.cluster, lib.PZ_RUN_CLUSTER)):
        if given is not None:
            setattr(c, name, o.keep(field.name, name))
            getattr(c, "from")[at] = o.keep("given")
    found = Watch(progress).attach(o.c).made("pz_plan_tuning", lib.pz_plan_tuning_free, lib.pz_plan_tune, c,
                                             machine.chip._c, machine.net, o.c)
    tuning = Tuning._read(found)
    tuning.run, tuning.chip, tuning.cluster = read, machine.chip, machine.cluster
    return tuning


def diff(a: Union[Path, Mapping[str, Any], str, RunPlan],
         b: Optional[Union[Path, Mapping[str, Any], str, RunPlan]] = None,
         chip: Optional[AnyChip] = None, cluster: AnyCluster = None, *, changes: Optional[str] = None,
         devices: Optional[int] = None, vocab: Optional[int] = None,
         variables: Optional[Mapping[str, Any]] = None, ignore: Sequence[str] = ()) -> Difference:
    """What two training runs differ by: the `verdict` in a sentence, fields, terms of the step, memory of the fullest
    device, and a path of plans from `a` to `b`, on which each change has its seconds and bytes.  The runs and what they
    may leave open as for read_plan; `chip` and `cluster`: as each run says, unless they are given.  In place of `b`,
    `changes` of `a` by words: "tp 8, pp 2, recompute full", or the text of a plan; devices and batch stay.

    >>> import phaze
    >>> run = {"model": "llama2-7b", "devices": 64, "batch": 512, "tp": 8}
    >>> d = phaze.diff(run, {**run, "tp": 4, "recompute": "full"}, "h100", "dgx-h100")
    >>> [c.change for c in d.path]
    ['tp 8 -> 4', 'recompute none -> full']
    >>> abs(sum(c.step_s for c in d.path) - (d.b.p.step_s - d.a.p.step_s)) < 1e-9
    True
    >>> d = phaze.diff(run, None, "h100", "dgx-h100", changes="tp 4, recompute full")
    >>> d.changes, d.verdict.split()[2]
    ('tp 4, recompute full', 'faster:')
    """
    if (b is None) == (changes is None):
        raise BadUse("diff takes either b or changes; accepted: one of them")
    runs = [r if isinstance(r, RunPlan) else read_plan(r, devices=devices, vocab=vocab, variables=variables,
                                                       ignore=ignore) for r in (a, b) if r is not None]
    if changes is not None:
        changed = ffi.new("struct pz_run_plan **")
        call(lib.pz_run_plan_with, runs[0]._held(), encoded(changes, "changes"), changed)
        c = ffi.gc(changed[0], lib.pz_run_plan_free)
        runs.append(RunPlan._read(c)._hold(c, (c, runs[0])))
    machines = [_machine_of(r, chip, cluster) for r in runs]
    sides = [ffi.new("struct pz_diff_side *", {"size": ffi.sizeof("struct pz_diff_side"), "run": r._held(),
                                               "chip": m.chip._c, "net": m.net}) for r, m in zip(runs, machines)]
    out = ffi.new("struct pz_plan_diff **")
    call(lib.pz_plan_diff, *sides, out)
    return Difference._read(ffi.gc(out[0], lib.pz_plan_diff_free))


def emit(plan: Union[Prediction, Placement]) -> str:
    """A plan as the complete launch script of its framework: megatron, torchtitan, nemo or deepspeed, which
    predict and place are told by `framework`.  read_plan reads it back.

    >>> import phaze
    >>> script = phaze.emit(phaze.predict("llama2-7b", "h100", "dgx-h100", devices=64, tp=4, batch=512))
    >>> "--tensor-model-parallel-size 4" in script
    True
    >>> phaze.read_plan(script).plan.tp
    4
    """
    best = plan.best if isinstance(plan, Placement) else plan
    if not isinstance(best, (Prediction, ChipPlan)):
        raise TypeError(f"plan: found {type(best).__name__}; accepted: a Prediction or a Placement")
    if not isinstance(best, Prediction):
        raise BadUse("scripts are for plans of frameworks; this one is of a chip of 22 nm")
    return best.script()


def calibrate(ops: Path, chip: AnyChip, *, progress: Optional[Progress] = None) -> Calibration:
    """A chip whose constants are fitted to operators measured on it: `ops` is a table (columns
    op,b,m,n,k,extra,kernel_us; scripts/measure-ops makes one) or a folder of them, `chip` what to begin
    with.  The result's `chip` can be used wherever a chip can.
    """
    start = Chip.of(chip)
    o = Options("pz_calibrate_options", {"ops": ops}, "calibrate")
    found = Calibration._read(Watch(progress).attach(o.c).made(
        "pz_calibrated", lib.pz_calibrated_free, lib.pz_calibrate, start._c, o.c))
    for note in found.notes:
        warnings.warn(note, PhazeWarning, stacklevel=3)
    return found


def calibrate_steps(steps: Path, *, chip: Optional[Path] = None, cluster: Optional[Path] = None,
                    held: Optional[Path] = None, plan: Optional[Path] = None, devices: int = 0,
                    threads: int = 0) -> StepCalibration:
    """Predictions corrected by a few training steps that you measured: `steps` is a table as predict_runs() takes it,
    with step_time_s, or logs of Megatron-LM or torchtitan with commas between them; `plan` and `devices` are of logs
    that do not show them.  `chip` and `cluster`, names or files, are of rows that name none; `held` is a table of steps that
    only judge the correction.  The result's `chip` can be used wherever a chip can; None where steps are of several.
    """
    o = Options("pz_calibrate_steps_options",
                {"steps": steps, "held": held, "plan": plan, "chip": chip, "cluster": cluster, "devices": devices,
                 "threads": threads}, "calibrate_steps")
    found = StepCalibration._read(Watch().made("pz_step_calibration", lib.pz_step_calibration_free,
                                               lib.pz_calibrate_steps, o.c))
    for note in found.notes:
        warnings.warn(note, PhazeWarning, stacklevel=3)
    return found


def _installed_wasm() -> str:
    """explore.wasm of the installation or build folder that this package is of."""
    for folder in pathlib.Path(__file__).resolve().parents:
        for place in (folder / "share" / "phaze", folder / "wasm"):
            if (place / "explore.wasm").exists():
                return str(place / "explore.wasm")
    raise FileError("explore.wasm, the WebAssembly of the page, is not installed; accepted: its path as wasm")


def explore(models: Union[Path, Iterable[Path]], chip: Path, cluster: Optional[Path] = None, *,
            wasm: Optional[Path] = None, plan_fields=None) -> str:
    """One HTML page that finds plans by itself while chip and run are changed; it opens offline.  Models, chip and
    cluster are names or files; fields of the plan that are given are pinned.  `wasm`: explore.wasm of this version
    (None: of the installation).
    """
    o = Options("pz_explore_options", {"chip": chip, "cluster": cluster, "wasm": wasm or _installed_wasm()}, "explore")
    names = [models] if isinstance(models, (str, os.PathLike)) else models
    o.c.models = _texts(o, "models", names)
    plan = Options("pz_plan", plan_fields, "explore", default=o.c.plan)
    o.kept.append(plan)
    o.c.plan = plan.c[0]
    return made_text(lib.pz_explore_page, o.c, counted=True)


# ---- search ----------------------------------------------------------------------------------


def _study(models: Iterable[Path], space, cluster, options: Dict[str, Any]) -> Options:
    given = {k: v for k, v in options.items() if v is not None}
    o = Options("pz_study_options", given, "search")
    names = [models] if isinstance(models, (str, os.PathLike)) else listed("models", models, MOST_TEXTS)
    if not 1 <= len(names) <= lib.PZ_SEARCH_MOST_MODELS:
        raise BadUse(f"{len(names)} models; accepted: 1 to {lib.PZ_SEARCH_MOST_MODELS}")
    for i, name in enumerate(names):
        o.c.models[i] = o.keep(name, "model")
    o.c.n_models = len(names)
    for field, value in (("space", space), ("cluster", cluster)):
        if isinstance(value, (Mapping, Cluster)):
            text = value if isinstance(value, Mapping) else value.to_dict()
            setattr(o.c, f"{field}_text", o.keep(as_json(text).decode(), field))
        elif value is not None:
            setattr(o.c, field, o.keep(value, field))
    if "tp" not in given:  # of the default list what the devices allow
        while o.c.tp.n > 1 and o.c.tp.v[o.c.tp.n - 1] > o.c.devices:
            o.c.tp.n -= 1
    return o


def search(models: Union[Path, Iterable[Path]], space: Union[Path, Mapping[str, Any], None] = None, *,
           evaluator: Optional[str] = None, node: Optional[str] = None, budget: Union[str, float, None] = None,
           limit_mm2: Optional[float] = None, limit_watts: Optional[float] = None,
           limit_dollars: Optional[float] = None, devices: Optional[int] = None, batch: Optional[int] = None,
           objective: Optional[str] = None, weight: Optional[Sequence[float]] = None, each_model: bool = False,
           gap: Optional[float] = None, rounds: Optional[int] = None, seconds: Optional[float] = None,
           exhaustive: bool = False, pareto: bool = False, pareto_tolerance: Optional[float] = None,
           workload: Optional[Mapping[str, Any]] = None, scale_up: Optional[int] = None,
           outer_bytes_per_s: Optional[float] = None, cluster: AnyCluster = None,
           mbs: Union[int, Sequence[int], None] = None, hbm_gib: Union[int, Sequence[int], None] = None,
           tp: Union[int, Sequence[int], None] = None, state: Optional[float] = None, steps: Optional[int] = None,
           assumptions: int = 0, serial: bool = False, memory_margin: Optional[float] = None,
           output: Optional[Path] = None, fresh: bool = False, threads: int = 0, progress: Optional[Progress] = None, detail: bool = False) -> SearchResult:
    """The best chip of a design space for models, with proof.

    `space` is a name, a space.json file or such a description as a dict; `budget` a chip whose area, watts and
    dollars are the limits that are not given, or mm2.  `evaluator`: "training", by the best training plans
    (scale_up devices joined by the chip's links, outer_bytes_per_s between them; `serial`: operators one after
    another, not scheduled beside each other; `memory_margin` in per cent, as for `place`), or "original", by schedules of
    layers (cluster, mbs, hbm_gib, tp, state, steps); the default is original in the space paper, else training.
    With `output` everything found is kept in that directory: a search that was interrupted goes on there when the
    same call is made again.  `progress` is told how far the search is (state.phase, done, total, note) in the
    thread of the caller; returning False stops the search, which then raises Stopped.  Ctrl-C stops it too:
    KeyboardInterrupt is raised when the run is closed.  `detail` adds what a report shows.

    >>> import phaze
    >>> mine = {"name": "mine", "about": "", "base": "tpuv4", "tensor_cores": [8, 16], "rows": [64],
    ...         "cols": [64], "vector_cores": [8, 16], "glb_mib": [8]}
    >>> found = phaze.search("gpt2", mine, budget="tpuv4", devices=16, batch=64, evaluator="original")
    >>> found.best.certificate.n_chips, found.chip.tensor.cores
    (4, 16)
    >>> phaze.search("gpt2", mine, devices=16, batch=64).best.models[0].training.plan.tp
    1
    """
    study = _search_study(locals())
    with Run(output, fresh, threads, progress) as run:
        run.open(study)
        for name in ["search"] + ["detail"] * bool(detail):
            run.do(name)
        return run.result()


_SEARCHED = ("evaluator", "node", "limit_mm2", "limit_watts", "limit_dollars", "devices", "batch", "objective", "weight",
             "each_model", "gap", "rounds", "seconds", "exhaustive", "pareto", "pareto_tolerance", "workload",
             "scale_up", "outer_bytes_per_s", "mbs", "hbm_gib", "tp", "state", "steps", "assumptions", "serial")


def _search_study(given: Mapping[str, Any]) -> Options:
    options = {k: given[k] for k in _SEARCHED if k in given}
    if given.get("budget") is not None:
        options["budget"] = str(given["budget"])
    if given.get("memory_margin") is not None:
        options["memory_margin"] = repr(float(given["memory_margin"]))
    return _study(given["models"], given.get("space"), given.get("cluster"), options)


def compare(models: Union[Path, Iterable[Path]], space: Union[Path, Mapping[str, Any], None] = None, *,
            seed: Optional[int] = None, budget: Union[str, float, None] = None, limit_mm2: Optional[float] = None,
            devices: Optional[int] = None, batch: Optional[int] = None, objective: Optional[str] = None,
            weight: Optional[Sequence[float]] = None, exhaustive: bool = False,
            workload: Optional[Mapping[str, Any]] = None, cluster: AnyCluster = None,
            mbs: Union[int, Sequence[int], None] = None, hbm_gib: Union[int, Sequence[int], None] = None,
            tp: Union[int, Sequence[int], None] = None, state: Optional[float] = None, steps: Optional[int] = None,
            output: Optional[Path] = None, fresh: bool = False, threads: int = 0,
            progress: Optional[Progress] = None) -> SearchResult:
    """The searched chip beside every baseline, by the evaluator original: `comparison` of the result.  `seed`: of
    the baselines that draw at random; the other parameters as of search()."""
    study = _search_study({**locals(), "evaluator": "original"})
    with Run(output, fresh, threads, progress) as run:
        run.open(study)
        run.do("search")
        run.do("compare", seed)
        return run.result()


def _chip_word(given: AnyChip, path: str) -> Tuple[str, str]:
    """A chip's name and its word in a list: a built-in one's name, a path, or `path`, where the chip is written."""
    if isinstance(given, (str, os.PathLike)):
        return os.fspath(given), os.fspath(given)
    chip = Chip.of(given)
    if chip.name in all_chips() and chip == Chip.load(chip.name):
        return chip.name, chip.name
    pathlib.Path(path).write_text(json.dumps(chip.to_dict()), encoding="utf-8")
    return chip.name, path


def compare_chips(models: Union[Path, Iterable[Path]], chips: Union[AnyChip, Iterable[AnyChip]],
                  cluster: Optional[Path] = None, *, cold: bool = False,
                  devices: Union[int, Sequence[int], None] = None, batch: Optional[int] = None,
                  tokens: Optional[float] = None, price: Optional[float] = None,
                  prices: Union[Path, Mapping[str, float], None] = None, deadline_s: Optional[float] = None,
                  workload: Optional[Mapping[str, Any]] = None, scale_up: Optional[int] = None,
                  outer_bytes_per_s: Optional[float] = None, precision: Optional[str] = None,
                  peft: Optional[str] = None, fp8_recipe: Optional[str] = None, moment_bytes: Optional[float] = None,
                  mtp: bool = False, offload: Optional[str] = None, threads: int = 0,
                  progress: Optional[Progress] = None) -> ChipComparison:
    """Given chips beside each other: names, chip.json files, Chips and directories of saved searches, each with its best
    training plan of every model, in its own network or all in `cluster`.  Built chips run as they were measured,
    `cold`: all by their data sheets.  `precision`, `peft`, `fp8_recipe`, `moment_bytes`, `mtp` and `offload` are those of
    every plan, as for `place`.

    With `tokens` rows also have what a run costs on rented chips: devices, days, with a `price` or `prices` (dollars of a
    device for an hour; by chip's name a dict or a CSV file) run_dollars and tokens_per_dollar, and what is `cheapest`.
    With `deadline_s` one number of devices is the most that can be had, and rows have `deadline`: met, uncertain or missed;
    several `devices` are a row each.

    >>> import phaze
    >>> both = phaze.compare_chips("gpt2", ["h100", "gaudi3"], devices=8, batch=32, workload={"seq": 128})
    >>> [(row.chip, row.known, row.expected_error) for row in both]
    [('h100', 'measured', 0.045), ('gaudi3', 'cold', 0.198)]
    >>> rent = phaze.compare_chips("gpt2", ["h100", "gaudi3"], devices=[8, 16], batch=32, workload={"seq": 128},
    ...                            tokens=1e12, prices={"h100": 2.5, "gaudi3": 1})
    >>> [(row.chip, row.devices) for row in rent], sum(row.cheapest for row in rent)
    ([('h100', 8), ('h100', 16), ('gaudi3', 8), ('gaudi3', 16)], 1)
    """
    numbers = [] if devices is None else list(Options._choices("devices", devices)["v"])
    study = _search_study({"models": models, "devices": max(numbers, default=None), "batch": batch,
                           "workload": workload, "scale_up": scale_up, "outer_bytes_per_s": outer_bytes_per_s})
    asked = {"tokens": tokens, "price": price, "deadline_s": deadline_s}
    if tokens is None and (len(numbers) > 1 or price or prices is not None or deadline_s):
        raise BadUse("several devices, prices and a deadline require tokens")
    rent = Options("pz_rent_options", {**asked, "devices": numbers or None}, "compare_chips")
    for name, text in (("cluster", cluster), ("precision", precision), ("peft", peft), ("fp8_recipe", fp8_recipe),
                       ("moment_bytes", None if moment_bytes is None else repr(float(moment_bytes))),
                       ("mtp", "on" if mtp else None), ("offload", offload)):
        setattr(study.c, name, study.keep(text, name) if text is not None else ffi.NULL)
    run, watch = Options("pz_run_options", {"threads": threads}, "compare_chips"), Watch(progress)
    watch.attach(run.c)
    given = [chips] if isinstance(chips, (str, os.PathLike, Mapping, Chip)) else listed("chips", chips, MOST_TEXTS)
    texts: List[str] = []
    with tempfile.TemporaryDirectory() as folder:
        words = [_chip_word(c, os.path.join(folder, f"{i}.json")) for i, c in enumerate(given)]
        if isinstance(prices, Mapping):
            rows = [f"{word},{p!r}" for c, p in pairs("prices", prices)
                    for word in dict.fromkeys([w for n, w in words if n == os.fspath(c)] or [os.fspath(c)])]
            rent.c.prices = rent.keep("\n".join(["chip,dollars_per_device_hour", *rows]))
        elif prices is not None:
            name, data = file_bytes(prices)
            rent.c.prices = rent.keep(data.decode("utf-8", "replace"), "prices")
            rent.c.prices_name = rent.keep(os.fsdecode(name), "prices")
        names = encoded(",".join(word for _, word in words), "chips")
        watch.run(lambda: texts.append(made_text(
            lib.pz_chips_rent, study.c, names, cold, rent.c if tokens is not None else ffi.NULL, run.c)))
    return ChipComparison(rows=[Record(**row) for row in json.loads(texts[0])["chips"]])


def original(models: Iterable[Path], space: Union[Path, Mapping[str, Any], None] = None, *, alone: bool = False,
             budget: Union[str, float, None] = None, limit_mm2: Optional[float] = None, devices: Optional[int] = None,
             batch: Optional[int] = None, exhaustive: bool = False, workload: Optional[Mapping[str, Any]] = None,
             cluster: AnyCluster = None, mbs: Union[int, Sequence[int], None] = None,
             hbm_gib: Union[int, Sequence[int], None] = None, tp: Union[int, Sequence[int], None] = None,
             state: Optional[float] = None, steps: Optional[int] = None, threads: int = 0,
             progress: Optional[Progress] = None) -> Original:
    """The common chip under the assumptions of the original system's released code, corrected one by one; `alone`: also
    each assumption by itself.  Other parameters as of search()."""
    study = _search_study({**locals(), "evaluator": "original"})
    out, watch = ffi.new("struct pz_original *"), Watch(progress)
    watch.run(lambda: call(lib.pz_original_run, study.c, alone, threads, *watch.arguments(), out))
    found = Original._read(out)
    names = [(1 << i, _text(lib.pz_assumption_at(i).name)) for i in range(lib.PZ_ASSUMPTIONS)]
    for row in found.rows:
        row.assumptions = [name for bit, name in names if row.assumptions & bit]
    return found


def report(directory: Path, *, threads: int = 0, progress: Optional[Progress] = None) -> Report:
    """The report of the finished search in a directory; what it shows and the run does not have is made."""
    with Run(directory, False, threads, progress) as run:
        run.look()
        run.do("detail")
        if not lib.pz_run_result(run._c).training_detail:
            run.do("compare")
        result = lib.pz_run_result(run._c)
        tables = json.loads(made_text(lib.pz_result_text, result, lib.PZ_RESULT_REPORT, counted=True))["datasets"]
        return Report(html=made_text(lib.pz_result_text, result, lib.PZ_RESULT_PAGE, counted=True), datasets={
            name: [dict(zip(t["columns"], row)) for row in t["rows"]] for name, t in tables.items()})


def load_run(directory: Path, compare: bool = False, detail: bool = False,
             threads: int = 0) -> SearchResult:
    """The result of a finished search in a directory; nothing is written there."""
    with Run(directory, False, threads, None) as run:
        run.look()
        for name in ["compare"] * bool(compare) + ["detail"] * bool(detail):
            run.do(name)
        return run.result()


@ffi.def_extern()
def phaze_check(ctx, holds, text):
    ffi.from_handle(ctx).append(Record(holds=bool(holds), text=_text(text)))


def verify(directory: Path, threads: int = 0, sample: Optional[int] = None, all: bool = False) -> Verification:
    """Recompute the finished run in a directory and compare; `all`: search again, and check every box."""
    o = Options("pz_verify_options", {"threads": threads, "sample": sample, "all": all}, "verify")
    checks: List[Record] = []
    handle = ffi.new_handle(checks)
    o.c.say, o.c.ctx = lib.phaze_check, handle
    holds = ffi.new("bool *")
    o.kept.append(handle)
    Watch().run(lambda: call(lib.pz_verify, encoded(directory, "directory"), o.c, holds))
    return Verification(holds=bool(holds[0]), checks=checks)


# ---- validation ------------------------------------------------------------------------------


def _tables(runs: Any, folder: str) -> List[Path]:
    """Paths of the tables; a DataFrame becomes a file."""
    one = isinstance(runs, (str, os.PathLike)) or hasattr(runs, "to_csv")
    tables = [runs] if one else listed("runs", runs, MOST_TEXTS)
    for i, t in enumerate(tables):
        if hasattr(t, "to_csv"):
            tables[i] = os.path.join(folder, f"runs{i}.csv")
            t.to_csv(tables[i], index=False)
    return tables


def validate(runs: Any = None, *, ops: Optional[Path] = None, beside: Optional[Path] = None, chip: Path = "h200",
             limits: Optional[Path] = None, threads: int = 0, cold: bool = False,
             progress: Optional[Progress] = None) -> Validation:
    """Predictions beside measurements: of tables of training runs (paths of CSV files or DataFrames, columns
    as for 'phaze predict --runs'), of a table of operators measured on `chip`, of a table of kernels measured on it
    beside communication (columns as for 'phaze validate --beside'), or of the built-in data. `cold`: training runs
    alone, by the data sheets of their chips; the result's `cold` has the errors by chip and by family left out.

    >>> import phaze
    >>> phaze.validate("no-such.csv")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    phaze.FileError: ...
    """
    with tempfile.TemporaryDirectory() as folder:
        tables = _tables(runs, folder) if runs is not None else []
        o = Options("pz_validate_options", {"ops": ops, "beside": beside, "chip": chip, "limits": limits,
                                            "threads": threads, "cold": cold}, "validate")
        o.c.runs = _texts(o, "runs", tables)
        c = Watch(progress).attach(o.c).made("pz_validation", lib.pz_validation_free, lib.pz_validate, o.c)
        return Validation._read(c)._hold(c, c)
