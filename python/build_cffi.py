#!/usr/bin/env python3
"""Writes what the Python package takes from the public header: the C source of its extension module
(cffi, API mode), the classes of its records, and the modules whose functions take the fields of a struct.

    build_cffi.py CC phaze.h OUT_FOLDER INCLUDE_FOLDER...

The declarations that cffi is given are the header itself, preprocessed: there is no second copy of
them, and a field that is added to a struct is an attribute in Python after the next build.
"""
import ast
import pathlib
import re
import subprocess
import sys
import tempfile

import cffi

sys.path.insert(0, str(pathlib.Path(__file__).parent / "phaze"))
import _names  # noqa: E402  (of the package, which cannot be imported before it is built)

PREAMBLE = "#include <phaze/phaze.h>\n"

# Modules in which a parameter of one of these names stands for the fields of a struct that the function does not
# name itself: each becomes a named parameter, None by default, and the name a dict of them.
EXPANDED = ("_calls.py", "_machine.py")
FIELDS_OF = {"plan_fields": "pz_plan", "workload_fields": "pz_workload_options"}

# What Python calls while C runs.
CALLBACKS = """
extern "Python" bool phaze_progress(void *, const struct pz_progress_state *);
extern "Python" void phaze_note(void *, unsigned, const char *);
extern "Python" void phaze_check(void *, bool, const char *);
"""

# Arrays whose length is not a field n_NAME beside them: what to write for it.
LENGTHS = {
    ("pz_training_run", "stages"): "c.plan.pp",
    ("pz_training_run", "stage_s"): "c.plan.pp",
    ("pz_training_run", "reserved_bytes"): "c.plan.pp",
    ("pz_training_plans", "runs"): "c.n",
    ("pz_training_sweep", "runs"): None,
    ("pz_training_sweep", "errors"): None,
    ("pz_partition", "stages"): "c.pp",
    ("pz_choices", "v"): "c.n",
    ("pz_cluster", "level"): "c.n_levels",
    ("pz_level", "axis"): "c.n_axes",
    ("pz_tensor", "shape"): "c.n_dims",
    ("pz_ops", "op"): "c.n",
    ("pz_op", "in"): "c.n_in",
    ("pz_workload_options", "dims"): None,
    ("pz_result_inputs", "models"): "c.options.n_models",
    ("pz_study_options", "models"): "c.n_models",
    ("pz_study_options", "weight"): "c.n_models",
    ("pz_explore_options", "models"): None,
    ("pz_run_plan", "from"): None,
    ("pz_run_plan_options", "set"): None,
    ("pz_run_plan_options", "ignore"): None,
    ("pz_plan_changes", "list"): "c.n",
    ("pz_plan_schedules", "list"): "c.n",
}

# Left out: of no use outside C.
LEFT_OUT = {
    ("pz_error", "origin_file"), ("pz_error", "origin_line"), ("pz_answer", "status"),
    ("pz_result", "arena"), ("pz_result_inputs", "json"), ("pz_part_info", "offset"),
    ("pz_part_info", "hidden"), ("pz_run_options", "ctx"), ("pz_partition_options", "note_ctx"),
    ("pz_silicon", "offset"), ("pz_bill_part", "offset"), ("pz_scaling_row", "plans"), ("pz_run_row", "plan"),
}

# Read in a way of their own: the expression, where x is the field, and the hint.
SPECIAL = {
    ("pz_op", "kind"): ("_text(lib.pz_op_kind_name(x))", "str"),
    ("pz_tail", "kind"): ("_text(lib.pz_op_kind_name(x))", "str"),
    ("pz_layer_schedule", "use"): ("_by_enumerator('enum pz_resource', x)", "Dict[str, float]"),
    ("pz_chip_plan", "use"): ("_by_enumerator('enum pz_resource', x)", "Dict[str, float]"),
    ("pz_layer_schedule", "limits"): ("_by_enumerator('enum pz_resource', x)", "Dict[str, bool]"),
    ("pz_scheduled_operator", "used"): ("_by_enumerator('enum pz_resource', x)", "Dict[str, float]"),
}
# 0: not known.
SPECIAL.update({(struct, name): ("x or None", "Optional[float]") for struct, names in {
    "pz_answer": ("dollars", "owner_dollars", "edge_mm", "edge_room_mm"), "pz_result_chip_summary": ("dollars", "tdp_watts"),
    "pz_result_step": ("dollars",), "pz_training_answer": ("full_watts",)}.items() for name in names})
