"""preCICE's profiling files: their header, and their records in blocks of whole lines."""

from __future__ import annotations

import json
import lzma
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

import numpy as np

from precice_lb.exceptions import DataError
from precice_lb.store.columns import Integers, Mask

_BLOCK = 1 << 20
_LONGEST_HEADER = 1 << 16
# The JSON format, of preCICE up to 3.2.
_JSON_EVENTS = re.compile(rb'"events"\s*:\s*\[\s*')
_JSON_NAME = re.compile(rb'\{"et":"n","en":"(.*?)","eid":(\d+)\}')
_JSON_TO_TEXT = (
    (b'{"et":"b","eid":', b"B"),
    (b'{"et":"e","eid":', b"E"),
    (b'{"et":"d","eid":', b"D"),
    (b',"ts":', b":"),
    (b',"dn":', b":"),
    (b',"dv":', b":"),
    (b':"', b":"),
    (b'"}', b"}"),
    (b"},", b"\n"),
    (b"}", b"\n"),
)
# What precice-profiling made of profiling files, by what that begins with.
_MADE = {
    rb'\s*\{\s*"eventDict"': "this is a merged file of precice-profiling up to 3.1",
    rb'\s*\{\s*"traceEvents"': "this is a trace that precice-profiling wrote",
    rb"SQLite format 3\0": "this is a database of precice-profiling, which is not read",
}


@dataclass(frozen=True)
class Header:
    """What the beginning of a profiling file says."""

    #: The file.
    path: Path
    #: Name of the participant.
    participant: str
    #: Rank and number of ranks of the participant.
    rank: int
    size: int
    #: Unix time in microseconds at which the file's clock is zero.
    unix_us: int
    #: ``fundamental``, ``api`` or ``all``.
    mode: str
    #: ``text`` (file versions 1 and 2), ``lzma`` (the same, compressed), or ``json`` (up to preCICE 3.2).
    layout: str
    #: Where the records begin, in bytes.
    offset: int

    @property
    def group(self) -> tuple[Path, str]:
        """What the files of all ranks of a participant have in common: their folder, and whose they are."""
        return self.path.parent, self.participant

    @property
    def directory(self) -> Path:
        """Where the solver ran: above the folder of profiling files."""
        return self.path.parent.parent


