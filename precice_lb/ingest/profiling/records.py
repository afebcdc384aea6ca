"""Vectorised parsing of the records: lines to arrays of kind, event and time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.files import PADDING

__all__ = ["Records", "parse_block"]

_BEGIN, _END, _DATA, _NAME = b"BEDN"
_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)
_LOW_BYTE = np.uint64(0xFF)
_LONGEST_ID = 6


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
    """Parse a block of whole lines.

    Eight digits at a time are read as one 64-bit number and converted with three multiplications.
    """
    raw = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(raw[:-PADDING] == 10)
    starts = np.empty_like(ends)
    starts[:1] = PADDING
    np.add(ends[:-1], 1, out=starts[1:])
    # Every run of eight bytes as a number, the first byte lowest.
    words = np.ndarray(len(raw) - 7, dtype="<u8", buffer=block, strides=(1,))
    head = words[starts]
    kind = head & _LOW_BYTE
    begins = kind == _BEGIN
    timed = begins | (kind == _END)
    names: dict[int, bytes] = {}
    data: list[tuple[int, int]] = []
    if not timed.all():
        for line in np.flatnonzero(~timed).tolist():
            _parse_other(block[starts[line] : ends[line]], names, data)
        starts, ends, head, begins = starts[timed], ends[timed], head[timed], begins[timed]
    events, width = _numbers_after_kind(head)
    length = ends - starts - width - 2
    times, fine = _numbers_before(words, ends, length)
    fine &= (width > 0) & (length > 0) & (length <= 16)
    if not fine.all():
        line = int(np.argmin(fine))
        _refuse(block[starts[line] : ends[line]])
    return Records(begins, events, times, names, data)


def _numbers_after_kind(head: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read the number between first byte and colon, and how many digits it has; none where it is no number."""
    numbers = np.zeros(len(head), dtype=np.int64)
    width = np.zeros(len(head), dtype=np.int64)
    open_ = np.ones(len(head), dtype=bool)
    for position in range(1, _LONGEST_ID + 2):
        byte = ((head >> np.uint64(8 * position)) & _LOW_BYTE).astype(np.int64)
        colon = open_ & (byte == ord(":"))
        width[colon] = position - 1
        open_ &= (byte >= ord("0")) & (byte <= ord("9"))
        if not open_.any():
            break
        numbers = np.where(open_, numbers * 10 + byte - ord("0"), numbers)
    return numbers, width


def _numbers_before(
    words: NDArray[np.uint64], ends: NDArray[np.intp], length: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Read numbers of up to 16 digits that stand before `ends`, and tell whether they are numbers."""
    numbers, fine = _eight_digits(words[ends - 8], np.clip(length, 0, 8))
    more = np.flatnonzero(length > 8)
    if len(more):
        upper, upper_fine = _eight_digits(words[ends[more] - 16], np.clip(length[more] - 8, 0, 8))
        numbers[more] += upper * 100_000_000
        fine[more] &= upper_fine
    return numbers, fine


def _eight_digits(words: NDArray[np.uint64], length: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Convert what the last `length` bytes of each word spell, and tell whether they are digits."""
    shift = (64 - 8 * length).astype(np.uint64)
    # Shifts by 64 bits are undefined: a length of 0 is refused by the caller.
    np.minimum(shift, np.uint64(56), out=shift)
    digits = ((words ^ _ZEROS) >> shift) << shift
    fine = (((digits + _ABOVE_NINE) | digits) & _HIGH_BITS) == 0
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    mask = np.uint64(0x000000FF000000FF)
    upper = (pairs & mask) * np.uint64(0x000F424000000064)
    lower = ((pairs >> np.uint64(16)) & mask) * np.uint64(0x0000271000000001)
    return ((upper + lower) >> np.uint64(32)).astype(np.int64), fine


def _parse_other(line: bytes, names: dict[int, bytes], data: list[tuple[int, int]]) -> None:
    """Parse a name or a datum."""
    try:
        if line[0] == _NAME:
            number, name = line[1:].split(b":", 1)
            names[int(number)] = name
            return
        if line[0] == _DATA:
            _, _, number, value = line[1:].split(b":")
            data.append((int(number), int(value)))
            return
    except (IndexError, ValueError):
        pass
    _refuse(line)


def _refuse(line: bytes) -> NoReturn:
    shown = line[:60].decode("utf-8", "replace")
    raise DataError(f"expected a record of preCICE's profiling (N, B, E or D, then numbers), found {shown!r}") from None
