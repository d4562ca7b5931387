"""Values between C and Python: texts, names of numbers, records, options."""
from __future__ import annotations

import functools
import json
import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from . import _names, _plan_names
from ._errors import BadUse, FileError, call
from ._phaze import ffi, lib

# ---- from C ----------------------------------------------------------------------------------


def _text(c) -> Optional[str]:
    return ffi.string(c).decode("utf-8", "replace") if c else None


@functools.lru_cache(None)
def names_of(table: str) -> Tuple[str, ...]:
    """The names in a list of the library that ends with NULL."""
    names, found = getattr(lib, table), []
    while names[len(found)]:
        found.append(_text(names[len(found)]))
    return tuple(found)


def _name(table: str, i: int) -> Optional[str]:
    names = names_of(table)
    return names[i] if 0 <= i < len(names) else None


def _set(table: str, bits: int) -> Optional[str]:
    if bits < 0 or bits == 0xFFFFFFFF:
        return None
    return ",".join(n for i, n in enumerate(names_of(table)) if bits >> i & 1) or "none"


@functools.lru_cache(None)
def enumerators(ctype: str) -> Dict[int, str]:
    """Names of an enum without what they have in common: {0: "forward", 1: "backward"}."""
    elements = dict(ffi.typeof(ctype).elements)
    if len(elements) > 2 and elements[max(elements)].endswith("S"):
        del elements[max(elements)]  # the number of them
    words = [e.split("_") for e in elements.values()]
    common = len(os.path.commonprefix(words))
    return {k: "_".join(w[min(common, len(w) - 1):]).lower() for k, w in zip(elements, words)}


def _enumerator(ctype: str, i: int) -> str:
    return enumerators(ctype).get(i, str(i))


def _by_enumerator(ctype: str, array) -> Dict[str, Any]:
    return {name: array[i] for i, name in enumerators(ctype).items()}


def _chip(c):
    from ._machine import Chip

    return Chip._copy(c)


def _cluster(c):
    from ._machine import Cluster

    return Cluster._copy(c)


# ---- records ---------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """As dicts, lists, numbers and texts."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


