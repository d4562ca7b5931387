"""Answers: records with what people ask of them: text, frames, plots."""
from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence

from . import _records as records
from ._errors import BadUse, call
from ._machine import Chip, Cluster, Machine
from ._phaze import ffi, lib
from ._values import Options, Record, _text, encoded, enumerators, frame, made_text, scalars

# ---- words for people ------------------------------------------------------------------------


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns; a head that begins with > is right-aligned."""
    right = [h.startswith(">") for h in heads]
    lines = [[h.lstrip(">") for h in heads], *[[str(x) for x in r] for r in rows]]
    width = [max(len(line[k]) for line in lines) for k in range(len(heads))]
    return "\n".join("  ".join(x.rjust(w) if r else x.ljust(w) for x, w, r in zip(line, width, right))
                     .rstrip() for line in lines)


def seconds(x: float) -> str:
    for unit, one in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if x >= one:
            return f"{x / one:.4g} {unit}"
    return f"{x / 1e-9:.3g} ns"


def parts(at) -> List[records.PartInfo]:
    found: List[records.PartInfo] = []
    while at(len(found)):
        found.append(records.PartInfo._read(at(len(found))))
    return found


TIME_PARTS = parts(lib.pz_time_part_at)
MEMORY_PARTS = parts(lib.pz_memory_part_at)


# ---- predictions -----------------------------------------------------------------------------


class _Held:
    """A record that keeps the object of C that it was read from; a copy or a pickle is numbers alone."""

    def _hold(self, c, owner):
        self._c, self._owner = c, owner
        return self

    def __getstate__(self):
        return {k: v for k, v in vars(self).items() if k not in ("_c", "_owner")}

    def __setstate__(self, state) -> None:
        vars(self).update(state)

    def _held(self):
        if "_c" not in self.__dict__:
            raise TypeError(f"a {type(self).__name__} that was copied or pickled is numbers alone; make it again")
        return self._c


def _page(model: str, machine: Any, rows, n: int, weak: bool, explore: Optional[str]) -> str:
    """Plans as an HTML page."""
    kept = [ffi.new("char[]", encoded(t, what)) for t, what in ((model, "model"), (explore or "", "explore"))]
    net = machine.cluster._c if machine.cluster else ffi.NULL
    page = ffi.new("struct pz_plan_page *", {
        "size": ffi.sizeof("struct pz_plan_page"), "model": kept[0], "chip": machine.chip._c, "net": net, "rows": rows,
        "n_rows": n, "weak": weak, "explore": kept[1] if explore else ffi.NULL})
    return made_text(lib.pz_plan_page, page, counted=True)


class Prediction(_Held, records.TrainingRun):
    """What one plan takes.  `plan` has every choice, `parts` the seconds of a step, `peak` the memory of
    the fullest device, `stages` that of a device of every stage; step_s, mfu, samples_per_s and the
    other fields of struct pz_prediction are attributes too."""

    model: str
    chip: Chip
    cluster: Optional[Cluster]
    text: str

    @classmethod
    def _of(cls, c, owner, model: str, machine: Machine) -> "Prediction":
        o = cls._read(c)._hold(c, owner)
        o.model, o.chip, o.cluster = model, machine.chip, machine.cluster
        buffer = ffi.new("char[]", lib.PZ_PLAN_TEXT_MOST)
        o.text = _text(lib.pz_plan_text(ffi.addressof(c, "plan"), buffer, len(buffer))) or ""
        for k, stage in enumerate(o.stages):
            divided = lib.pz_training_run_stage(c, k)
            stage.layers, stage.recomputed_layers = divided.layers, divided.again
        return o

    def __getattr__(self, name: str) -> Any:
        p = self.__dict__.get("p")
        if name.startswith("_") or p is None:
            raise AttributeError(name)
        return getattr(p, name)

    @property
    def fits(self) -> bool:
        """The fullest device, and the host, have memory enough."""
        return self.p.needed_bytes <= self.p.usable_bytes and self.p.host_bytes <= self.p.usable_host_bytes

    def cost(self, tokens: float, *, price: Optional[float] = None, mtbf_s: Optional[float] = None,
             checkpoint_s: Optional[float] = None, restart_s: Optional[float] = None) -> records.RunCost:
        """What a run over so many tokens takes: price in dollars a device and hour, mean time between failures of
        a device, time to write a checkpoint and to restart.

        >>> import phaze
        >>> p = phaze.predict("llama2-7b", "h200", "dgx-h200", devices=64, tp=4, batch=512)
        >>> p.cost(tokens=2e12, price=2.5).dollars > 1e5
        True
        """
        o = Options("pz_run_cost_options", {"tokens": tokens, "price": price, "mtbf_s": mtbf_s,
                                            "checkpoint_s": checkpoint_s, "restart_s": restart_s}, "cost")
        out = ffi.new("struct pz_run_cost *")
        call(lib.pz_run_cost, self._held(), self.chip._c, o.c, out)
        return records.RunCost._read(out)

    def changes(self) -> List[records.PlanChange]:
        """For a plan that does not fit: single changes after which it does, or two together, the fastest first."""
        out = ffi.new("struct pz_plan_changes **")
        net = self.cluster._c if self.cluster else ffi.NULL
        call(lib.pz_training_changes, encoded(self.model, "model"), self.chip._c, net, self._held(), out)
        try:
            return records.PlanChanges._read(out[0]).list
        finally:
            lib.pz_plan_changes_free(out[0])

    def trace(self) -> str:
        """The pipeline of a prediction with events=True, as a trace-event file for Perfetto."""
        return made_text(lib.pz_training_run_trace, self._held(), encoded(self.model, "model"))

    def page(self, *, explore: Optional[str] = None) -> str:
        """The plan as one HTML page that opens offline: terms of the step, pipeline and memory over time.
        `explore`: the file name of a page of explore() that lies beside it.

        >>> import phaze
        >>> "<title>" in phaze.predict("llama2-7b", "h100", devices=8, tp=8, batch=64).page()
        True
        """
        row = ffi.new("struct pz_scaling_row *", {
            "devices": self.plan.devices, "batch": self.plan.batch, "run": self._held(), "efficiency": 1,
            "tokens_per_s_per_device": self.p.tokens_per_s_per_device})
        return _page(self.model, self, row, 1, False, explore)

    def script(self) -> str:
        """The plan as the launch script of its framework."""
        net = self.cluster._c if self.cluster else ffi.NULL
        return made_text(lib.pz_launch_text, encoded(self.model, "model"), self.chip._c, net,
                         ffi.addressof(self._held(), "plan"))

    @property
    def devices_used(self) -> int:
        return self.plan.devices

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "chip": self.chip.name,
                "cluster": self.cluster.name if self.cluster else None, "fits": self.fits}

    def row(self) -> Dict[str, Any]:
        """The numbers of this prediction in one dict without nesting."""
        return {"model": self.model, "chip": self.chip.name,
                "cluster": self.cluster.name if self.cluster else None, "text": self.text,
                **scalars(self.plan), **scalars(self.p), **scalars(self.p.parts),
                **scalars(self.p.peak), "hbm_bytes": self.hbm_bytes, "fits": self.fits}

    def to_frame(self):
        """One row."""
        return frame([self.row()])

    def plot(self, kind: Optional[str] = None, ax=None):
        """With matplotlib: "step" (its parts), "memory" (of every stage) or "pipeline" (needs a prediction
        with events=True); else all of them that there are."""
        from . import _plot

        return _plot.prediction(self, kind, ax)

    # -- text

    def _head(self, devices: int) -> List[str]:
        o, p = self.plan, self.p
        net = f" in {self.cluster.name}" if self.cluster else ""
        lines = [f"{self.model} on {devices} x {self.chip.name}{net}: {p.step_s:.4g} s per step"]
        if o.devices < devices:
            lines.append(f"{o.devices} devices are used, {devices - o.devices} idle")
        lines.append(f"plan:    {self.text}")
        lines.append(f"layers:  {self.layers_text}")
        if any(s.recomputed_layers for s in self.stages):
            lines.append(f"recompute: {self.recompute_text}")
        lines.append(f"batch:   {o.batch} x {o.seq} tokens, {p.microbatches} microbatches of "
                     f"{o.mbs} on each replica")
        lines.append(f"speed:   MFU {100 * p.mfu:.1f}% (conventional {100 * p.mfu_conventional:.1f}%), "
                     f"{p.samples_per_s:.4g} samples/s, "
                     f"{p.tokens_per_s_per_device:.4g} tokens/s per device, "
                     f"{p.flop_per_s_per_device / 1e12:.4g} TFLOP/s per device")
        fits = "" if self.fits else ": does not fit"
        lines.append(f"memory:  {p.peak_bytes / 1e9:.1f} GB, at most {p.needed_bytes / 1e9:.1f} reserved of {p.usable_bytes / 1e9:.1f} GB usable"
                     f"{fits} (stage {p.peak_stage + 1} of {o.pp} holds most)")
        if p.host_bytes > 0:
            lines.append(f"host:    {p.host_bytes / 1e9:.1f} of {p.usable_host_bytes / 1e9:.1f} GB usable for each device")
        e = self.expected
        if e.runs:
            lines.append(f"range:   {p.step_s * (1 - e.error):.4g} to {p.step_s * (1 + e.error):.4g} s in 8 of 10 runs, "
                         f"+-{100 * e.error:.0f}% ({e.of})")
        if e.beyond:
            lines.append(f"beyond the validated runs: {e.beyond}")
        if self.cluster and self.cluster.devices > self.cluster.stated_devices:
            lines.append(f"note:    {self.cluster.name} was scaled out from "
                         f"{self.cluster.stated_devices} devices")
        return lines

    def _tail(self) -> List[str]:
        p = self.p
        rows = [("attention and scans" if p.scan_layers and i.key == "attention_s" else i.label, f"{getattr(p.parts, i.key):.4g}",
                 f"{100 * getattr(p.parts, i.key) / p.step_s:.1f}%")
                for i in TIME_PARTS if getattr(p.parts, i.key) > 1e-3 * p.step_s]
        return ["", table(["part of the step", ">seconds", ">share"], rows)]

    def __str__(self) -> str:
        return "\n".join(self._head(self.plan.devices) + self._tail())


class Predictions(List[Optional[Prediction]]):
    """Predictions of many plans in their order: None for a plan that cannot be predicted, with its message in `errors`
    by position."""

    def __init__(self, found: Sequence[Optional[Prediction]] = ()):
        super().__init__(found)
        self.errors: Dict[int, str] = {}

    def to_frame(self):
        """A row for each plan as a pandas.DataFrame: what was predicted, and the fields of the plan."""
        return frame({**scalars(p.plan), **scalars(p.p), "fits": p.fits, "error": None} if p else {"error": self.errors[i]}
                     for i, p in enumerate(self))


class ChipPlan(_Held, records.Partition):
    """A plan on a chip of 22 nm, whose layers are scheduled on its cores.  It has what a prediction has of a plan:
    step_s, samples_per_s, peak_bytes, text, and in `plan` the degrees."""

    model: str
    chip: Chip
    cluster: Optional[Cluster]

    @classmethod
    def _of(cls, c, owner, model: str, machine: Machine) -> "ChipPlan":
        o = cls._read(c)._hold(c, owner)
        o.model, o.chip, o.cluster = model, machine.chip, machine.cluster
        return o

    @property
    def plan(self) -> Record:
        return Record(devices=self.devices_used, batch=self.batch, seq=self.seq, mbs=self.mbs, tp=self.tp,
                      pp=self.pp, dp=self.dp, recompute="full" if self.recompute else "none")

    def trace(self) -> str:
        """The pipeline as a trace-event file for Perfetto."""
        return made_text(lib.pz_partition_trace, self._held(), encoded(self.model, "model"))

    @property
    def peak_bytes(self) -> float:
        return max(s.memory_bytes for s in self.stages)

    @property
    def fits(self) -> bool:
        return self.peak_bytes <= self.hbm_bytes

    @property
    def text(self) -> str:
        return f"tp {self.tp}, pp {self.pp}, dp {self.dp}, mbs {self.mbs}, recompute {self.plan.recompute}"

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "chip": self.chip.name,
                "cluster": self.cluster.name if self.cluster else None}

    def row(self) -> Dict[str, Any]:
        """The numbers of this plan in one dict without nesting."""
        return {**scalars(self), "chip": self.chip.name, "cluster": self.cluster.name if self.cluster else None,
                "text": self.text, **scalars(self.parts), "peak_bytes": self.peak_bytes}

    def plot(self, kind: Optional[str] = None, ax=None):
        """With matplotlib: "step" or "memory"."""
        from . import _plot

        return _plot.chip_plan(self, kind, ax)

    def _head(self, devices: int) -> List[str]:
        net = f" in {self.cluster.name}" if self.cluster else ""
        idle = [f"{self.devices_used} devices are used, {devices - self.devices_used} idle"] \
            if self.devices_used < devices else []
        return [f"{self.model} on {devices} x {self.chip.name}{net}: {self.step_s:.4g} s per step", *idle,
                f"plan:    {self.text}",
                f"speed:   {100 * self.flop_utilisation:.1f}% of peak, {self.samples_per_s:.4g} samples/s",
                f"memory:  {self.peak_bytes / 1e9:.1f} of {self.hbm_bytes / 1e9:.1f} GB"]

    def _tail(self) -> List[str]:
        return ["", table([">stage", "layers", ">ms", ">GB"],
                          [(k + 1, ", ".join(x.name + (f" x {x.count}" if x.count > 1 else "") for x in s.layers),
                            f"{1e3 * s.load_s:.3g}", f"{s.memory_bytes / 1e9:.1f}")
                           for k, s in enumerate(self.stages)])]

    def __str__(self) -> str:
        return "\n".join(self._head(self.devices_used) + self._tail())


class Placement(Record):
    """The best plans of a training run, and the proof.  Attributes that it has not are those of the best plan:
    step_s, plan, parts ...  The plans are predictions; on a chip of 22 nm they are ChipPlans, and the
    certificate has the gap alone."""

    model: str
    chip: Chip
    cluster: Optional[Cluster]
    devices: int
    batch: int
    plans: List[Any]
    fastest: Any  # by prediction; the first of the plans is the simplest within the tie
    certificate: Record
    late: bool = False  # no plan ends by the deadline: these are the fastest
    stopped: bool = False  # before all was decided: the best so far, certificate.gap from the best

    @property
    def best(self) -> Any:
        return self.plans[0]

    @property
    def proved(self) -> bool:
        """No plan of the space is better."""
        return self.certificate.gap == 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not self.__dict__.get("plans"):
            raise AttributeError(name)
        return getattr(self.plans[0], name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.plans)

    def __len__(self) -> int:
        return len(self.plans)

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "chip": self.chip.name,
                "cluster": self.cluster.name if self.cluster else None}

    def page(self, *, explore: Optional[str] = None) -> str:
        """The best plan as an HTML page, as Prediction.page."""
        return self.best.page(explore=explore)

    def to_frame(self):
        """A row for every plan, the best first."""
        return frame(p.row() for p in self.plans)

    def plot(self, kind: Optional[str] = None, ax=None):
        """Of the best plan, as Prediction.plot."""
        return self.best.plot(kind, ax)

    def __str__(self) -> str:
        c = self.certificate
        proof = (f"proof:   {c.plans:,} plans: {c.solved:,} simulated, {c.by_bound:,} excluded by their "
                 f"bound, {c.by_memory:,} by memory; gap {c.gap:g}") if isinstance(c, records.PlanCertificate) \
            else f"proof:   no plan is faster by more than {100 * c.gap:.2g}%"
        fast = [] if self.fastest.text == self.best.text else [
            f"fastest: {self.fastest.step_s:.4g} s by prediction, {self.fastest.text}"]
        lines = self.best._head(self.devices) + fast + [proof] + self.best._tail()
        if len(self.plans) > 1:
            lines += ["", table([">s per step", ">slower", ">GB", "next best plan"],
                                [(f"{p.step_s:.4g}", f"{100 * (p.step_s / self.best.step_s - 1):+.2f}%",
                                  f"{p.peak_bytes / 1e9:.1f}", p.text) for p in self.plans[1:]])]
        return "\n".join(lines)


class InstancePlan(records.InstancePlan):
    """The fastest plan of a placement problem in the original program's format; `expert_s` is the time of the expert
    plan in it, or `expert` says why there is none."""

    def to_frame(self):
        """A row for every stage."""
        return frame({**scalars(s), "nodes": s.nodes} for s in self.stages)

    def __str__(self) -> str:
        return f"{self.step_s:.9g} s per batch: {len(self.stages)} stages, {self.dp} replicas, tensor parallel " \
               f"{self.tp}\n\n" + table(
                   [">stage", "nodes", ">devices", ">s/microbatch", ">bytes"],
                   [(k + 1, f"{s.nodes[0]} .. {s.nodes[-1]}", s.devices, f"{s.load_s:.6g}", f"{s.memory_bytes:.4g}")
                    for k, s in enumerate(self.stages)])


class Scaling(_Held, Record):
    """The best plan for each number of devices; `rows` have devices, batch, placement (None where
    nothing fits), tokens_per_s_per_device of the devices at hand and efficiency, over that of the first
    number that has a plan."""

    model: str
    weak: bool
    rows: List[Record]

    def to_frame(self):
        """A row for each number of devices."""
        return frame({**scalars(r), **(r.placement.best.row() if r.placement else {}),
                      "devices": r.devices, "batch": r.batch,
                      "tokens_per_s_per_device": r.tokens_per_s_per_device} for r in self.rows)

    def page(self, *, explore: Optional[str] = None) -> str:
        """The plans as one HTML page that opens offline, with how they scale; as Prediction.page."""
        c = self._held()
        machine = next(r.placement for r in self.rows if r.placement)
        return _page(self.model, machine, c.rows, c.n_rows, c.weak, explore)

    def plot(self, ax=None):
        """With matplotlib: tokens/s over the number of devices, beside linear scaling."""
        from . import _plot

        return _plot.scaling(self, ax)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        def cells(r):
            if not r.placement:
                return (r.devices, r.batch, "-", "-", "-", "-", "nothing fits")
            p = r.placement.best
            return (r.devices, r.batch, f"{p.step_s:.4g}", f"{r.tokens_per_s_per_device:.4g}",
                    f"{100 * r.efficiency:.1f}%", f"{100 * p.mfu:.1f}%", p.text)

        kind = "weak" if self.weak else "strong"
        return f"{self.model}: {kind} scaling, the best plan for each number of devices\n\n" + table(
            [">devices", ">batch", ">s per step", ">tokens/s/device", ">efficiency", ">MFU",
             "best plan"], [cells(r) for r in self.rows])


# ---- explained, tuned, calibrated ------------------------------------------------------------


class Explanation(records.Explanation):
    """Where every field of a plan comes from (`fields`: name, value, from_), and the `constants` of the model that
    count for it, with the change of step and memory if one is a tenth larger."""

    def to_frame(self):
        """A row for every constant."""
        return frame(scalars(c) for c in self.constants)

    def __str__(self) -> str:
        return table(["plan", "value", "from"], [(f.name, f.value, f.from_) for f in self.fields]) + "\n\n" + table(
            ["constant", ">value", "unit", ">step", ">memory", "part"],
            [(c.name, f"{c.value:g}", c.unit or "-", f"{100 * c.step_change:+.2f}%",
              f"{100 * c.memory_change:+.2f}%", c.part) for c in self.constants])


class RunPlan(_Held, records.RunPlan):
    """A training run that you have, as it was read from a plan file or from a framework's script or configuration."""

    def to_plan_file(self) -> str:
        """As the text of a plan file, which tune() and read_plan() take."""
        return made_text(lib.pz_run_plan_text, self._held())