SPECIAL.update({("pz_plan_change", "field"): ("_text(lib.pz_plan_field_name(x))", "Optional[str]")})
SPECIAL_TYPES = {
    "struct pz_chip *": ("_chip(x)", "Chip"),
    "struct pz_cluster": ("_cluster(x)", "Cluster"),
    "enum pz_tech": ("_text(lib.pz_tech_at(x).name)", "str"),
}

# Networks are objects of their own, which hold these.
CLASSES = {"pz_cluster": "ClusterFields"}


def declarations(cc, header, includes):
    """The header as cffi reads it: preprocessed without the system's headers, without bodies."""
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stdbool.h", "stddef.h", "stdint.h"):
            (pathlib.Path(empty) / name).write_text("")
        text = subprocess.run(
            [cc, "-E", "-P", "-nostdinc", "-U__GNUC__", f"-I{empty}", *(f"-I{i}" for i in includes),
             header], check=True, capture_output=True, text=True).stdout
    return re.sub(r"static inline[^{;]*\{[^}]*\}", "", text)


def class_name(struct):
    """pz_training_run: TrainingRun."""
    if struct in CLASSES:
        return CLASSES[struct]
    return "".join(w.capitalize() for w in struct.removeprefix("pz_").split("_"))


class Field:
    """How one field of a struct is read: an expression of Python, and its type for hints."""

    def __init__(self, ffi, struct, name, ctype):
        self.ffi, self.struct, self.name = ffi, struct, name
        self.attribute = name + "_" if name in ("in", "from") else name
        self.expression, self.hint = self.read(ctype, f"getattr(c, {name!r})"
                                               if name in ("in", "from") else f"c.{name}")

    def read(self, t, x):
        special = SPECIAL.get((self.struct, self.name)) or SPECIAL_TYPES.get(t.cname)
        if special:
            return re.sub(r"\bx\b", x, special[0]), special[1]
        if self.name in _names.SETS and self.struct in _names.LEFT_OPEN:
            return f"_set({_names.SETS[self.name]!r}, {x})", "Optional[str]"
        if self.name in _names.FIELDS and self.struct in _names.LEFT_OPEN:
            return f"_name({_names.FIELDS[self.name]!r}, {x})", "Optional[str]"
        if t.kind == "primitive":
            hint = {"double": "float", "_Bool": "bool", "bool": "bool"}.get(t.cname, "int")
            return x, hint
        if t.kind == "enum":
            return self.read_enum(t, x)
        if t.kind == "struct":
            return f"{class_name(t.cname.removeprefix('struct '))}._read({x})", \
                class_name(t.cname.removeprefix("struct "))
        if t.kind == "array" and t.item.cname == "char":
            return f"_text({x})", "str"
        if t.kind == "array":
            return self.read_list(t.item, x, str(t.length))
        if t.kind == "pointer":
            return self.read_pointer(t, x)
        return None, None

    def read_enum(self, t, x):
        names = _names.TYPES.get(t.cname)
        if names and names.endswith("_names"):
            return f"_name({names!r}, {x})", "str"
        if names:
            return f"_text(lib.{names}({x}))", "str"
        return f"_enumerator({t.cname!r}, {x})", "str"

    def read_list(self, item, x, length):
        length = LENGTHS.get((self.struct, self.name), self.beside() or length)
        if length is None:
            return None, None
        if item.kind == "primitive":
            return f"ffi.unpack({x}, {length}) if {x} else []", \
                "List[float]" if item.cname == "double" else "List[int]"
        one, hint = self.read(item, f"{x}[i]")
        return (f"[{one} for i in range({length})] if {x} else []", f"List[{hint}]") if one else (None, None)

    def beside(self):
        fields = dict(self.ffi.typeof(f"struct {self.struct}").fields)
        return f"c.n_{self.name}" if f"n_{self.name}" in fields else None

    def read_pointer(self, t, x):
        item = t.item
        if item.cname == "char":
            return f"_text({x})", "Optional[str]"
        if (self.struct, self.name) in LENGTHS or self.beside():
            return self.read_list(item, x, "0")
        if item.kind == "struct" and item.fields:
            name = class_name(item.cname.removeprefix("struct "))
            return f"{name}._read({x}) if {x} else None", f"Optional[{name}]"
        return None, None


RECORDS_HEAD = '''"""Records: the structs of phaze.h as plain objects.  Written by build_cffi.py, not by hand."""
from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Optional

from ._phaze import ffi, lib
from ._values import Record, _by_enumerator, _chip, _cluster, _enumerator, _name, _set, _text

if TYPE_CHECKING:
    from ._machine import Chip, Cluster
'''


