"""What the file of one rank holds before its first row."""

from __future__ import annotations

import json
import numbers
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from precice_lb.store import hdf5, hdf5_messages
from precice_lb.store.append import Table
from precice_lb.store.meshes import MESH_PARTS
from precice_lb.store.schema import (
    ADVANCE_DTYPE,
    FORMAT,
    FORMAT_VERSION,
    INITIALIZE_DTYPE,
    MESH_DTYPE,
    SECTION_DTYPE,
    SECTION_NAME_BYTES,
    UNITS,
    encode,
)

__all__ = ["TABLES", "InitialContents"]

TABLES: dict[str, tuple[np.dtype[Any], int]] = {
    "advances": (ADVANCE_DTYPE, 256),
    "initialize": (INITIALIZE_DTYPE, 1),
    "section_names": (np.dtype(f"S{SECTION_NAME_BYTES}"), 16),
    "sections": (SECTION_DTYPE, 256),
    "meshes": (MESH_DTYPE, 4),
    **{name: (dtype, chunk) for (name, dtype), chunk in zip(MESH_PARTS.items(), (64, 1024, 1024), strict=True)},
}
"""Type of the rows of each table, and rows per chunk."""

_HEAP = len(hdf5.superblock(0, 0))
_NUMBERS = {bool: "?", numbers.Integral: "q", numbers.Real: "d"}


class InitialContents:
    """The file of one rank without rows.

    Parameters
    ----------
    metadata : mapping
        Values by key; ``finished`` is one of them, ``ended_unix_ns`` is not.
    configuration : str
        Text of ``precice-config.xml``.

    Attributes
    ----------
    data : bytes
        All that is in the file.
    tables : dict
        Address of each table's object header.
    finished : int
        Address of the value of the attribute ``finished``, one byte.
    ended : int
        Address of the message that becomes the attribute ``ended_unix_ns``: its type, two bytes, has to be
        `hdf5_messages.ATTRIBUTE` then.
    ended_value : int
        Address of that attribute's value, eight bytes.
    """

    def __init__(self, metadata: Mapping[str, Any], configuration: str) -> None:
        self._texts: list[bytes] = []
        tables = {name: self._table(dtype, chunk) for name, (dtype, chunk) in TABLES.items()}
        reference = self._text(configuration)
        attributes = {"format": FORMAT, "format_version": FORMAT_VERSION}
        attributes |= {name: encode(name, value) for name, value in metadata.items()}
        messages = [(hdf5_messages.ATTRIBUTE, self._attribute(name, value)) for name, value in attributes.items()]
        ended = self._attribute("ended_unix_ns", 0)

        blocks = [hdf5.heap(self._texts)]
        position = _HEAP + len(blocks[0])
        self.tables = {}
        for name, header in tables.items():
            self.tables[name] = position
            blocks.append(header)
            position += len(header)
        blocks.append(hdf5.padded(reference))
        text = [
            (hdf5_messages.DATASPACE, hdf5_messages.dataspace()),
            (hdf5_messages.DATATYPE, hdf5_messages.TEXT),
            (hdf5_messages.FILL_VALUE, hdf5_messages.fill_value()),
            (hdf5_messages.LAYOUT, hdf5_messages.contiguous_layout(position, len(reference))),
        ]
        position += len(blocks[-1])
        links = {**self.tables, "configuration": position}
        blocks.append(hdf5.object_header(text))
        root = position + len(blocks[-1])

        messages += [
            (hdf5_messages.LINK_INFO, hdf5_messages.link_info()),
            (hdf5_messages.GROUP_INFO, bytes(2)),
            (hdf5_messages.NIL, ended),
        ]
        messages += [(hdf5_messages.LINK, hdf5_messages.link(name, address)) for name, address in links.items()]
        places = []
        place = root + hdf5.HEADER_PREFIX
        for _, data in messages:
            places.append(place)
            place += hdf5.MESSAGE_PREFIX + len(hdf5.padded(data))
        blocks.append(hdf5.object_header(messages))

        def value_of(index: int) -> int:
            return places[index] + hdf5.MESSAGE_PREFIX + len(messages[index][1])

        self.finished = value_of(list(attributes).index("finished")) - 1
        self.ended = places[messages.index((hdf5_messages.NIL, ended))]
        self.ended_value = value_of(messages.index((hdf5_messages.NIL, ended))) - 8
        self.data = b"".join([hdf5.superblock(root, root + len(blocks[-1])), *blocks])

    def _table(self, dtype: np.dtype[Any], chunk: int) -> bytes:
        messages = Table.messages(dtype, chunk)
        if dtype.names is not None:
            units = json.dumps({column: UNITS[column] for column in dtype.names})
            messages.append((hdf5_messages.ATTRIBUTE, self._attribute("units", units)))
        return hdf5.object_header(messages)

    def _attribute(self, name: str, value: Any) -> bytes:
        if isinstance(value, str):
            return hdf5_messages.attribute(name, hdf5_messages.TEXT, self._text(value))
        code = "<" + next(code for kind, code in _NUMBERS.items() if isinstance(value, kind))
        return hdf5_messages.attribute(name, hdf5_messages.datatype(np.dtype(code)), struct.pack(code, value))

    def _text(self, value: str) -> bytes:
        data = value.encode("utf-8", "surrogateescape")
        self._texts.append(data)
        return hdf5.heap_reference(_HEAP, len(self._texts), len(data))
