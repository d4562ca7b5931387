"""Errors of the library as exceptions."""
from __future__ import annotations

from typing import Dict, Type

from ._phaze import ffi, lib


class Error(Exception):
    """What the library could not do.

    `str(error)` is its sentence for people; `status` the short name of the kind of error, `input`,
    `line` and `column` the place where that is a text file.

    >>> import phaze
    >>> try:
    ...     phaze.Chip.load("h9000")
    ... except phaze.BadInput as error:
    ...     print(error.status)
    bad input
    """

    status: str = "internal error"
    input: str = ""
    line: int = 0
    column: int = 0


class BadInput(Error, ValueError):
    """A file, name or field is wrong; the message says what would be accepted."""


class BadUse(Error, ValueError):
    """The options are wrong."""


class NoMemory(Error, MemoryError):
    """There is no memory."""


class FileError(Error):
    """A file could not be read or written."""


class LimitPassed(Error):
    """A stated limit was passed (size, count, integer range)."""


class Internal(Error):
    """A bug of the library."""


class NoAnswer(Error):
    """There is none: nothing fits."""


class Stopped(Error):
    """Asked to stop before the end."""


_KINDS: Dict[int, Type[Error]] = {
    lib.PZ_BAD_INPUT: BadInput,
    lib.PZ_BAD_USE: BadUse,
    lib.PZ_NO_MEMORY: NoMemory,
    lib.PZ_IO: FileError,
    lib.PZ_LIMIT: LimitPassed,
    lib.PZ_INTERNAL: Internal,
    lib.PZ_NO_ANSWER: NoAnswer,
    lib.PZ_STOPPED: Stopped,
}


def _string(c) -> str:
    return ffi.string(c).decode("utf-8", "replace")


def error_of(status: int, err) -> Error:
    """The exception for a call that returned `status` and filled `err`."""
    message = _string(err.message) or _string(lib.pz_status_name(status))
    error = _KINDS.get(status, Error)(message)
    error.status = _string(lib.pz_status_name(status))
    error.input, error.line, error.column = _string(err.input), err.line, err.column
    return error


def call(function, *arguments) -> None:
    """Call a function of the library that takes a struct pz_error last."""
    err = ffi.new("struct pz_error *")
    try:
        status = function(*arguments, err)
    except OverflowError as wrong:  # of an argument that C has no number for
        raise BadUse(str(wrong)) from None
    if status != lib.PZ_OK:
        raise error_of(status, err)