def read_bytes(path: Path, what: str, count: int = -1) -> bytes:
    """Read a file, or as much of its beginning; one error with its name where that fails."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise DataError(f"{path}: expected {what}, found none that can be read ({error})") from None


def read_header(path: str | Path) -> Header:
    """Read the header of a profiling file."""
    path = Path(path)
    head = read_bytes(path, "a profiling file of preCICE", _LONGEST_HEADER)
    for begin, what in _MADE.items():
        if re.match(begin, head):
            raise DataError(f"{path}: {what}; give the raw files that it was made of (precice-profiling/*)")
    line, newline, _ = head.partition(b"\n")
    events = _JSON_EVENTS.search(head)
    try:
        if line[:1] == b"{" and newline and line.strip() != b"{":
            meta, offset = json.loads(line), len(line) + 1
            layout = "lzma" if meta.get("compression") is True else "text"
            if meta.get("file_version") not in (1, 2):
                _refuse(path, "file_version 1 or 2", repr(meta.get("file_version")))
        else:
            offset, layout = events.end() if events else 0, "json"
            meta = json.loads(head[:offset] + b"]}")["meta"]
        # Before preCICE 3.0 was released there was no mode in it.
        name, mode = meta["name"], meta.get("mode", "unknown")
        rank, size, unix_us = (int(meta[key]) for key in ("rank", "size", "unix_us"))
        is_right = isinstance(name, str) and name and isinstance(mode, str) and 0 <= rank < size
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        is_right = False
    if not is_right or not 0 <= unix_us < 1 << 53:
        shown = repr(head[:60].decode("utf-8", "replace")) if head else "an empty file"
        _refuse(path, "a header with name, rank below the size and unix_us", shown)
    return Header(path, name, rank, size, unix_us, mode, layout, offset)


def _json_to_text(block: bytes) -> bytes:
    """Write records of the JSON format as lines of the text format."""
    block = _JSON_NAME.sub(rb"N\2:\1}", block.strip(b", \r\n\t").removesuffix(b"]}"))
    for old, new in _JSON_TO_TEXT:
        block = block.replace(old, new)
    return block


def _refuse(path: Path, expected: str, actual: str) -> NoReturn:
    raise DataError(f"{path}: expected a profiling file of preCICE with {expected}, found {actual}") from None


_EVENT_BITS = 24
_TIMED = re.compile(rb"[BE]\d{1,6}:\d{1,16}")
_NAME = re.compile(rb"N(\d+):(.*)")
_DATUM = re.compile(rb"D[^:]*:[^:]*:(-?\d+):(-?\d+)")
_TO_BLANKS = bytes.maketrans(b"BE:", b"   ")


class Records(NamedTuple):
    """Records of one block."""

    #: Whether an event begins; otherwise it ends.
    begins: Mask
    #: Which event.
    events: Integers
    #: When, in microseconds of the file's clock.
    times: Integers
    #: Names of events by number.
    names: dict[int, str]
    #: Number of the name and value of each datum.
    data: list[tuple[int, int]]


def parse_block(block: bytes) -> Records:
    """Parse a block of whole lines."""
    names: dict[int, str] = {}
    data: list[tuple[int, int]] = []
    starts, ends, is_timed = _lines(block)
    for start, end in zip(starts[~is_timed].tolist(), ends[~is_timed].tolist(), strict=True):
        line = block[start:end]
        if name := _NAME.fullmatch(line):
            names[int(name[1])] = name[2].decode("utf-8", "replace")
        elif datum := _DATUM.fullmatch(line):
            data.append((int(datum[1]), int(datum[2])))
        else:
            _refuse_line(line)
    if not is_timed.all():
        letters = np.frombuffer(block, np.uint8)
        block = letters[np.repeat(is_timed, ends - starts + 1)].tobytes()
        starts, ends, _ = _lines(block)
    letters = np.frombuffer(block, np.uint8)
    # Digits, of two numbers that are no longer than preCICE writes them, and a colon between: faster than a pattern.
    colons = np.flatnonzero(letters == ord(":"))
    digits = np.count_nonzero((letters >= ord("0")) & (letters <= ord("9")))
    is_right = len(colons) == len(starts) and digits == len(letters) - 3 * len(starts)
    if is_right:
        first, second = colons - starts - 1, ends - colons - 1
        is_right = bool(((first >= 1) & (first <= 6) & (second >= 1) & (second <= 16)).all())
    if not is_right:
        _refuse_line(next(line for line in block.split(b"\n") if not _TIMED.fullmatch(line)))
    numbers = np.fromstring(block.translate(_TO_BLANKS), dtype=np.int64, sep=" ").reshape(-1, 2)
    return Records(letters[starts] == ord("B"), numbers[:, 0], numbers[:, 1], names, data)


def _lines(block: bytes) -> tuple[Integers, Integers, Mask]:
    """Where each line starts and where its line break is, and whether it says when an event begins or ends."""
    letters = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(letters == ord("\n"))
    starts = np.append(0, ends + 1)[:-1]
    return starts, ends, (letters[starts] == ord("B")) | (letters[starts] == ord("E"))


def _refuse_line(line: bytes) -> NoReturn:
    shown = line[:60].decode("utf-8", "replace")
    raise DataError(f"expected a record of preCICE's profiling (N, B, E or D, then numbers), found {shown!r}")


@dataclass(frozen=True)
class Events:
    """Events that ended within a block of records."""

    #: Place in the nesting: position in `FileEvents.paths`.
    paths: Integers
    #: When each began, in microseconds of the file's clock.
    begins: Integers
    #: How long each took, in microseconds.
    durations: Integers
    #: Position of each event's end among the records of the block.
    order: Integers


class FileEvents:
    """Events of a profiling file, in blocks, in the order they ended; iterated again, it gives what is new.

    Begins and ends alternate at every depth of the stack. So a stable sort of the records by depth puts each begin
    next to its end, and the parent of an event is the last one that began one level further out. The event ``_GLOBAL``
    spans the file and stands outside the nesting, as in preCICE's own tools.
    """

    def __init__(self, header: Header) -> None:
        #: Names from the outermost event inwards; the first is empty.
        self.paths: list[tuple[str, ...]] = [()]
        #: Local vertices of the meshes that the rank provides.
        self.mesh_sizes: dict[str, int] = {}
        #: When ``_GLOBAL`` began and ended (the participant was finalised), in microseconds of the header's clock.
        self.global_begin_us: int | None = None
        self.global_end_us: int | None = None
        #: Largest time seen.
        self.last_us = 0
        self._header = header
        # Where reading goes on, and what was read of a record that was not whole.
        self._position, self._rest = header.offset, b""
        self._stream = lzma.LZMADecompressor(format=lzma.FORMAT_ALONE) if header.layout == "lzma" else None
        self._names: dict[int, str] = {}
        # Number of every path but the first by that of its parent and by its event.
        self._numbers: dict[int, int] = {}
        self._open_events: Integers = np.empty(0, dtype=np.int64)
        self._open_times: Integers = np.empty(0, dtype=np.int64)

    def __iter__(self) -> Iterator[Events]:
        for block in self._blocks():
            try:
                records = parse_block(block)
            except DataError as error:
                raise DataError(f"{self._header.path}: {error}") from None
            self._names |= records.names
            events = self._feed(records)
            for number, value in records.data:
                if (name := self._name(number)).startswith("meshSize"):
                    self.mesh_sizes[name.removeprefix("meshSize")] = value
            yield events

    def _blocks(self) -> Iterator[bytes]:
        """Read blocks of whole lines in the text format, from where reading ended on."""
        path, is_json = self._header.path, self._header.layout == "json"
        try:
            with path.open("rb") as file:
                file.seek(self._position)
                while data := self._read(file):
                    # A partial record, as a kill leaves it or a write that goes on, waits until it is whole.
                    cut = data.rfind(b"}" if is_json else b"\n") + 1
                    text, self._rest = (self._rest + data[:cut], data[cut:]) if cut else (b"", self._rest + data)
                    if text:
                        yield _json_to_text(text) if is_json else text
        except OSError as error:
            raise DataError(f"{path}: expected a file that can be read, found {error}") from None
        except lzma.LZMAError as error:
            _refuse(path, "an LZMA stream", f"damaged data ({error})")

    def _read(self, file: BinaryIO) -> bytes:
        """Read on, decompressed; nothing at the present end."""
        stream = self._stream
        while stream is None or not stream.eof:
            data = file.read(_BLOCK) if stream is None or stream.needs_input else b""
            self._position += len(data)
            if stream is None or (stream.needs_input and not data):
                return data
            if text := stream.decompress(data, _BLOCK):
                return text
        return b""

    def _name(self, event: int) -> str:
        """Name of an event or datum; where the record that names it was lost, one made from its number.

        Up to preCICE 3.1 names say also what they lie in, which the nesting tells: ``advance/m2n.sendData``.
        """
        return self._names.get(event, f"unnamed-{event}").rpartition("/")[2]

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
        ended = self._match(begins, events, times)
        if ended is None:
            # Records are missing, as with a small flush-every: keep what fits together.
            kept = _consistent(begins.tolist(), events.tolist())
            ended = self._match(begins[kept], events[kept], times[kept])
            assert ended is not None
        return ended

    def _match(self, begins: Mask, events: Integers, times: Integers) -> Events | None:
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

    def _paths_of(self, parents: Integers, events: Integers) -> Integers:
        keys, inverse = np.unique((parents << _EVENT_BITS) | events, return_inverse=True)
        for key in keys.tolist():
            if key not in self._numbers:
                self._numbers[key] = len(self.paths)
                self.paths.append((*self.paths[key >> _EVENT_BITS], self._name(key & (1 << _EVENT_BITS) - 1)))
        return np.array([self._numbers[key] for key in keys.tolist()], dtype=np.int64)[inverse]


def _consistent(begins: list[bool], events: list[int]) -> Mask:
    """Which records fit together: no end without its begin, no begin whose end was lost inside another event.

    preCICE 3.2 and 3.3 end a section of the solver when another one begins inside it, and once more where it does end:
    the last end counts. What tells it from lost records is that the event inside ends later on.
    """
    kept = np.ones(len(begins), dtype=bool)
    stack: list[int] = []
    # Records of each event that are still to come.
    coming: dict[int, deque[int]] = defaultdict(deque)
    for index, event in enumerate(events):
        coming[event].append(index)

    def ends_next(event: int) -> bool:
        return not coming[event] or not begins[coming[event][0]]

    for index, (begin, event) in enumerate(zip(begins, events, strict=True)):
        coming[event].popleft()
        if begin:
            stack.append(index)
            continue
        depth = len(stack)
        while depth and events[stack[depth - 1]] != event:
            depth -= 1
        inside = stack[depth:]
        if not depth or (inside and ends_next(events[inside[-1]]) and ends_next(event)):
            kept[index] = False
            continue
        kept[inside] = False
        del stack[depth - 1 :]
    return kept