class Tuning(records.PlanTuning):
    """A run as it is (`own`), the `best` plan for the same devices and batch, and the single `changes` that bring
    most; each change has `options` and, of Megatron's runs, `megatron`: the arguments to change."""

    run: RunPlan
    chip: Chip
    cluster: Optional[Cluster]

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "chip": self.chip.name,
                "cluster": self.cluster.name if self.cluster else None}

    def to_frame(self):
        """A row for every change."""
        return frame({"field": c.field, "gain": c.gain, "options": c.options, "megatron": c.megatron, **scalars(c.p)}
                     for c in self.changes)

    def __str__(self) -> str:
        p = self.own.p
        lines = [table(["run", "value", "from"], [(f.name, f.value, f.from_) for f in self.fields if f.shown]), "",
                 f"predicted: {p.step_s:.4g} s per step, MFU {100 * p.mfu:.1f}%, at most {p.needed_bytes / 1e9:.1f} of "
                 f"{p.usable_bytes / 1e9:.1f} GB usable"]
        for title, has, c in (("best plan", self.has_best, self.best),
                              ("best plan with every overlap", self.has_overlapped, self.overlapped)):
            if has:
                lines.append(f"{title}: {c.p.step_s:.4g} s ({-100 * c.gain:+.1f}%): "
                             + (c.megatron or c.options or "no change"))
        if self.changes:
            lines += ["", table(["single change", ">s per step", ">time", ">GB"],
                                [(c.megatron or c.options, f"{c.p.step_s:.4g}", f"{-100 * c.gain:+.1f}%",
                                  f"{c.p.peak_bytes / 1e9:.1f}") for c in self.changes])]
        return "\n".join(lines)


