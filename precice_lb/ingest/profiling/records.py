"""Parsing of the records: lines to arrays of kind, event and time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError

__all__ = ["Records", "parse_block"]

_TIMED = re.compile(rb"(?:[BE]\d{1,6}:\d{1,16}\n)*")
_OTHERS = re.compile(rb"^(?:[^BE\n].*)?\n", re.MULTILINE)
_NAME = re.compile(rb"N(\d+):(.*)\n")
_DATUM = re.compile(rb"D[^:]*:[^:]*:(-?\d+):(-?\d+)\n")
_TO_BLANKS = bytes.maketrans(b"BE:", b"   ")


@dataclass(frozen=True)
class Records:
    """Records of one block."""

    #: Whether an event begins; otherwise it ends.
    begins: NDArray[np.bool_]
    #: Which event.
    events: NDArray[np.int64]
    #: When, in microseconds of the file's clock.
    times: NDArray[np.int64]
    #: Names of events by number.
    names: dict[int, bytes] = field(default_factory=dict)
    #: Number of the name and value of each datum.
    data: list[tuple[int, int]] = field(default_factory=list)


def parse_block(block: bytes) -> Records:
    """Parse a block of whole lines."""
    names: dict[int, bytes] = {}
    data: list[tuple[int, int]] = []
    for line in _OTHERS.findall(block):
        if name := _NAME.fullmatch(line):
            names[int(name[1])] = name[2]
        elif datum := _DATUM.fullmatch(line):
            data.append((int(datum[1]), int(datum[2])))
        else:
            _refuse(line)
    timed = _OTHERS.sub(b"", block)
    whole = _TIMED.match(timed)
    assert whole is not None
    if whole.end() < len(timed):
        _refuse(timed[whole.end() :])
    numbers = np.fromstring(timed.translate(_TO_BLANKS), dtype=np.int64, sep=" ").reshape(-1, 2)
    letters = np.frombuffer(timed, dtype=np.uint8)
    return Records(letters[letters >= ord("B")] == ord("B"), numbers[:, 0], numbers[:, 1], names, data)


def _refuse(line: bytes) -> NoReturn:
    shown = line.split(b"\n", 1)[0][:60].decode("utf-8", "replace")
    raise DataError(f"expected a record of preCICE's profiling (N, B, E or D, then numbers), found {shown!r}") from None
