"""Chips, networks, design spaces and models: what a question is about."""
from __future__ import annotations

import functools
import json
import os
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _records as records
from ._errors import call
from ._phaze import ffi, lib
from ._values import (Options, Record, _enumerator, _text, as_json, encoded, frame, made_text, names_of,
                      scalars)

Path = Union[str, "os.PathLike[str]"]
Fields = Optional[Mapping[str, Any]]


class PhazeWarning(UserWarning):
    """What the user should know of an answer."""


def _all_names(at) -> List[str]:
    found: List[str] = []
    while at(len(found)):
        found.append(_text(at(len(found))))
    return found


def models() -> List[str]:
    """Names of the built-in models.  Every call that takes a model also takes its name on Hugging
    Face, the path of a Hugging Face config.json or of an ONNX file.

    >>> import phaze
    >>> "llama3-70b" in phaze.models()
    True
    """
    return _all_names(lib.pz_preset_name)


def chips() -> List[str]:
    """Names of the built-in chips.

    >>> import phaze
    >>> {"h100", "h200", "tpuv4"} <= set(phaze.chips())
    True
    """
    return _all_names(lib.pz_chip_preset_name)


def clusters() -> List[str]:
    """Names of the built-in networks.

    >>> import phaze
    >>> "dgx-h100" in phaze.clusters()
    True
    """
    return _all_names(lib.pz_cluster_preset_name)


def spaces() -> List[str]:
    """Names of the built-in design spaces.

    >>> import phaze
    >>> "paper" in phaze.spaces()
    True
    """
    return _all_names(lib.pz_space_preset_name)


def fields(file: str) -> List[Dict[str, Any]]:
    """The fields of a chip.json, cluster.json or space.json ("chip", "cluster", "space"): field, unit, accepted, required,
    default (a value) or absent (in words), meaning.

    >>> import phaze
    >>> next(f["unit"] for f in phaze.fields("chip") if f["field"] == "clock_hz")
    'Hz'
    """
    text = ffi.new("char **")
    call(lib.pz_file_fields, encoded(file, "file"), text)
    told: List[Dict[str, Any]] = json.loads(ffi.string(ffi.gc(text[0], lib.pz_text_free)))["fields"]
    return told


def frameworks() -> List[str]:
    """Names of the training frameworks whose defaults and kernels are known.

    >>> import phaze
    >>> phaze.frameworks()[0]
    'megatron'
    """
    return list(names_of("pz_framework_names"))


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> Dict[str, Any]:
    out = dict(old)
    for k, v in new.items():
        out[k] = _merged(out[k], v) if isinstance(v, Mapping) and isinstance(out.get(k), Mapping) else v
    return out


class _Described:
    """A struct of C that has a JSON description: a chip or a network."""

    _struct = ""

    def __init__(self, c):
        self._c = c

    @classmethod
    def load(cls, name: Path):
        """A built-in one by name, or the file of a description."""
        return cls._made(getattr(lib, f"{cls._struct}_load"), encoded(name, cls.__name__.lower()))

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]):
        """From a description as its JSON file has it."""
        return cls.from_json(as_json(description))

    @classmethod
    def from_json(cls, text: Union[str, bytes], name: str = "description"):
        """From the text of a description; `name` stands for it in messages."""
        data = text if isinstance(text, bytes) else encoded(text, name)
        return cls._made(getattr(lib, f"{cls._struct}_parse"), encoded(name, "name"), data, len(data))

    @classmethod
    def _made(cls, function, *arguments):
        """What a call writes."""
        raise NotImplementedError

    @classmethod
    def of(cls, given):
        """What a caller gave: an object, a name, a path or a dict."""
        if isinstance(given, cls):
            return given
        return cls.from_dict(given) if isinstance(given, Mapping) else cls.load(given)

    def to_dict(self) -> Dict[str, Any]:
        """The description, as from_dict takes it."""
        return json.loads(made_text(getattr(lib, f"{self._struct}_text"), self._c))

    def _replaced(self, changes: Mapping[str, Any]):
        return self.from_dict(_merged(self.to_dict(), {k: v for k, v in changes.items() if v is not None}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return getattr(self._fields, name)
        except AttributeError:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has: "
                                 + ", ".join(vars(self._fields))) from None

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *vars(self._fields)]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __reduce__(self):
        return type(self).from_dict, (self.to_dict(),)