class Difference(records.PlanDiff):
    """Two runs, `a` and `b`: the `changes` from one to the other in words and the `verdict` on them, the `fields` that
    differ (name, a, b), and the `path`; each change has what it adds, step_s and peak_bytes, and the prediction `p` of
    its `plan`."""

    def to_frame(self):
        """A row for every change of the path."""
        return frame({"change": c.change, "step_s": c.step_s, "peak_bytes": c.peak_bytes} for c in self.path)

    def __str__(self) -> str:
        a, b = self.a.p, self.b.p
        return "\n\n".join([
            f"{self.changes or 'B'} {self.verdict}",
            table(["field", "A", "B"], [(f.name, f.a, f.b) for f in self.fields]),
            table(["part of the step (s)", ">A", ">B", ">difference"],
                  [(name, f"{x:.4g}", f"{getattr(b.parts, name):.4g}", f"{getattr(b.parts, name) - x:+.4g}")
                   for name, x in [*scalars(a.parts).items()]]
                  + [("step", f"{a.step_s:.4g}", f"{b.step_s:.4g}", f"{b.step_s - a.step_s:+.4g}")]),
            table(["from A to B", ">s per step", ">difference", ">GB", ">difference"],
                  [(c.change, f"{c.p.step_s:.4g}", f"{c.step_s:+.4g}", f"{c.p.peak_bytes / 1e9:.2f}",
                    f"{c.peak_bytes / 1e9:+.2f}") for c in self.path])])


