"""phaze: which accelerator chip to build, and how a cluster of them should train a model.

    >>> import phaze
    >>> best = phaze.place("llama3-8b", chip="h100", cluster="dgx-h100", devices=64, batch=512)
    >>> best.proved, best.best.fits
    (True, True)

    model      models, graph, Workload      operators of a model, forward and backward
    chip       chips, clusters, Chip, Cluster    descriptions, loaded, changed, made from dicts
               fields                       of their files: units, defaults, meanings
               silicon, known, sources      constants of their bills, known dies, sources
    cost       estimate, estimate_ops, product, power    time, energy and power of operators on a chip
    schedule   schedule, schedule_plan, schedule_instance    how a chip runs a layer's operators beside each other
    predict    predict, predict_many, predict_runs, explain, Prediction.cost    what plans take, as training frameworks run them
    place      place, place_instance, scale the best plan of a training run, proved
    tune       tune, read_plan              what would make a run that you have faster
    diff       diff                         what two runs differ by, second by second
    emit       emit                         a plan as the launch script of its framework
    pages      Placement.page, Scaling.page, explore    plans as HTML pages, and one that finds plans itself
    calibrate  calibrate, calibrate_steps   a chip fitted to operators or training steps that you measured
    search     search, compare, compare_chips, original, load_run, report, verify
                                            which chip of a design space is best
    validate   validate                     predictions beside measurements

It is the C library behind plain objects: their fields are attributes with the names and units of the
header phaze.h, `to_dict()` makes dicts and lists of them, `to_frame()` a pandas.DataFrame, `plot()` a
picture with matplotlib, `print()` text for people.  Errors of the library are exceptions (phaze.Error)
with its message.  While the library works, other threads of Python run, and Ctrl-C ends the call.
"""
from ._calls import (calibrate, calibrate_steps, compare, compare_chips, diff, emit, estimate, estimate_ops, explain,
                     explore, known, load_run, original, place, place_instance, power, predict, predict_many, predict_runs,
                     product, read_plan, report, scale,
                     schedule, schedule_instance, schedule_plan, search, silicon, sources, tune, validate, verify)
from ._errors import (BadInput, BadUse, Error, FileError, Internal, LimitPassed, NoAnswer, NoMemory,
                      Stopped)
from ._machine import (Chip, Cluster, PhazeWarning, Space, Workload, chips, clusters, fields, frameworks,
                       graph, models, spaces)
from ._phaze import lib as _lib
from ._results import (Calibration, ChipComparison, ChipPlan, Difference, Estimate, Explanation, InstancePlan,
                       OperatorTimes, Original, Placement, PlanSchedules, PowerTable, Prediction, Predictions, Report, RunPlan,
                       Runs, Scaling, Schedule, SearchResult, StepCalibration, Tuning, Validation, Verification)
from ._values import Record, _text

__version__: str = _text(_lib.pz_version()) or ""

__all__ = [
    "BadInput", "BadUse", "Calibration", "Chip", "ChipComparison", "ChipPlan", "Cluster", "Difference", "Error", "Estimate",
    "Explanation", "FileError", "InstancePlan", "Internal", "LimitPassed", "NoAnswer", "NoMemory", "OperatorTimes",
    "Original", "PhazeWarning", "Placement", "PlanSchedules", "PowerTable", "Prediction", "Predictions", "Record", "Report",
    "RunPlan", "Runs", "Scaling", "Schedule", "SearchResult", "Space", "StepCalibration", "Stopped", "Tuning",
    "Validation", "Verification", "Workload", "calibrate", "calibrate_steps", "chips", "clusters", "compare",
    "compare_chips", "diff", "emit", "estimate", "estimate_ops", "explain",
    "explore", "fields", "frameworks", "graph", "known", "load_run", "models", "original", "place", "place_instance", "power",
    "predict", "predict_many", "predict_runs", "product", "read_plan", "report", "scale", "schedule", "schedule_instance",
    "schedule_plan", "search", "silicon", "sources", "spaces", "tune", "validate", "verify",
]

for _name in ("Error", "BadInput", "BadUse", "NoMemory", "FileError", "LimitPassed", "Internal", "NoAnswer",
              "Stopped"):
    globals()[_name].__module__ = "phaze"
del _name