class Record:
    """A struct of the library as a plain object: its fields are attributes, with the names and units
    that they have in phaze.h."""

    def __init__(self, **fields: Any):
        vars(self).update(fields)

    def to_dict(self) -> Dict[str, Any]:
        """All fields as dicts, lists, numbers and texts."""
        return {k: plain(v) for k, v in vars(self).items() if not k.startswith("_")}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        def brief(v: Any) -> str:
            if isinstance(v, list):
                return f"[{len(v)}]" if v else "[]"
            return f"<{type(v).__name__}>" if isinstance(v, Record) else f"{v:.6g}" \
                if isinstance(v, float) else repr(v)

        fields = ", ".join(f"{k}={brief(v)}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({fields})"


def frame(rows: Iterable[Mapping[str, Any]]):
    """Rows as a pandas.DataFrame."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_frame() needs pandas (Debian: python3-pandas)") from None
    return pandas.DataFrame(list(rows))


def scalars(record: Record) -> Dict[str, Any]:
    """The fields of a record that are no lists or records."""
    return {k: v for k, v in vars(record).items()
            if not k.startswith("_") and not isinstance(v, (Record, list, dict))}


# ---- to C ------------------------------------------------------------------------------------


class Options:
    """An options struct of the library with its defaults, some fields changed.

    `c` is the struct; the object keeps alive what it points to.
    """

    def __init__(self, struct: str, given: Mapping[str, Any], caller: str, default=None):
        self.struct = struct
        made = default if default is not None else getattr(lib, f"{struct}_default")()
        self.c = ffi.new(f"struct {struct} *", made)
        self.kept: List[Any] = []
        self.caller = caller
        for name, value in given.items():
            if value is not None:
                self._put(self.c, struct, name, value)

    def _put(self, c, struct: str, name: str, value: Any) -> None:
        fields = dict(ffi.typeof(f"struct {struct}").fields)
        if name not in fields or name in ("size", "ctx", "note", "note_ctx", "progress", "say"):
            raise TypeError(f"{self.caller}() has no option {name!r}")
        try:
            setattr(c, name, self._value(struct, name, fields[name].type, value))
        except (OverflowError, TypeError) as wrong:
            raise BadUse(f"{name} {value!r}: {wrong}") from None

    def _value(self, struct: str, name: str, t, value: Any) -> Any:
        if struct in _names.LEFT_OPEN and name in _plan_names.SETS:
            return self._bits(name, _plan_names.SETS[name], value)
        if struct in _names.LEFT_OPEN and name in _plan_names.FIELDS and isinstance(value, str):
            return self._choice(name, names_of(_plan_names.FIELDS[name]), value)
        if t.kind == "enum" and isinstance(value, str):
            table = _names.TYPES.get(t.cname)
            listed = names_of(table) if table else tuple(enumerators(t.cname).values())
            return self._choice(name, listed, value)
        if t.kind == "pointer" and t.item.cname == "char":
            return self.keep(value)
        if t.kind == "pointer" or (t.kind == "array" and t.item.kind != "primitive"):
            return self._list(t, value)
        if t.cname == "struct pz_choices":
            return self._choices(name, value)
        if t.kind == "struct":
            inner = Options(t.cname.removeprefix("struct "), value, self.caller)
            self.kept.append(inner)
            return inner.c[0]
        if t.kind == "primitive" and t.cname not in ("double", "float") and isinstance(value, float):
            if value != int(value):
                raise TypeError("accepted: a whole number")
            return int(value)
        return value

    def keep(self, text: Any):
        """A text of C that lives as long as the options."""
        made = ffi.new("char[]", os.fsencode(os.fspath(text)) if isinstance(text, os.PathLike)
                       else str(text).encode())
        self.kept.append(made)
        return made

    @staticmethod
    def _choice(name: str, names: Tuple[str, ...], value: str) -> int:
        if value not in names:
            raise BadUse(f"{name} {value!r}; accepted: {', '.join(names)}")
        return names.index(value)

    def _bits(self, name: str, table: str, value: Any) -> int:
        if isinstance(value, int):
            return value
        words = value.split(",") if isinstance(value, str) else list(value)
        names = names_of(table)
        if words in (["none"], ["all"]):
            return (1 << len(names)) - 1 if words == ["all"] else 0
        return sum({1 << self._choice(name, names, w) for w in words})

    @staticmethod
    def _choices(name: str, value: Any) -> Dict[str, Any]:
        values = sorted({int(v) for v in ([value] if isinstance(value, int) else value)})
        if not 1 <= len(values) <= lib.PZ_CHOICES_MOST:
            raise BadUse(f"{name}: {len(values)} choices; accepted: 1 to {lib.PZ_CHOICES_MOST}")
        return {"v": values, "n": len(values)}

    def _list(self, t, value: Any):
        if isinstance(value, Mapping):
            value = [f"{k}={v}" for k, v in value.items()]
        items = [self.keep(v) if t.item.kind == "pointer" else v for v in value]
        if t.kind == "array":
            return items
        made = ffi.new(ffi.getctype(t.item.cname, "[]"), items)
        self.kept.append(made)
        return made


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def made_text(function, *arguments: Any, counted: bool = False) -> str:
    """The text that a function of the library makes; `counted`: with the number of its bytes."""
    text = ffi.new("char **")
    call(function, *arguments, text, *([ffi.new("size_t *")] if counted else []))
    try:
        return _text(text[0]) or ""
    finally:
        lib.pz_text_free(text[0])


def file_bytes(given: Any) -> Tuple[bytes, bytes]:
    """A name for messages and the contents: of a table (the path of a CSV file, or a DataFrame) or of a JSON file
    (a path, or a dict)."""
    if hasattr(given, "to_csv"):
        return b"table", given.to_csv(index=False).encode()
    if isinstance(given, Mapping):
        return b"description", as_json(given)
    try:
        with open(given, "rb") as file:
            return os.fsencode(given), file.read()
    except OSError as why:
        raise FileError(f"{os.fspath(given)}: cannot open: {why.strerror}") from None
