"""phaze: which accelerator chip to build, and how a cluster of them should train a model.

    >>> import phaze
    >>> best = phaze.place("llama3-8b", chip="h100", cluster="dgx-h100", devices=64, batch=512)
    >>> best.proved, best.best.fits
    (True, True)

    model      models, graph, Workload      operators of a model, forward and backward
    chip       chips, clusters, Chip, Cluster    descriptions, loaded, changed, made from dicts
    cost       estimate, product            time and energy of operators on a chip
    schedule   schedule                     how a chip runs a layer's operators beside each other
    predict    predict, explain, Prediction.cost    what one plan takes, as training frameworks run it
    place      place, scale                 the best plan of a training run, proved
    tune       tune, read_plan              what would make a run that you have faster
    emit       emit                         a plan as the launch script of its framework
    calibrate  calibrate                    a chip fitted to operators that you measured
    search     search, compare, load_run, verify
                                            which chip of a design space is best
    validate   validate                     predictions beside measurements

It is the C library behind plain objects: their fields are attributes with the names and units of the
header phaze.h, `to_dict()` makes dicts and lists of them, `to_frame()` a pandas.DataFrame, `plot()` a
picture with matplotlib, `print()` text for people.  Errors of the library are exceptions (phaze.Error)
with its message.  While the library works, other threads of Python run, and Ctrl-C ends the call.
"""
from ._calls import (calibrate, compare, emit, estimate, explain, load_run, place, predict, product, read_plan, scale,
                     schedule, search, tune, validate, verify)
from ._errors import (BadInput, BadUse, Error, FileError, Internal, LimitPassed, NoAnswer, NoMemory,
                      Stopped)
from ._machine import (Chip, Cluster, PhazeWarning, Space, Workload, chips, clusters, frameworks, graph,
                       models, spaces)
from ._phaze import lib as _lib
from ._results import (Calibration, ChipPlan, Estimate, Explanation, Placement, Prediction, RunPlan, Scaling, Schedule,
                       SearchResult, Tuning, Validation, Verification)
from ._values import Record, _text

__version__: str = _text(_lib.pz_version()) or ""

__all__ = [
    "BadInput", "BadUse", "Calibration", "Chip", "ChipPlan", "Cluster", "Error", "Estimate", "Explanation",
    "FileError", "Internal", "LimitPassed", "NoAnswer", "NoMemory", "PhazeWarning", "Placement", "Prediction", "Record",
    "RunPlan", "Scaling", "Schedule", "SearchResult", "Space", "Stopped", "Tuning", "Validation", "Verification",
    "Workload", "calibrate", "chips", "clusters", "compare", "emit", "estimate", "explain", "frameworks", "graph",
    "load_run",
    "models", "place", "predict", "product", "read_plan", "scale", "schedule", "search", "spaces", "tune", "validate",
    "verify",
]

for _name in ("Error", "BadInput", "BadUse", "NoMemory", "FileError", "LimitPassed", "Internal", "NoAnswer",
              "Stopped"):
    globals()[_name].__module__ = "phaze"
del _name