def _chip_record(c) -> Record:
    """The numbers and words of a chip: "hbm.stacks" as hbm.stacks, "glb.bytes" as glb.bytes and glb_bytes."""
    fields, kind, number = Record(), ffi.new("enum pz_chip_kind *"), ffi.new("double *")
    types = {lib.PZ_CHIP_INTEGER: int, lib.PZ_CHIP_REAL: float, lib.PZ_CHIP_FLAG: bool}
    i = 0
    while name := lib.pz_chip_field(i, kind):
        i += 1
        if kind[0] == lib.PZ_CHIP_WORD:
            value = made_text(lib.pz_chip_word, c, name)
        else:
            call(lib.pz_chip_number, c, name, number)
            value = types[kind[0]](number[0])
        group, _, field = _text(name).rpartition(".")
        setattr(vars(fields).setdefault(group, Record()) if group else fields, field, value)
        if group in ("glb", "link"):
            setattr(fields, f"{group}_{field}", value)
    return fields


@functools.lru_cache(None)
def _built_in_chip(name: bytes):
    """Read once: nothing of Python changes the chip of C behind a Chip."""
    return Chip._made(lib.pz_chip_load, name)._c


class Chip(_Described):
    """A chip: its fields are attributes, by their names in chip.json.

    >>> import phaze
    >>> chip = phaze.Chip.load("h100")
    >>> chip.tensor.cores, chip.hbm.stacks, chip.built
    (132, 5, True)
    >>> more = chip.replace(name="h100-6", hbm={"stacks": 6})
    >>> more.hbm_bytes / chip.hbm_bytes
    1.2
    >>> round(more.bill().area_mm2) >= round(chip.bill().area_mm2)
    True
    """

    _struct = "pz_chip"

    @classmethod
    def load(cls, name: Path):
        """A built-in one by name, or the file of a description."""
        word = encoded(name, "chip")
        return cls(_built_in_chip(word)) if lib.pz_chip_preset_text(word) else super().load(name)

    @classmethod
    def _made(cls, function, *arguments):
        out = ffi.new("struct pz_chip **")
        call(function, *arguments, out)
        return cls(ffi.gc(out[0], lib.pz_chip_free))

    @classmethod
    def _copy(cls, c):
        return cls._made(lib.pz_chip_copy, c)

    @functools.cached_property
    def _fields(self) -> Record:
        fields = _chip_record(self._c)
        fields.collectives = fields.link
        fields.watts = fields.watts or None  # not known
        measured = {"tiles": [], "kernels": {}, **self.to_dict().get("calibration", {})}  # lists too
        measured["kernels"] = [Record(kind=k, **v) for k, v in measured["kernels"].items()]
        vars(fields.calibration).update(measured)
        return fields

    @property
    def name(self) -> str:
        return _text(lib.pz_chip_name(self._c)) or ""

    def replace(self, *, name: Optional[str] = None, about: Optional[str] = None, tech: Optional[str] = None,
                clock_hz: Optional[float] = None, execution: Optional[str] = None, tensor: Fields = None,
                vector: Fields = None, glb: Fields = None, hbm: Fields = None, watts: Optional[float] = None,
                link: Fields = None, rules: Fields = None, calibration: Fields = None,
                calibrated_by: Optional[str] = None, package: Fields = None,
                precisions: Optional[Sequence[str]] = None, any_units: Optional[bool] = None) -> "Chip":
        """Another one with some fields of the description changed; dicts change the fields that they name."""
        return self._replaced({"name": name, "about": about, "tech": tech, "clock_hz": clock_hz,
                               "execution": execution, "tensor": tensor, "vector": vector, "glb": glb, "hbm": hbm,
                               "watts": watts, "link": link, "rules": rules, "calibration": calibration,
                               "calibrated_by": calibrated_by, "package": package, "precisions": precisions,
                               "any_units": any_units})

    @property
    def built(self) -> bool:
        """Training frameworks run on it: a GPU, or one whose speed was measured."""
        return bool(lib.pz_chip_built(self._c))

    @property
    def flop_per_s(self) -> float:
        """Peak of its matrix products, 16 bit."""
        return lib.pz_chip_tensor_flop_per_s(self._c)

    @property
    def hbm_bytes(self) -> int:
        return lib.pz_chip_hbm_bytes(self._c)

    @property
    def hbm_bytes_per_s(self) -> float:
        return lib.pz_chip_hbm_bytes_per_s(self._c)

    @property
    def framework(self) -> str:
        """The framework that is taken for it where none is named."""
        return names_of("pz_framework_names")[lib.pz_framework_default(self._c)]

    def bill(self, constants: str = "likely") -> records.Bill:
        """Area, power and price; `constants`: likely, low or high."""
        ranges = ("likely", "low", "high")  # as enum pz_bill_range
        return records.Bill._read(lib.pz_chip_bill(self._c, Options._choice("constants", ranges, constants)))


