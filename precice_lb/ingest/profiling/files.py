"""preCICE's profiling files: their header, and their records in blocks of whole lines."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from precice_lb.exceptions import DataError

DATABASE = "sqlite"
"""Layout of what ``precice-profiling merge`` writes: see `precice_lb.ingest.profiling.database`."""

_BLOCK = 1 << 20
_LONGEST_HEADER = 1 << 16
_TEXT_VERSIONS = (1, 2)
_JSON_EVENTS = re.compile(rb'"events"\s*:\s*\[\s*')
_JSON_NAME = re.compile(rb'\{"et":"n","en":"([^"]*)","eid":(\d+)\}')
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
        found = _object(path, head[:offset] + b"]}").get("meta")
        if not isinstance(found, dict):
            _refuse(path, 'an object "meta"', _shown(head))
        meta = found
    try:
        name, mode = meta["name"], meta["mode"]
        rank, size, unix_us = (int(meta[key]) for key in ("rank", "size", "unix_us"))
    except (KeyError, TypeError, ValueError):
        _refuse(path, "a header with name, rank, size, unix_us and mode", _shown(head))
    if not (isinstance(name, str) and name and isinstance(mode, str) and 0 <= rank < size and 0 <= unix_us < 1 << 53):
        _refuse(path, "a header with a name and a rank below the size", _shown(head))
    return Header(path, name, rank, size, unix_us, mode, layout, offset)


class BlockReader:
    """Reads blocks of whole lines in the text format; iterated again, it goes on with what was written meanwhile."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._position = header.offset
        self._rest = b""
        self._stream = lzma.LZMADecompressor(format=lzma.FORMAT_ALONE) if header.layout == "lzma" else None

    def __iter__(self) -> Iterator[bytes]:
        header = self._header
        is_json = header.layout == "json"
        try:
            with header.path.open("rb") as file:
                file.seek(self._position)
                while data := self._read(file):
                    # A partial record, as a kill leaves it or a write that goes on, waits until it is whole.
                    cut = data.rfind(b"}" if is_json else b"\n") + 1
                    if cut:
                        text = self._rest + data[:cut]
                        self._rest = data[cut:]
                        yield _json_to_text(text) if is_json else text
                    else:
                        self._rest += data
        except OSError as error:
            raise DataError(f"{header.path}: expected a file that can be read, found {error}") from None
        except lzma.LZMAError as error:
            _refuse(header.path, "an LZMA stream", f"damaged data ({error})")

    def _read(self, file: BinaryIO) -> bytes:
        """Read on, decompressed; nothing at the present end."""
        stream = self._stream
        if stream is None:
            data = file.read(_BLOCK)
            self._position += len(data)
            return data
        while not stream.eof:
            data = file.read(_BLOCK) if stream.needs_input else b""
            self._position += len(data)
            if stream.needs_input and not data:
                return b""
            if text := stream.decompress(data, _BLOCK):
                return text
        return b""


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


def _refuse(path: Path, expected: str, found: str) -> NoReturn:
    raise DataError(f"{path}: expected a profiling file of preCICE with {expected}, found {found}") from None