class Calibration(records.Calibrated):
    """A chip whose constants were fitted to measured operators, and how well: `residuals` by operator, `all`."""

    def to_frame(self):
        """A row for every operator."""
        return frame(scalars(r) for r in self.residuals)

    def __str__(self) -> str:
        return table(["operator", ">rows", ">before", ">held half", ">fitted to all"],
                     [(r.op, r.rows, f"{100 * r.before:.1f}%", f"{100 * r.held_half:.1f}%" if r.held else "-",
                       f"{100 * r.after:.1f}%") for r in [*self.residuals, self.all]])


class StepCalibration(records.StepCalibration):
    """A chip corrected by measured training `steps`: the `factors` of the parts of a step, the `errors` that are left;
    `held`: steps that only judge it."""

    def to_frame(self):
        """A row for every step."""
        return frame(scalars(r) for r in self.steps)

    def __str__(self) -> str:
        def error(s, r):
            return f"{100 * (s / r.measured_s - 1):+.1f}%" if s > 0 else "-"
        return table(["step", ">measured (s)", ">before", ">by others", ">corrected"],
                     [(r.id, f"{r.measured_s:.4g}", error(r.before_s, r), error(r.left_out_s, r), error(r.after_s, r))
                      for r in self.steps]) + "\n\n" + table(
            ["part of the step", ">share", ">time by"],
            [(f.name, f"{100 * f.share:.0f}%", f"{100 * (f.factor - 1):+.1f}%") for f in self.factors])


