"""Values between C and Python: texts, names of numbers, records, options."""
from __future__ import annotations

import functools
import itertools
import json
import operator
import os
import stat
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


MOST_SHOWN = 16  # of a list in a repr


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
                more = [f"... {len(v) - MOST_SHOWN} more"] if len(v) > MOST_SHOWN else []
                return f"[{', '.join([brief(x) for x in v[:MOST_SHOWN]] + more)}]"
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


def shown(value: Any) -> str:
    """A value in a message."""
    try:
        text = ascii(value)
    except Exception:  # of whoever made it
        text = type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."


def encoded(text: Any, what: str = "text") -> bytes:
    """A text or a path as C takes it: not cut short by a NUL, and nothing else made into a text."""
    if not isinstance(text, (str, os.PathLike)):
        raise TypeError(f"{what}: found {type(text).__name__}; accepted: a text or a path")
    try:
        data = os.fsencode(text)
    except UnicodeEncodeError:
        raise BadUse(f"{what} {shown(text)}: accepted: characters that UTF-8 has") from None
    if b"\0" in data:
        raise BadUse(f"{what} {shown(text)}: accepted: a text without NUL")
    return data


def listed(name: str, values: Any, most: int) -> List[Any]:
    """A list of at most so many; a text is none."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{name}: found {type(values).__name__}; accepted: a list")
    found = list(itertools.islice(values, most + 1))
    if len(found) > most:
        raise BadUse(f"{name}: accepted: a list of at most {most}")
    return found


def pairs(name: str, given: Any) -> List[Tuple[str, Any]]:
    """Names and their values, numbers or texts."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{name}: found {type(given).__name__}; accepted: a dict")
    for k, v in given.items():
        if not isinstance(k, (str, os.PathLike)) or not isinstance(v, (str, int, float, os.PathLike)):
            raise TypeError(f"{name}: found {shown(k)}: {shown(v)}; accepted: names with numbers or texts")
    return list(given.items())


def whole(name: str, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, (bool, float, str)) and hasattr(value, "__index__"):
        return operator.index(value)
    raise BadUse(f"{name} {shown(value)}; accepted: a whole number")


@functools.lru_cache(None)
def fields_of(struct: str) -> Dict[str, Any]:
    return {name: field.type for name, field in ffi.typeof(f"struct {struct}").fields
            if name not in ("size", "ctx", "note", "note_ctx", "progress", "say")}


# numbers of a list that C is given by its address
MOST_NUMBERS = 1 << 20


class Options:
    """An options struct of the library with its defaults, some fields changed.

    `c` is the struct; the object keeps alive what it points to.
    """

    def __init__(self, struct: str, given: Mapping[str, Any], caller: str, default=None):
        if not isinstance(given, Mapping):
            raise TypeError(f"{caller}: found {type(given).__name__}; accepted: a dict with fields of struct {struct}")
        self.struct = struct
        made = default if default is not None else getattr(lib, f"{struct}_default", dict)()
        self.c = ffi.new(f"struct {struct} *", made)
        self.kept: List[Any] = []
        self.caller = caller
        for name, value in given.items():
            if value is not None:
                self._put(self.c, struct, name, value)

    def _put(self, c, struct: str, name: str, value: Any) -> None:
        fields = fields_of(struct)
        if name not in fields:
            raise TypeError(f"{self.caller}() has no option {name!r}")
        try:
            setattr(c, name, self._value(struct, name, fields[name], value))
        except BadUse:
            raise
        except (OverflowError, TypeError, ValueError) as wrong:
            raise BadUse(f"{name} {shown(value)}: {wrong}") from None

    def _value(self, struct: str, name: str, t, value: Any) -> Any:
        if t.kind == "primitive":
            if struct in _names.LEFT_OPEN and name in _plan_names.SETS:
                return self._bits(name, _plan_names.SETS[name], value)
            if struct in _names.LEFT_OPEN and name in _plan_names.FIELDS and isinstance(value, str):
                return self._choice(name, names_of(_plan_names.FIELDS[name]), value)
            if isinstance(value, float) and t.cname not in ("double", "float"):
                return whole(name, value)
            return value
        if t.kind == "enum":
            table = _names.TYPES.get(t.cname)
            listing = names_of(table) if table else tuple(enumerators(t.cname).values())
            return self._choice(name, listing, value) if isinstance(value, str) else value
        if t.kind == "pointer" and t.item.cname == "char":
            return self.keep(value, name)
        if t.kind in ("pointer", "array"):
            return self._list(name, t, value)
        if t.cname == "struct pz_choices":
            return self._choices(name, value)
        inner = Options(t.cname.removeprefix("struct "), value, f"{self.caller}: {name}")
        self.kept.append(inner)
        return inner.c[0]

    def keep(self, text: Any, what: str = "text"):
        """A text of C that lives as long as the options."""
        made = ffi.new("char[]", encoded(text, what))
        self.kept.append(made)
        return made

    @staticmethod
    def _choice(name: str, names: Tuple[str, ...], value: Any) -> int:
        if not isinstance(value, str) or value not in names:
            raise BadUse(f"{name} {shown(value)}; accepted: {', '.join(names)}")
        return names.index(value)

    def _bits(self, name: str, table: str, value: Any) -> int:
        if isinstance(value, int):
            return value
        names = names_of(table)
        words = value.split(",") if isinstance(value, str) else listed(name, value, len(names))
        if words in (["none"], ["all"]):
            return (1 << len(names)) - 1 if words == ["all"] else 0
        return sum({1 << self._choice(name, names, w) for w in words})

    @staticmethod
    def _choices(name: str, value: Any) -> Dict[str, Any]:
        given = listed(name, value, MOST_NUMBERS) if isinstance(value, Iterable) else [value]
        values = sorted({whole(name, v) for v in given})
        if not 1 <= len(values) <= lib.PZ_CHOICES_MOST:
            raise BadUse(f"{name}: {len(values)} choices; accepted: 1 to {lib.PZ_CHOICES_MOST}")
        return {"v": values, "n": len(values)}

    def _list(self, name: str, t, value: Any):
        """A list, and its length in the field n_NAME, if there is one."""
        if isinstance(value, Mapping) and t.item.kind == "pointer":
            value = [f"{k}={v}" for k, v in pairs(name, value)]
        items = listed(name, value, t.length if t.kind == "array" else MOST_NUMBERS)
        items = [self.keep(v, name) if t.item.kind == "pointer" else v for v in items]
        if f"n_{name}" in fields_of(self.struct):
            setattr(self.c, f"n_{name}", len(items))
        if t.kind == "array":
            return items
        made = ffi.new(ffi.getctype(t.item.cname, "[]"), items)
        self.kept.append(made)
        return made


def as_json(value: Any) -> bytes:
    try:
        return json.dumps(value).encode()
    except RecursionError:
        raise BadUse("accepted: a dict that is not nested so deeply") from None


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
        return b"table", str(given.to_csv(index=False)).encode(errors="replace")
    if isinstance(given, Mapping):
        return b"description", as_json(given)
    name = encoded(given, "file")
    try:
        if not stat.S_ISREG(os.stat(name).st_mode) and not name.startswith((b"/dev/stdin", b"/dev/fd/")):
            raise FileError(f"{os.fspath(given)}: accepted: a regular file")
        with open(name, "rb") as file:
            return name, file.read()
    except OSError as why:
        raise FileError(f"{os.fspath(given)}: cannot open: {why.strerror}") from None
