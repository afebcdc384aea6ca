"""From lines of begins and ends to events with their place in the nesting, vectorised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.files import BlockReader, Header

_EVENT_BITS = 24
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
    names: dict[int, str]
    #: Number of the name and value of each datum.
    data: list[tuple[int, int]]


def parse_block(block: bytes) -> Records:
    """Parse a block of whole lines."""
    names: dict[int, str] = {}
    data: list[tuple[int, int]] = []
    for line in _OTHERS.findall(block):
        if name := _NAME.fullmatch(line):
            names[int(name[1])] = name[2].decode("utf-8", "replace")
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


@dataclass(frozen=True)
class Events:
    """Events that ended within a block of records."""

    #: Place in the nesting: position in `EventSource.paths`.
    paths: NDArray[np.int64]
    #: When each began, in microseconds of the file's clock.
    begins: NDArray[np.int64]
    #: How long each took, in microseconds.
    durations: NDArray[np.int64]
    #: Position of each event's end among the records of the block.
    order: NDArray[np.int64]


class EventSource:
    """Where the events of one rank come from: iterated, it gives them in blocks, in the order they ended."""

    def __init__(self) -> None:
        #: Names from the outermost event inwards; the first is empty.
        self.paths: list[tuple[str, ...]] = [()]
        #: Local vertices of the meshes that the rank provides.
        self.mesh_sizes: dict[str, int] = {}
        #: When ``_GLOBAL`` began and ended (the participant was finalised), in microseconds of the header's clock.
        self.global_begin_us: int | None = None
        self.global_end_us: int | None = None
        #: Largest time seen.
        self.last_us = 0

    def __iter__(self) -> Iterator[Events]:
        raise NotImplementedError


class FileEvents(EventSource):
    """Events of a profiling file: follows the stack of events through its blocks.

    Begins and ends alternate at every depth of the stack. So a stable sort of the records by depth puts each begin
    next to its end, and the parent of an event is the last one that began one level further out. The event ``_GLOBAL``
    spans the file and stands outside the nesting, as in preCICE's own tools.
    """

    def __init__(self, header: Header) -> None:
        super().__init__()
        self._path = header.path
        self._blocks = BlockReader(header)
        self._names: dict[int, str] = {}
        # Parent and event of every path but the first, sorted; the first key is none.
        self._keys = np.full(1, -1, dtype=np.int64)
        self._key_paths = np.zeros(1, dtype=np.int64)
        self._open_events: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._open_times: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def __iter__(self) -> Iterator[Events]:
        for block in self._blocks:
            try:
                records = parse_block(block)
            except DataError as error:
                raise DataError(f"{self._path}: {error}") from None
            self._names |= records.names
            events = self._feed(records)
            for number, value in records.data:
                if (name := self._name(number)).startswith("meshSize"):
                    self.mesh_sizes[name.removeprefix("meshSize")] = value
            yield events

    def _name(self, event: int) -> str:
        """Name of an event or datum; where the record that names it was lost, one made from its number."""
        return self._names.get(event, f"unnamed-{event}")

    def _feed(self, records: Records) -> Events:
        """Take the next block, and give the events that ended in it."""
        outside = np.isin(records.events, [number for number, name in self._names.items() if name == "_GLOBAL"])
        for begin, time in zip(records.begins[outside].tolist(), records.times[outside].tolist(), strict=True):
            if begin:
                self.global_begin_us = time
            elif self.global_begin_us is not None:
                self.global_end_us = time
        if len(records.times):
            self.last_us = max(self.last_us, int(records.times[-1]))
        still_open = np.ones(len(self._open_events), dtype=bool)
        begins = np.concatenate([still_open, records.begins[~outside]])
        events = np.concatenate([self._open_events, records.events[~outside]])
        times = np.concatenate([self._open_times, records.times[~outside]])
        found = self._match(begins, events, times)
        if found is None:
            # Records are missing, as with a small flush-every: keep what fits together.
            kept = _consistent(begins.tolist(), events.tolist())
            found = self._match(begins[kept], events[kept], times[kept])
            assert found is not None
        return found

    def _match(self, begins: NDArray[np.bool_], events: NDArray[np.int64], times: NDArray[np.int64]) -> Events | None:
        """Match begins and ends by depth, or None if they do not fit together."""
        depth = np.cumsum(np.where(begins, 1, -1)) + ~begins
        if not len(depth):
            return Events(*(np.empty(0, dtype=np.int64) for _ in range(4)))
        if depth.min() < 1 or depth.max() > np.iinfo(np.int16).max:
            return None
        order = np.argsort(depth.astype(np.int16), kind="stable")
        bounds = np.cumsum(np.bincount(depth))
        parts: list[Events] = []
        open_: list[int] = []
        outer, outer_paths = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
        for first, last in pairwise(bounds.tolist()):
            level = order[first:last]
            start, end = level[0::2], level[1::2]
            closed = len(end)
            if (events[start[:closed]] != events[end]).any():
                return None
            parents = outer_paths[np.searchsorted(outer, start) - 1] if len(outer) else np.zeros_like(start)
            paths = self._paths_of(parents, events[start])
            begun = times[start[:closed]]
            parts.append(Events(paths[:closed], begun, times[end] - begun, end))
            if closed < len(start):
                open_.append(int(start[-1]))
            outer, outer_paths = start, paths
        self._open_events, self._open_times = events[open_], times[open_]
        columns = zip(*((part.paths, part.begins, part.durations, part.order) for part in parts), strict=True)
        return Events(*(np.concatenate(column) for column in columns))

    def _paths_of(self, parents: NDArray[np.int64], events: NDArray[np.int64]) -> NDArray[np.int64]:
        keys = (parents << _EVENT_BITS) | events
        place = np.searchsorted(self._keys, keys)
        known = self._keys[np.minimum(place, len(self._keys) - 1)] == keys
        if not known.all():
            self._add_paths(np.unique(keys[~known]))
            place = np.searchsorted(self._keys, keys)
        paths: NDArray[np.int64] = self._key_paths[place]
        return paths

    def _add_paths(self, keys: NDArray[np.int64]) -> None:
        numbers = np.arange(len(self.paths), len(self.paths) + len(keys))
        for key in keys.tolist():
            self.paths.append((*self.paths[key >> _EVENT_BITS], self._name(key & (1 << _EVENT_BITS) - 1)))
        self._keys = np.concatenate([self._keys, keys])
        order = np.argsort(self._keys)
        self._keys, self._key_paths = self._keys[order], np.concatenate([self._key_paths, numbers])[order]


def _consistent(begins: list[bool], events: list[int]) -> NDArray[np.bool_]:
    """Which records fit together: no end without its begin, no begin whose end was lost inside another event."""
    kept = np.ones(len(begins), dtype=bool)
    stack: list[int] = []
    for index, (begin, event) in enumerate(zip(begins, events, strict=True)):
        if begin:
            stack.append(index)
            continue
        depth = len(stack)
        while depth and events[stack[depth - 1]] != event:
            depth -= 1
        if not depth:
            kept[index] = False
            continue
        kept[stack[depth:]] = False
        del stack[depth - 1 :]
    return kept