# ---- operators and schedules -----------------------------------------------------------------


class Estimate(Record):
    """Operators of a model on a chip, one after another; `operators` have layer, count, direction,
    name, op_class and the fields of struct pz_estimate, the sums are of one microbatch."""

    model: str
    chip: Chip
    operators: List[Record]
    forward_s: float
    backward_s: float
    forward_j: float
    backward_j: float
    optimizer_s: float

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "chip": self.chip.name}

    def to_frame(self):
        """A row for every operator."""
        return frame(scalars(o) for o in self.operators)

    def plot(self, ax=None):
        """With matplotlib: time by kind of operator and by what limits it."""
        from . import _plot

        return _plot.estimate(self, ax)

    def __str__(self) -> str:
        slow = sorted(self.operators, key=lambda o: -o.latency_s * o.count)[:10]
        return "\n".join([
            f"{self.model} on {self.chip.name}: forward {seconds(self.forward_s)}, backward "
            f"{seconds(self.backward_s)}, optimizer {seconds(self.optimizer_s)}", "",
            table(["layer", ">count", "direction", "operator", ">time", "bound", ">utilisation"],
                  [(o.layer, o.count, o.direction, o.name, seconds(o.latency_s), o.bound,
                    f"{100 * o.utilisation:.0f}%" if o.utilisation else "") for o in slow])])


