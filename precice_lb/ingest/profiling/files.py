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
from typing import Any, BinaryIO, NoReturn

import numpy as np

from precice_lb.exceptions import DataError
from precice_lb.store.columns import Integers, Mask

DATABASE = "sqlite"
"""Layout of what ``precice-profiling merge`` writes: see `precice_lb.ingest.profiling.tables`."""

_BLOCK = 1 << 20
_LONGEST_HEADER = 1 << 16
_TEXT_VERSIONS = (1, 2)
_JSON_EVENTS = re.compile(rb'"events"\s*:\s*\[\s*')
_JSON_NAME = re.compile(rb'\{"et":"n","en":"(.*?)","eid":(\d+)\}')
# What precice-profiling made of profiling files, by a key that its JSON has; a trace has no other names in it.
_MADE = {
    b'"eventDict"': "this is a merged file of precice-profiling up to 3.1",
    b'"traceEvents"': "this is a trace that precice-profiling wrote",
}
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
    #: ``text`` (file versions 1 and 2), ``lzma`` (the same, compressed), ``json`` (up to preCICE 3.2), or ``sqlite``
    #: (a database of precice-profiling, all ranks in one).
    layout: str
    #: Where the records begin, in bytes; in a database, the participant's number.
    offset: int

    @property
    def group(self) -> tuple[Path, str]:
        """What the files of all ranks of a participant have in common: their folder, and whose they are."""
        return self.path.parent, self.participant

    @property
    def directory(self) -> Path:
        """Where the solver ran: above the folder of profiling files; a database lies anywhere."""
        return self.path.parent if self.layout == DATABASE else self.path.parent.parent


def read_header(path: str | Path) -> Header:
    """Read the header of a profiling file."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(_LONGEST_HEADER)
    except OSError as error:
        raise DataError(
            f"{path}: expected a profiling file of preCICE, found none that can be read ({error})"
        ) from None
    if what := _made_by_tool(head):
        raise DataError(
            f"{path}: {what}; give the raw files that it was made of (precice-profiling/*), or profiling.db"
        )
    if head[:1] == b"{" and b"\n" in head and head.split(b"\n", 1)[0].strip() != b"{":
        line = head.split(b"\n", 1)[0]
        meta, offset, layout = _object(path, line), len(line) + 1, "text"
        version = meta.get("file_version")
        if version not in _TEXT_VERSIONS:
            _refuse(path, f"file_version {' or '.join(map(str, _TEXT_VERSIONS))}", f"{version!r}")
        if meta.get("compression") is True:
            layout = "lzma"
    else:
        match = _JSON_EVENTS.search(head)
        if match is None:
            _refuse(path, "a header with name, rank, size and unix_us", _shown(head))
        offset, layout = match.end(), "json"
        stated = _object(path, head[:offset] + b"]}").get("meta")
        if not isinstance(stated, dict):
            _refuse(path, 'an object "meta"', _shown(head))
        meta = stated
    try:
        # Before preCICE 3.0 was released there was no mode in it.
        name, mode = meta["name"], meta.get("mode", "unknown")
        rank, size, unix_us = (int(meta[key]) for key in ("rank", "size", "unix_us"))
    except (KeyError, TypeError, ValueError):
        _refuse(path, "a header with name, rank, size and unix_us", _shown(head))
    if not (isinstance(name, str) and name and isinstance(mode, str) and 0 <= rank < size and 0 <= unix_us < 1 << 53):
        _refuse(path, "a header with a name and a rank below the size", _shown(head))
    return Header(path, name, rank, size, unix_us, mode, layout, offset)


def _made_by_tool(head: bytes) -> str:
    """Say what another tool made of profiling files; empty of these themselves."""
    start = head.lstrip()[:64]
    return next((what for key, what in _MADE.items() if re.match(rb"\{\s*" + key, start)), "")


def _json_to_text(block: bytes) -> bytes:
    """Write records of the JSON format as lines of the text format."""
    block = block.strip(b", \r\n\t")
    if block.endswith(b"]}"):
        block = block[:-2]
    block = _JSON_NAME.sub(rb"N\2:\1}", block)
    for old, new in _JSON_TO_TEXT:
        block = block.replace(old, new)
    return block


def _object(path: Path, text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        _refuse(path, "a header in JSON", _shown(text))
    return value


def _shown(text: bytes) -> str:
    return repr(text[:60].decode("utf-8", "replace")) if text else "an empty file"


def _refuse(path: Path, expected: str, actual: str) -> NoReturn:
    raise DataError(f"{path}: expected a profiling file of preCICE with {expected}, found {actual}") from None


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
    for line in _OTHERS.findall(block):
        if name := _NAME.fullmatch(line):
            names[int(name[1])] = name[2].decode("utf-8", "replace")
        elif datum := _DATUM.fullmatch(line):
            data.append((int(datum[1]), int(datum[2])))
        else:
            _refuse_line(line)
    timed = _OTHERS.sub(b"", block)
    whole = _TIMED.match(timed)
    assert whole is not None
    if whole.end() < len(timed):
        _refuse_line(timed[whole.end() :])
    numbers = np.fromstring(timed.translate(_TO_BLANKS), dtype=np.int64, sep=" ").reshape(-1, 2)
    letters = np.frombuffer(timed, dtype=np.uint8)
    return Records(letters[letters >= ord("B")] == ord("B"), numbers[:, 0], numbers[:, 1], names, data)


def _refuse_line(line: bytes) -> NoReturn:
    shown = line.split(b"\n", 1)[0][:60].decode("utf-8", "replace")
    raise DataError(f"expected a record of preCICE's profiling (N, B, E or D, then numbers), found {shown!r}") from None


@dataclass(frozen=True)
class Events:
    """Events that ended within a block of records."""

    #: Place in the nesting: position in `EventSource.paths`.
    paths: Integers
    #: When each began, in microseconds of the file's clock.
    begins: Integers
    #: How long each took, in microseconds.
    durations: Integers
    #: Position of each event's end among the records of the block.
    order: Integers


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
        self._header = header
        # Where reading goes on, and what was read of a record that was not whole.
        self._position, self._rest = header.offset, b""
        self._stream = lzma.LZMADecompressor(format=lzma.FORMAT_ALONE) if header.layout == "lzma" else None
        self._names: dict[int, str] = {}
        # Parent and event of every path but the first, sorted; the first key is none.
        self._keys = np.full(1, -1, dtype=np.int64)
        self._key_paths = np.zeros(1, dtype=np.int64)
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
        keys = (parents << _EVENT_BITS) | events
        place = np.searchsorted(self._keys, keys)
        known = self._keys[np.minimum(place, len(self._keys) - 1)] == keys
        if not known.all():
            self._add_paths(np.unique(keys[~known]))
            place = np.searchsorted(self._keys, keys)
        paths: Integers = self._key_paths[place]
        return paths

    def _add_paths(self, keys: Integers) -> None:
        numbers = np.arange(len(self.paths), len(self.paths) + len(keys))
        for key in keys.tolist():
            self.paths.append((*self.paths[key >> _EVENT_BITS], self._name(key & (1 << _EVENT_BITS) - 1)))
        self._keys = np.concatenate([self._keys, keys])
        order = np.argsort(self._keys)
        self._keys, self._key_paths = self._keys[order], np.concatenate([self._key_paths, numbers])[order]


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
