"""phaze: which accelerator chip to build, and how a cluster of them should train a model.

    >>> import phaze
    >>> best = phaze.place("llama3-8b", chip="h100", cluster="dgx-h100", devices=64, batch=512)
    >>> best.proved, best.best.fits
    (True, True)

    model      models, graph, Workload      operators of a model, forward and backward
    chip       chips, clusters, Chip, Cluster    descriptions, loaded, changed, made from dicts
    cost       estimate, product            time and energy of operators on a chip
    schedule   schedule                     how a chip runs a layer's operators beside each other
    predict    predict, Prediction.cost     what one plan takes, as training frameworks run it
    place      place, scale                 the best plan of a training run, proved
    search     search, load_run, verify     which chip of a design space is best
    validate   validate                     predictions beside measurements

It is the C library behind plain objects: their fields are attributes with the names and units of the
header phaze.h, `to_dict()` makes dicts and lists of them, `to_frame()` a pandas.DataFrame, `plot()` a
picture with matplotlib, `print()` text for people.  Errors of the library are exceptions (phaze.Error)
with its message.  While the library works, other threads of Python run.
"""
from ._calls import (estimate, load_run, place, predict, product, scale, schedule, search, validate,
                     verify)
from ._errors import (BadInput, BadUse, Error, FileError, Internal, LimitPassed, NoAnswer, NoMemory,
                      Stopped)
from ._machine import (Chip, Cluster, PhazeWarning, Space, Workload, chips, clusters, frameworks, graph,
                       models, spaces)
from ._phaze import lib as _lib
from ._results import (ChipPlacement, Estimate, Placement, Prediction, Scaling, Schedule, SearchResult,
                       Validation, Verification)
from ._values import Record, _text

__version__: str = _text(_lib.pz_version()) or ""

__all__ = [
    "BadInput", "BadUse", "Chip", "ChipPlacement", "Cluster", "Error", "Estimate", "FileError", "Internal",
    "LimitPassed", "NoAnswer", "NoMemory", "PhazeWarning", "Placement", "Prediction", "Record", "Scaling",
    "Schedule", "SearchResult", "Space", "Stopped", "Validation", "Verification", "Workload", "chips",
    "clusters", "estimate", "frameworks", "graph", "load_run", "models", "place", "predict", "product",
    "scale", "schedule", "search", "spaces", "validate", "verify",
]

for _name in ("Error", "BadInput", "BadUse", "NoMemory", "FileError", "LimitPassed", "Internal", "NoAnswer",
              "Stopped"):
    globals()[_name].__module__ = "phaze"
del _name