class Cluster(_Described):
    """A network: levels of groups of devices, as in struct pz_cluster of phaze.h.

    >>> import phaze
    >>> net = phaze.Cluster.load("dgx-h100")
    >>> net.level[0].devices
    8
    >>> slow = net.replace(name="slow", levels=[net.to_dict()["levels"][0],
    ...                    {**net.to_dict()["levels"][1], "bytes_per_s": 12.5e9}])
    >>> slow.level[1].bytes_per_s
    12500000000.0
    """

    _struct = "pz_cluster"

    @classmethod
    def _made(cls, function, *arguments):
        c = ffi.new("struct pz_cluster *")
        call(function, *arguments, c)
        return cls(c)

    @classmethod
    def _copy(cls, c):
        return cls(ffi.new("struct pz_cluster *", c))

    @functools.cached_property
    def _fields(self) -> Record:
        return records.ClusterFields._read(self._c)

    def replace(self, *, name: Optional[str] = None, about: Optional[str] = None, devices: Optional[int] = None,
                scales: Optional[bool] = None, chips: Optional[str] = None, standard: Optional[bool] = None,
                levels: Optional[Sequence[Mapping[str, Any]]] = None, instant: Optional[bool] = None,
                any_units: Optional[bool] = None) -> "Cluster":
        """Another one with some fields of the description changed."""
        return self._replaced({"name": name, "about": about, "devices": devices, "scales": scales, "chips": chips,
                               "standard": standard, "levels": levels, "instant": instant, "any_units": any_units})

    def reaching(self, devices: int, option: str = "devices") -> "Cluster":
        """With at least so many devices: one that scales grows at its outermost level."""
        grown = Cluster._copy(self._c[0])
        call(lib.pz_cluster_reach, grown._c, devices, encoded(option, "option"))
        return grown


class Space(Record):
    """A design space: values of each axis, chips in all and, where they can be listed, within the limits.

    >>> import phaze
    >>> s = phaze.Space.load("paper", budget=100)
    >>> s.base, s.arrays[:3], s.axes["glb_mib"][:3], s.within < s.chips
    ('tpuv4', ['2x2', '2x4', '4x2'], [2, 4, 8], True)
    """

    name: str
    about: str
    base: Optional[str]
    nodes: List[str]
    arrays: List[str]
    hbm: List[str]
    axes: Dict[str, Union[List[int], str]]
    chips: int
    within: Optional[int]
    limit_mm2: Optional[float]

    @classmethod
    def load(cls, space: Union[Path, Mapping[str, Any]], budget: Union[str, float, None] = None) -> "Space":
        """A built-in space by name, a space.json file, or such a description as a dict.  `budget`: a
        chip whose area, watts and dollars are the limits, or mm2."""
        out, text = ffi.new("struct pz_space **"), ffi.new("char **")
        if isinstance(space, Mapping):
            given = as_json(space)
            call(lib.pz_space_open_text, b"space", given, len(given), out)
        else:
            call(lib.pz_space_open, encoded(space, "space"), out)
        made = ffi.gc(out[0], lib.pz_space_close)
        call(lib.pz_space_describe, made, ffi.NULL if budget is None else encoded(str(budget), "budget"), text)
        told = json.loads(ffi.string(ffi.gc(text[0], lib.pz_text_free)))
        base = told.get("base")
        return cls(name=told["name"], about=told["about"], base=base["name"] if base else None, nodes=told["nodes"],
                   arrays=told["arrays"], hbm=told.get("hbm", []), axes=told["axes"], chips=told["chips"],
                   within=told.get("within"), limit_mm2=told.get("limit_mm2"))


