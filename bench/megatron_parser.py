"""Arguments of launch scripts through Megatron-LM's own parser and validation.

    megatron_parser.py MEGATRON_PATH < cases.json        a line of JSON on stdout for each case
    megatron_parser.py MEGATRON_PATH --options           a line of JSON for each option: its name, and the accepted words or null

A case is {"argv": [...], "world": N, "environment": {...}, "arch": 9}.  Its answer is [what, why]: "accepted", or "refused"
with the message.  ENGINE=1 puts a stub in the place of Transformer Engine, STUB_TORCH=1 one in that of PyTorch.  No GPU is used and no package is needed: where
PyTorch is missing or older than 2.4, a stub of it is imported instead (validation reads its version and compares names of
types), and so of what else Megatron-LM imports without a fallback.
"""
import abc
import argparse
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import os
import re
import sys
import types
import typing
import warnings

VERSION_OF = {"torch": "2.9.0", "triton": "3.5.0", "numpy": "2.1.0", "transformer_engine": "2.9.0"}


class Anything(type(typing.Protocol)):
    """A class of which every attribute is such a class, and which as a decorator does nothing."""

    def __getattr__(cls, name):
        if name.startswith(("__", "_abc", "_is_")):
            raise AttributeError(name)
        value = stub(name)
        setattr(cls, name, value)
        return value

    def __call__(cls, *words, **names):
        if cls.__module__ == __name__ and len(words) == 1 and callable(words[0]) and not names:
            return words[0]
        return super().__call__(*words, **names) if cls.__module__ != __name__ else abc.ABCMeta.__call__(cls)

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __getitem__(cls, item):
        return cls

    def __iter__(cls):
        return iter(())


def stub(name):
    return Anything(name, (), {"__call__": lambda self, *words, **names: words[0] if words else self,
                               "__bool__": lambda self: False,
                               "__getattr__": lambda self, key: getattr(type(self), key), "_is_protocol": False, "__file__": "", "__init_subclass__": classmethod(lambda cls, **names: None),
                               "__module__": __name__})


class Module(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = "/usr" if name == "CUDA_HOME" else stub(name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stubs of the packages in `tops` with all their modules, and of single modules."""

    def __init__(self):
        self.tops, self.made = set(), set()

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in self.tops or name in self.tops:
            self.made.add(name if name in self.tops else name.split(".")[0])
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = Module(spec.name)
        if spec.name in VERSION_OF:
            module.__version__ = VERSION_OF[spec.name]
        return module

    def exec_module(self, module):
        pass


class Version:
    """As much of packaging.version.Version as Megatron-LM uses."""

    def __init__(self, text):
        self.text = str(text)
        self.release = tuple(int(n) for n in re.match(r"[\d.]*", self.text)[0].strip(".").split("."))
        self.major, self.minor, self.micro = (self.release + (0, 0))[:3]

    def __str__(self):
        return self.text

    def __eq__(self, other):
        return self.release == other.release

    def __hash__(self):
        return hash(self.release)

    def __lt__(self, other):
        return self.release < other.release

    def __le__(self, other):
        return self.release <= other.release

    def __gt__(self, other):
        return self.release > other.release

    def __ge__(self, other):
        return self.release >= other.release


def has(package, least=()):
    try:
        module = importlib.import_module(package)
    except Exception:  # pylint: disable=broad-except
        return False
    return not least or tuple(int(n) for n in module.__version__.split(".")[:2]) >= least


def prepare(finder):
    """Stubs of what is missing; returns torch."""
    if os.environ.get("STUB_TORCH") == "1" or not has("torch", (2, 4)):
        for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
            del sys.modules[name]
        finder.tops.add("torch")
    finder.tops |= {name for name in ("regex", "triton", "requests", "yaml", "tqdm", "einops", "numpy", "pydantic") if not has(name)}
    if "numpy" not in finder.tops and not has("numpy.dtypes"):
        finder.tops.add("numpy.dtypes")
    sys.meta_path.insert(0, finder)
    if not has("packaging.version"):
        package, version = Module("packaging"), Module("packaging.version")
        package.version, version.Version, version.parse = version, Version, Version
        sys.modules.update({"packaging": package, "packaging.version": version})
        finder.made.add("packaging")
    if not hasattr(typing, "override"):  # Python 3.12 has it
        typing.override = lambda function: function
    if os.environ.get("ENGINE") == "1":
        finder.tops.add("transformer_engine")
    import torch
    return torch


def device(torch, arch):
    """The device that the plan is for, which need not be here."""
    facts = types.SimpleNamespace(major=arch, minor=0, name="stub", total_memory=1 << 37, multi_processor_count=132)
    torch.cuda.get_device_properties = lambda *words: facts
    torch.cuda.get_device_capability = lambda *words: (arch, 0)
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 8


def ask(torch, arguments, case):
    kept, argv = dict(os.environ), sys.argv
    sys.argv = ["pretrain.py", *case["argv"]]
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(case["environment"], WORLD_SIZE=str(case["world"]), RANK="0", LOCAL_RANK="0")
    device(torch, case["arch"])
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            args = arguments.parse_args()
            arguments.validate_args(args)
            arguments.core_transformer_config_from_args(args)
        return "accepted", ""
    except BaseException as e:  # pylint: disable=broad-except
        at = e.__traceback__
        while at.tb_next:
            at = at.tb_next
        where = "%s:%d" % (at.tb_frame.f_code.co_filename.split("/megatron/", 1)[-1], at.tb_lineno)
        text = out.getvalue().strip().split("\n")[-1] if isinstance(e, SystemExit) else str(e) or repr(e)
        return "refused", "%s: %s (%s)" % (type(e).__name__, " ".join(text.split())[:300], where)
    finally:
        os.environ.clear()
        os.environ.update(kept)
        sys.argv = argv


def main():
    finder = Finder()
    warnings.simplefilter("ignore")
    sys.path[0] = sys.argv[1]
    with contextlib.redirect_stdout(sys.stderr):
        torch = prepare(finder)
        from megatron.training import arguments
    if sys.argv[2:] == ["--options"]:
        parser = arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
        for action in parser._actions:  # pylint: disable=protected-access
            for name in action.option_strings:
                print(json.dumps([name, [str(getattr(word, "name", word)) for word in action.choices or []] or None]))
        return
    for case in json.load(sys.stdin):
        print(json.dumps(ask(torch, arguments, case)))
    print(json.dumps(sorted(finder.made)))


if __name__ == "__main__":
    main()
