"""Pictures of results, with matplotlib where it is there."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

from ._results import MEMORY_PARTS, TIME_PARTS

COLOURS = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb", "#332288",
           "#999933", "#882255"]


def _pyplot():
    try:
        import matplotlib.pyplot as pyplot
    except ImportError:
        raise ImportError("plot() needs matplotlib (Debian: python3-matplotlib)") from None
    return pyplot


def _axes(ax):
    return ax if ax is not None else _pyplot().subplots(figsize=(7, 4), constrained_layout=True)[1]


def _bars(ax, labels: Sequence[str], parts: Dict[str, Sequence[float]]) -> None:
    """Stacked bars; parts that are nowhere above a thousandth of the largest bar are left out."""
    n = len(labels)
    total = max(sum(v[k] for v in parts.values()) for k in range(n))
    bottom = [0.0] * n
    for (name, values), colour in zip(parts.items(), COLOURS):
        if max(values) > 1e-3 * total:
            ax.bar(labels, values, bottom=bottom, label=name, color=colour, width=0.7)
        bottom = [b + v for b, v in zip(bottom, values)]
    ax.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


# ---- one plan --------------------------------------------------------------------------------


def _step(p, ax) -> None:
    _bars(ax, [""], {i.label: [getattr(p.parts, i.key)] for i in TIME_PARTS})
    ax.set_ylabel("seconds")
    ax.set_title(f"{p.model}: {p.step_s:.4g} s per step")


def _memory(p, ax) -> None:
    labels = [str(k + 1) for k in range(len(p.stages))]
    _bars(ax, labels, {i.label: [getattr(s, i.key) / 1e9 for s in p.stages] for i in MEMORY_PARTS})
    ax.axhline(p.hbm_bytes / 1e9, color="black", linestyle="--", linewidth=1)
    ax.set_xlabel("stage")
    ax.set_ylabel("GB of a device")
    ax.set_title("peak memory, and HBM (dashed)")


def _pipeline(p, ax) -> None:
    for backward, colour in ((False, COLOURS[0]), (True, COLOURS[2])):
        for stage in range(len(p.stages)):
            spans = [(e.start_s, e.end_s - e.start_s) for e in p.events
                     if e.stage == stage and e.backward == backward]
            ax.broken_barh(spans, (stage + 0.6, 0.8), color=colour, edgecolor="white", linewidth=0.3,
                           label=("backward" if backward else "forward") if stage == 0 else None)
    ax.invert_yaxis()
    ax.set_yticks(range(1, len(p.stages) + 1))
    ax.set_xlabel("seconds")
    ax.set_ylabel("stage")
    ax.set_title("pipeline of one replica")
    ax.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def _drawn(kinds: Dict[str, Callable], there: List[str], kind: Optional[str], thing, ax):
    """One kind on its axes, or a figure with all that are there."""
    if kind is not None:
        if kind not in kinds:
            raise ValueError(f"plot kind {kind!r}; accepted: {', '.join(kinds)}")
        if kind not in there:
            raise ValueError("there are no events of the pipeline; predict with events=True")
        ax = _axes(ax)
        kinds[kind](thing, ax)
        return ax
    figure, axes = _pyplot().subplots(1, len(there), figsize=(6 * len(there), 4),
                                      constrained_layout=True, squeeze=False)
    for name, one in zip(there, axes[0]):
        kinds[name](thing, one)
    return figure


def prediction(p, kind: Optional[str], ax):
    there = ["step", "memory"] + (["pipeline"] if p.events else [])
    return _drawn({"step": _step, "memory": _memory, "pipeline": _pipeline}, there, kind, p, ax)


def _chip_step(c, ax) -> None:
    _bars(ax, [""], {k.removesuffix("_s"): [v] for k, v in vars(c.parts).items()})
    ax.set_ylabel("seconds")
    ax.set_title(f"{c.model}: {c.step_s:.4g} s per step")


def _chip_memory(c, ax) -> None:
    stages = c.stages
    names = ("param", "optimizer", "activation", "in_flight")
    _bars(ax, [str(k + 1) for k in range(len(stages))],
          {n.replace("_", " "): [getattr(s, f"{n}_bytes") / 1e9 for s in stages] for n in names})
    ax.axhline(c.hbm_bytes / 1e9, color="black", linestyle="--", linewidth=1)
    ax.set_xlabel("stage")
    ax.set_ylabel("GB of a device")


def chip_plan(c, kind: Optional[str], ax):
    return _drawn({"step": _chip_step, "memory": _chip_memory}, ["step", "memory"], kind, c, ax)


def scaling(s, ax):
    ax = _axes(ax)
    rows = [r for r in s.rows if r.placement]
    n = [r.devices for r in rows]
    ax.plot(n, [r.tokens_per_s_per_device * r.devices for r in rows], marker="o", color=COLOURS[0],
            label="best plan")
    ax.plot(n, [rows[0].tokens_per_s_per_device * k for k in n], color="black", linestyle="--",
            linewidth=1, label="linear")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(n, [str(k) for k in n])
    ax.set_xlabel("devices")
    ax.set_ylabel("tokens/s")
    ax.set_title(f"{s.model}: {'weak' if s.weak else 'strong'} scaling")
    ax.legend(frameon=False)
    return ax


# ---- operators -------------------------------------------------------------------------------


def estimate(e, ax):
    ax = _axes(ax)
    bounds = sorted({o.bound for o in e.operators} - {"none"})
    directions = ["forward", "backward"]
    _bars(ax, directions, {b: [1e3 * sum(o.latency_s * o.count for o in e.operators
                                         if o.bound == b and o.direction == d) for d in directions]
                           for b in bounds})
    ax.set_ylabel("ms of a microbatch")
    ax.set_title(f"{e.model} on {e.chip.name}: operators by what limits them")
    return ax


def schedule(s, ax):
    ax = _axes(ax)
    for i, o in enumerate(s.operators):
        ax.barh(i, 1e6 * (o.end_s - o.start_s), left=1e6 * o.start_s,
                color=COLOURS[0] if o.tensor_cores else COLOURS[2])
    ax.set_yticks(range(len(s.operators)), [o.name for o in s.operators], fontsize="x-small")
    ax.invert_yaxis()
    ax.set_xlabel("us")
    ax.set_title(f"{s.model} {s.layer} {s.direction} on {s.chip.name}")
    return ax


# ---- search, validation ----------------------------------------------------------------------


def search(r, ax):
    ax = _axes(ax)
    if r.front:
        points = r.front.points
        ax.plot([p.area_mm2 for p in points], [p.objective for p in points], marker="o",
                color=COLOURS[0])
        ax.set_xlabel("mm2")
        ax.set_ylabel("objective")
        ax.set_title("Pareto front: area and objective")
        return ax
    best = r.best
    values = [m.ratio if m.ratio == m.ratio else 0 for m in best.models]
    ax.bar([m.model for m in best.models], values, color=COLOURS[0], width=0.6)
    ax.axhline(1, color="black", linestyle="--", linewidth=1)
    ax.set_ylabel("throughput over the reference")
    ax.set_title(f"{best.chip.name}, {best.area_mm2:.4g} mm2")
    return ax


def validation(v, ax):
    ax = _axes(ax)
    points = [p for p in v.points if p.predicted_s > 0 and p.measured_s > 0]
    groups: Dict[str, List[Any]] = {}
    for p in points:
        groups.setdefault(p.group, []).append(p)
    for i, (name, some) in enumerate(groups.items()):
        ax.scatter([p.measured_s for p in some], [p.predicted_s for p in some], s=14, label=name,
                   color=COLOURS[i % len(COLOURS)])
    ends = [f(x for p in points for x in (p.measured_s, p.predicted_s)) for f in (min, max)]
    ax.plot(ends, ends, color="black", linewidth=1)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("measured, s")
    ax.set_ylabel("predicted, s")
    if len(groups) <= 12:
        ax.legend(fontsize="small", frameon=False)
    return ax