class OperatorTimes(records.OpTimes):
    """Operators of a table, as a benchmark loop would measure them: `rows` have op, batch, m, n, k, us, and
    measured_us where the table has it."""

    chip: Chip

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "chip": self.chip.name}

    def to_frame(self):
        """A row for every operator."""
        return frame(scalars(r) for r in self.rows)

    def __str__(self) -> str:
        return table(["operator", ">batch", ">m", ">n", ">k", ">us", ">measured"],
                     [(r.op, r.batch, r.m, r.n, r.k, f"{r.us:.2f}", f"{r.measured_us:.2f}" if r.measured_us else "")
                      for r in self.rows])


class PowerTable(records.PowerTable):
    """Power of operators that ran for seconds: `rows` have what was measured (call_s, watts, clock_hz, joules; 0: not)
    beside `called`, at the measured rate of calls, and `sustained`, one call after the other."""

    chip: Chip

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "chip": self.chip.name}

    def to_frame(self):
        """A row for every operator; predicted_ are those at the measured rate of calls."""
        return frame({**scalars(r), **{f"predicted_{k}": v for k, v in scalars(r.called).items()}} for r in self.rows)

    def __str__(self) -> str:
        return table(["operator", ">m", ">n", ">k", ">us", ">W", ">measured", ">J", ">measured"],
                     [(r.op, r.m, r.n, r.k, f"{1e6 * r.called.latency_s:.4g}", f"{r.called.watts:.4g}",
                       f"{r.watts:.4g}" if r.watts else "", f"{r.called.joules:.4g}",
                       f"{r.joules:.4g}" if r.joules else "") for r in self.rows])


class Schedule(_Held, records.LayerSchedule):
    """How a chip runs the operators of a layer, or of an instance file, beside each other.  `techniques` say what the
    parts of the solver did."""

    chip: Optional[Chip] = None

    @property
    def gap(self) -> float:
        return 1 - self.lower_bound_s / self.makespan_s if self.makespan_s > 0 else 0.0

    def trace(self, *others: "Schedule") -> str:
        """This schedule, and others behind it, as a trace-event file for Perfetto."""
        for s in others:
            if not isinstance(s, Schedule):
                raise TypeError(f"found {type(s).__name__}; accepted: Schedules")
        return made_text(lib.pz_schedule_trace, [s._held() for s in (self, *others)], 1 + len(others))

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "chip": self.chip.name if self.chip else None}

    def to_frame(self):
        """A row for every operator."""
        return frame(scalars(o) for o in self.operators)

    def plot(self, ax=None):
        """With matplotlib: a bar for every operator over time."""
        from . import _plot

        return _plot.schedule(self, ax)

    def __str__(self) -> str:
        proof = "proven optimal" if self.optimal else f"at most {100 * self.gap:.2g}% longer than optimal"
        what, time = f"{self.model}: ", "{:.9g}".format
        if self.chip:
            what, time = f"{self.model} {self.layer} {self.direction} on {self.chip.name}: ", seconds
        return f"{what}{time(self.makespan_s)}, {proof}\n\n" + table(
            ["operator", ">tensor cores", ">vector cores", ">start", ">end"],
            [(o.name, o.tensor_cores, o.vector_cores, time(o.start_s) if o.start_s else "0", time(o.end_s))
             for o in self.operators])