def record(ffi, struct):
    t = ffi.typeof(f"struct {struct}")
    lists = {name for name, _ in t.fields if f"n_{name}" in dict(t.fields)}
    fields = [Field(ffi, struct, name, f.type) for name, f in t.fields
              if (struct, name) not in LEFT_OUT and not (name.startswith("n_") and name[2:] in lists)
              and name != "size"]
    fields = [f for f in fields if f.expression]
    lines = [f"\n\nclass {class_name(struct)}(Record):", f'    """struct {struct} of phaze.h."""\n']
    lines += [f"    {f.attribute}: {f.hint}" for f in fields]
    lines += ["", "    @classmethod", "    def _read(cls, c):", "        o = cls.__new__(cls)"]
    lines += [f"        o.{f.attribute} = {f.expression}" for f in fields]
    return "\n".join(lines + ["        return o"])


def records(ffi):
    """Every struct whose fields are known, but for those that hold functions."""
    names = [n.removeprefix("struct ") for n in ffi.list_types()[1]]
    names = [n for n in names if n.startswith("pz_") and ffi.typeof(f"struct {n}").fields
             and n not in ("pz_allocator",)]
    return RECORDS_HEAD + "".join(record(ffi, n) for n in names) + "\n"


def plan_names(definition):
    """Which fields of a plan are choices and sets, and where their names are: from plan_fields.def."""
    kinds = {"CHOICE": _names.FIELDS, "SET": _names.SETS}
    rows = re.findall(r"^PZ_PLAN_FIELD\(\w+, [^,]+, (\w+), (\w+),.*?(?:NAMES\((\w+)\)|$)", definition, re.M)
    for name, kind, names in rows:
        if kind in kinds and names:
            kinds[kind][name] = names
    return (f'"""Choices and sets among the fields of a plan.  Written by build_cffi.py, not by hand."""\n'
            f"FIELDS = {_names.FIELDS!r}\nSETS = {_names.SETS!r}\n")


def hint(ffi, struct, name):
    """The type of a parameter for a field."""
    t = dict(ffi.typeof(f"struct {struct}").fields)[name].type
    if name in _names.SETS and struct == "pz_plan":
        return "Union[str, Sequence[str], None]"
    if name in _names.FIELDS and struct == "pz_plan" or t.kind == "enum" \
            or t.kind == "pointer" and t.item.cname == "char":
        return "Optional[str]"
    if name == "dims":
        return "Optional[Mapping[str, int]]"
    if t.kind == "pointer":
        return "Optional[Sequence[int]]"
    return {"double": "Optional[float]", "_Bool": "Optional[bool]", "bool": "Optional[bool]"}.get(
        t.cname, "Optional[int]")


def expanded(ffi, source):
    """A module with the parameters of FIELDS_OF written out."""
    lines, edits = source.splitlines(keepends=True), []
    for f in ast.walk(ast.parse(source)):
        if not isinstance(f, ast.FunctionDef):
            continue
        arguments = f.args.posonlyargs + f.args.args + f.args.kwonlyargs
        own = {a.arg for a in arguments}
        for a in arguments:
            if a.arg not in FIELDS_OF:
                continue
            names = [n for n, field in ffi.typeof(f"struct {FIELDS_OF[a.arg]}").fields
                     if n != "size" and not n.startswith("n_") and n not in own]
            text = ", ".join(f"{n}: {hint(ffi, FIELDS_OF[a.arg], n)} = None" for n in names)
            edits.append((a.lineno, a.col_offset, f"{a.arg}=None", text))
            given = "{" + ", ".join(f"{n!r}: {n}" for n in names) + "}"
            edits += [(x.lineno, x.col_offset, a.arg, given) for x in ast.walk(f)
                      if isinstance(x, ast.Name) and x.id == a.arg]
    for line, column, old, new in sorted(edits, reverse=True):
        text = lines[line - 1]
        assert text[column:].startswith(old), text
        lines[line - 1] = text[:column] + new + text[column + len(old):]
    return "".join(lines)


def main():
    cc, header, out, *includes = sys.argv[1:]
    ffi = cffi.FFI()
    here = pathlib.Path(__file__).parent
    fields = [pathlib.Path(i) / "phaze" / "plan_fields.def" for i in includes]
    names_text = plan_names(next(f for f in fields if f.exists()).read_text())
    ffi.cdef(declarations(cc, header, includes))
    records_text = records(ffi)
    ffi.cdef(CALLBACKS)
    ffi.set_source("phaze._phaze", PREAMBLE)
    folder = pathlib.Path(out)
    ffi.emit_c_code(str(folder / "_phaze.c"))
    (folder / "_records.py").write_text(records_text)
    (folder / "_plan_names.py").write_text(names_text)
    for name in EXPANDED:
        (folder / name).write_text(expanded(ffi, (here / "phaze" / name).read_text()))


if __name__ == "__main__":
    main()