class Workload:
    """The operators of a model, forward and backward, on one device.

    >>> import phaze
    >>> w = phaze.Workload.load("gpt2-xl", mbs=4)
    >>> w.hidden, w.totals.model_params
    (1600, 1557611200)
    >>> [layer.name for layer in w.layers]
    ['embedding', 'block', 'head']
    """

    def __init__(self, c):
        self._c = c

    @classmethod
    def load(cls, model: Path, *, workload_fields=None) -> "Workload":
        """Build the graphs of a model; parameters as in struct pz_workload_options of phaze.h, of an ONNX file
        also dims={"batch": 1}."""
        return cls._load(model, workload_fields)

    @classmethod
    def _load(cls, model: Path, options: Mapping[str, Any]) -> "Workload":
        o = Options("pz_workload_options", options, "Workload.load")
        out = ffi.new("struct pz_workload **")
        call(lib.pz_workload_load, encoded(model, "model"), o.c, out)
        c = ffi.gc(out[0], lib.pz_workload_free)
        if c.warning:
            warnings.warn(_text(c.warning), PhazeWarning, stacklevel=4)
        return cls(c)

    @functools.cached_property
    def _record(self) -> records.Workload:
        return records.Workload._read(self._c)

    @functools.cached_property
    def totals(self) -> records.Totals:
        return records.Totals._read(self._c.totals)

    @property
    def model(self) -> str:
        return _text(self._c.model) or ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._c, name) if name in records.Workload.__annotations__ else None
        return value if isinstance(value, (int, float, bool)) else getattr(self._record, name)

    def operators(self) -> List[Dict[str, Any]]:
        """A dict for every operator: layer, count, direction, and its fields."""
        return [{"layer": layer.name, "count": layer.count,
                 "direction": _enumerator("enum pz_direction", d), **scalars(op), **scalars(op.dims)}
                for layer in self._record.layers for d in (0, 1) for op in layer.ops[d].op]

    def to_dict(self) -> Dict[str, Any]:
        return self._record.to_dict()

    def to_frame(self):
        """A row for every operator."""
        return frame(self.operators())

    def dot(self) -> str:
        """The graph for Graphviz."""
        return made_text(lib.pz_workload_text, self._c, lib.PZ_WORKLOAD_DOT)

    def __repr__(self) -> str:
        return f"Workload({self.model!r}, {self.totals.model_params:,} parameters)"


def graph(model: Path, *, workload_fields=None) -> Workload:
    """The operators of a model; the same as Workload.load.

    >>> import phaze
    >>> phaze.graph("gpt2")
    Workload('gpt2', 124,439,808 parameters)
    """
    return Workload._load(model, workload_fields)


class Machine:
    """A chip in its network, or with its own link; `training`: devices of a plan over more than a node stand in
    the cluster that the chip stands in, if none is given.  Without `network`, collectives and transfers take no time."""

    def __init__(self, chip, cluster, devices: int, option: str = "devices", training: bool = False,
                 network: bool = True):
        self.chip = Chip.of(chip)
        self.cluster: Optional[Cluster] = Cluster.of(cluster) if cluster is not None else None
        if training and self.chip.built:
            self._find(devices, option)
        elif self.cluster:
            self.cluster = self.cluster.reaching(devices, option)
        if not network:
            at = ffi.new("struct pz_network *", {"own_link": self.cluster is None})
            if self.cluster:
                at.cluster = self.cluster._c[0]
            lib.pz_network_make_instant(at, self.chip._c, devices)
            self.cluster = Cluster._copy(at.cluster)
        self.net = self.cluster._c if self.cluster else ffi.NULL

    def _find(self, devices: int, option: str) -> None:
        found = ffi.new("struct pz_network *")
        call(lib.pz_network_find, self.chip._c, self.cluster._c if self.cluster else ffi.NULL, devices,
             option.encode(), found)
        self.cluster = None if found.own_link else Cluster._copy(found.cluster)
        if warning := _text(found.warning):
            warnings.warn(warning, PhazeWarning, stacklevel=4)

    @property
    def where(self) -> str:
        return self.chip.name + (f" in {self.cluster.name}" if self.cluster else "")

    def cost(self):
        """Estimates for it."""
        out = ffi.new("struct pz_cost **")
        call(lib.pz_cost_new, self.chip._c, self.net, out)
        return ffi.gc(out[0], lib.pz_cost_free)


def of_device(w: Workload) -> int:
    """Devices of the largest group that the operators of a workload join."""
    o = w._c.options
    return max(o.tp, o.ep, o.etp, o.cp, 1)