class PlanSchedules(records.PlanSchedules):
    """The passes that a predicted step of a plan is made of: each of `list` is a Schedule, which a step runs `count`
    times for each of the `microbatches`."""

    list: List[Schedule]
    model: str
    chip: Chip

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "list": [s.to_dict() for s in self.list], "chip": self.chip.name}

    def to_frame(self):
        """A row for every pass."""
        return frame(scalars(s) for s in self.list)

    def trace(self) -> str:
        """All passes as a trace-event file for Perfetto."""
        return self.list[0].trace(*self.list[1:])

    def __str__(self) -> str:
        return f"{self.model} on {self.chip.name}\n\n" + table(
            ["layer", ">x", "pass", ">time", ">bound", ">speedup"],
            [(s.layer, s.count, s.direction, seconds(s.makespan_s), seconds(s.lower_bound_s),
              f"{s.serial_s / s.makespan_s:.2f}x" if s.makespan_s else "-") for s in self.list])


# ---- search ----------------------------------------------------------------------------------


def _plan(m: records.AnswerModel):
    """The degrees of a model's plan, whichever evaluator found it."""
    return m.training.plan if m.training else m.plan


class SearchResult(records.Result):
    """The best chip of a design space for each model, and in the last of `answers` for all of them."""

    times: records.RunTimes
    reused: bool
    directory: Optional[str]

    @property
    def best(self) -> records.Answer:
        """The chip for all models."""
        return self.answers[-1]

    @property
    def chip(self) -> Chip:
        return self.best.chip

    def to_frame(self):
        """A row for each answer and model."""
        return frame({"answer": a.name, "chip": a.chip.name, "area_mm2": a.area_mm2,
                      "hbm_gib": a.hbm_gib, "objective": a.objective, "model": m.model,
                      "samples_per_s": m.samples_per_s, "ratio": m.ratio,
                      "tp": _plan(m).tp, "pp": _plan(m).pp, "dp": _plan(m).dp,
                      "mbs": _plan(m).mbs, "step_s": (m.training or m.plan).step_s}
                     for a in self.answers for m in a.models)

    def plot(self, ax=None):
        """With matplotlib: the Pareto front where it was asked for, else throughput over the reference's."""
        from . import _plot

        return _plot.search(self, ax)

    def __str__(self) -> str:
        lines = []
        for a in self.answers:
            c = a.certificate
            lines += [f"{a.name}: {a.chip.name}, {a.area_mm2:.4g} mm2, {a.hbm_gib:.0f} GiB, objective "
                      f"{a.objective:.4g}",
                      f"  proof: {c.n_chips:,} chips, {c.n_infeasible:,} beyond the limits, "
                      f"{c.n_evaluated + c.n_excluded_by_schedules:,} decided one by one, {c.n_excluded:,} "
                      f"excluded by bounds; no chip is better by more than {100 * c.gap:.2g}%"]
            lines += [f"  {m.model}: {m.samples_per_s:.4g} samples/s"
                      + (f", {m.ratio:.3g} times the reference" if m.ratio == m.ratio else "")
                      + f"; tp {_plan(m).tp}, pp {_plan(m).pp}, dp "
                      f"{_plan(m).dp}, mbs {_plan(m).mbs}" for m in a.models]
        return "\n".join(lines)


class Report(Record):
    """The report of a finished search: `html`, one page that opens offline, and its tables by name in `datasets`."""

    html: str
    datasets: Dict[str, List[Dict[str, Any]]]

    def to_frame(self, name: str):
        """One of the tables."""
        if name not in self.datasets:
            raise BadUse(f"name {name!r}; accepted: {', '.join(self.datasets)}")
        return frame(self.datasets[name])

    def __repr__(self) -> str:
        return f"Report({len(self.html):,} characters, datasets {', '.join(self.datasets)})"


class ChipComparison(Record):
    """Chips beside each other: a sequence of its `rows`, one for each chip and model: how the chip is `known`, the mean
    `expected_error` of chips known so, its area, watts and dollars, and where it `fits` step_s, mfu, ratio to the first
    chip, energy and plan; of rented chips also devices, days, run_dollars and whether it is `cheapest`."""

    rows: List[Record]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]

    def to_frame(self):
        """A row for every chip and model."""
        return frame(scalars(r) for r in self.rows)

    def __str__(self) -> str:
        columns = {">step (s)": ("step_s", "{:.4g}".format), ">ratio": ("ratio", "{:.2f}".format), ">MFU": ("mfu", _percent)}
        rented = {">devices": ("devices", str), ">days": ("days", "{:.4g}".format), "deadline": ("deadline", str),
                  ">dollars": ("run_dollars", lambda x: f"{x:,.0f}" if x >= 1e4 else f"{x:.4g}")}
        columns.update((head, c) for head, c in rented.items() if any(hasattr(r, c[0]) for r in self.rows))
        return table(["chip", "known", ">error", "model", *columns, "plan"],
                     [(r.chip, r.known, _percent(r.expected_error) if r.expected_error else "-", r.model,
                       *("-" if getattr(r, name, None) is None else text(getattr(r, name)) for name, text in columns.values()),
                       r.plan if r.fits else "does not fit") for r in self.rows])


