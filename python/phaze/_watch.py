"""Calls of the library that take long: in a thread of their own, so that the caller's thread is told of their
progress and hears Ctrl-C."""
from __future__ import annotations

import os
import queue
import threading
from typing import Any, Callable, Optional

from . import _records as records
from ._errors import BadUse, call
from ._machine import Path
from ._phaze import ffi, lib
from ._results import SearchResult
from ._values import Options, encoded, shown, whole

Progress = Callable[[records.ProgressState], Any]

# How often the caller's thread looks for a signal where the library has nothing to tell, seconds.
LISTEN_S = 0.1
_END = object()


@ffi.def_extern(error=False)
def phaze_progress(ctx, state):
    return ffi.from_handle(ctx)._told(state)


class Watch:
    """What a long call is watched with.  Whatever the caller's thread raises meanwhile (KeyboardInterrupt, an error
    of `progress`) ends the call: the library stops the work where it can be cancelled, and is left to end it
    where it cannot."""

    def __init__(self, progress: Optional[Progress] = None):
        if progress is not None and not callable(progress):
            raise TypeError(f"progress: found {type(progress).__name__}; accepted: a function")
        self._progress = progress
        self._stop = threading.Event()
        self._states: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._handle = ffi.new_handle(self)
        self._cancels = False
        self._left = False

    def attach(self, c) -> "Watch":
        """To options of the library with progress and ctx."""
        c.progress, c.ctx, self._cancels = lib.phaze_progress, self._handle, True
        return self

    def arguments(self):
        """The same for a function that takes progress and ctx itself."""
        self._cancels = True
        return lib.phaze_progress, self._handle

    def _told(self, state) -> bool:
        """Called by threads of the library."""
        if self._progress:
            self._states.put(records.ProgressState._read(state))
        return not self._stop.is_set()

    def made(self, struct: str, free, function, *arguments: Any):
        """What a function of the library makes, freed when nobody holds it."""
        out = ffi.new(f"struct {struct} **")

        def work() -> None:
            call(function, *arguments, out)
            if self._left:
                free(out[0])

        self.run(work)
        return ffi.gc(out[0], free)

    def run(self, work: Callable[[], None]) -> None:
        raised = []

        def target() -> None:
            try:
                work()
            except BaseException as error:  # told to the caller below
                raised.append(error)
            finally:
                self._states.put(_END)

        thread = threading.Thread(target=target, name="phaze", daemon=True)
        thread.start()
        try:
            self._tell_progress()
            thread.join()
        except BaseException:
            self._end(thread)
            raise
        if raised:
            raise raised[0]

    def _tell_progress(self) -> None:
        while True:
            try:
                state = self._states.get(timeout=LISTEN_S)
            except queue.Empty:
                continue
            if state is _END:
                return
            # what the library tells before it hears of the end is not told on
            if self._progress and not self._stop.is_set() and self._progress(state) is False:
                self._stop.set()

    def _end(self, thread: threading.Thread) -> None:
        self._stop.set()
        self._left = True
        while self._cancels and thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt:
                continue  # it is stopping already


class Run:
    """An open search, closed at the end of its `with`."""

    def __init__(self, output: Optional[Path], fresh: bool, threads: int, progress: Optional[Progress]):
        self.directory = os.fsdecode(encoded(output, "directory")) if output is not None else None
        self._watch = Watch(progress)
        self._options = Options("pz_run_options", {"dir": self.directory, "fresh": fresh,
                                                   "threads": threads}, "search")
        self._watch.attach(self._options.c)
        self._study: Optional[Options] = None
        self._c = ffi.NULL

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: Any) -> None:
        c, self._c = self._c, ffi.NULL
        lib.pz_run_close(c)

    def open(self, study: Options) -> None:
        out = ffi.new("struct pz_run **")
        self._study = study  # its texts live as long as the run
        try:
            self._watch.run(lambda: call(lib.pz_run_open, study.c, self._options.c, out))
        finally:
            self._c = out[0]

    def look(self) -> None:
        out = ffi.new("struct pz_run **")
        call(lib.pz_run_look, self._options.c, out)
        self._c = out[0]

    def do(self, part: str, seed: Optional[int] = None) -> None:
        if seed is not None and not 0 <= whole("seed", seed) < 1 << 64:
            raise BadUse(f"seed {shown(seed)}; accepted: 0 to 2^64 - 1")
        given = ffi.NULL if seed is None else ffi.new("uint64_t *", whole("seed", seed))
        arguments = (given,) if part == "compare" else ()
        self._watch.run(lambda: call(getattr(lib, f"pz_run_{part}"), self._c, *arguments))

    def result(self) -> SearchResult:
        found = SearchResult._read(lib.pz_run_result(self._c))
        found.times = records.RunTimes._read(lib.pz_run_times(self._c))
        found.reused = bool(lib.pz_run_reused(self._c))
        found.directory = self.directory
        return found