class Original(records.Original):
    """The common chip under the assumptions of the original system's released code, corrected one by one: `rows` have
    the assumptions, the chip and the samples/s of each of `models`."""

    def to_frame(self):
        """A row for every search and model."""
        return frame({"assumptions": r.assumptions, "alone": r.alone, "chip": r.chip, "model": m,
                      "samples_per_s": r.samples_per_s[i], "reference": r.reference[i], "gap": r.gap}
                     for r in self.rows for i, m in enumerate(self.models))

    def __str__(self) -> str:
        return table(["chip", ">GiB", *(">" + m for m in self.models), "assumptions"],
                     [(r.chip, f"{r.hbm_gib:.0f}", *(f"{x:.4g}" for x in r.samples_per_s[:len(self.models)]),
                       "; ".join(r.assumptions) or "none") for r in self.rows])


class Verification(Record):
    """What was recomputed of a finished run; `checks` have holds and text."""

    holds: bool
    checks: List[Record]

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return "\n".join(("holds: " if c.holds else "DOES NOT HOLD: ") + c.text for c in self.checks)


# ---- validation ------------------------------------------------------------------------------


def _percent(x: float, sign: str = "") -> str:
    return format(100 * x, f"{sign}.1f") + "%" if x == x else "-"


class Runs(_Held, records.Runs):
    """Training runs of a table: `rows` have id, the prediction `p` or a `reason` why there is none, and what was
    measured; `groups` the errors of rows of quality ok by group, all of them as the last; `apart` those of others."""

    def csv(self) -> str:
        """The table with predictions, errors and terms of the step."""
        return made_text(lib.pz_runs_csv, self._held(), counted=True)

    def to_frame(self):
        """A row for every run."""
        return frame({**scalars(r), **(scalars(r.p) if r.predicted else {}),
                      "error": r.p.step_s / r.measured_s - 1 if r.predicted and r.measured_s > 0 else None}
                     for r in self.rows)

    def __str__(self) -> str:
        text = table(["run", ">devices", ">step (s)", ">measured", ">GB", "reason"],
                     [(r.id, r.devices, f"{r.p.step_s:.4g}", f"{r.measured_s:.4g}" if r.measured_s else "",
                       f"{r.p.peak_bytes / 1e9:.1f}", "") if r.predicted else (r.id, "-", "-", "", "-", r.reason)
                      for r in self.rows])
        return text + "\n\n" + table(["group", ">runs", ">mean error", ">bias", ">worst"],
                                     [(g.name, g.n, _percent(g.mean), _percent(g.bias, "+"), _percent(g.worst, "+"))
                                      for g in self.groups])


class Validation(_Held, records.Validation):
    """Predictions beside measurements: `points`, their errors by `groups`, `totals`."""

    def text(self, form: str = "json") -> str:
        """As text: json, json_rows (with every point), groups or rows (CSV), limits (CSV of limits that hold now),
        expected (CSV of errors of runs by their features) or page (HTML)."""
        forms = enumerators("enum pz_validation_form")
        known = {name: i for i, name in forms.items()}
        if form not in known:
            raise BadUse(f"form {form!r}; accepted: {', '.join(known)}")
        return made_text(lib.pz_validation_text, self._held(), known[form], counted=True)

    def to_frame(self):
        """A row for every measurement, with its error."""
        return frame({**scalars(p), "error": p.predicted_s / p.measured_s - 1
                      if p.predicted_s > 0 and p.measured_s > 0 else None} for p in self.points)

    def plot(self, ax=None):
        """With matplotlib: predicted against measured, a point a row."""
        from . import _plot

        return _plot.validation(self, ax)

    def __str__(self) -> str:
        rows = [(g.kind, g.name, g.n, g.not_predicted, _percent(g.mean), _percent(g.bias, "+"),
                 _percent(g.worst, "+"), _percent(g.memory_mean)) for g in self.groups]
        text = table(["kind", "group", ">rows", ">not predicted", ">mean error", ">bias", ">worst",
                      ">memory"], rows)
        for b in self.broken:
            text += f"\nlimit broken: {b.group}, {b.what}: {b.value:.4g}, limit {b.limit:.4g}"
        return text
