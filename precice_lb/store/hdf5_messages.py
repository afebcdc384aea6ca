"""Messages of object headers of an HDF5 file, as bytes: what a table, a text, an attribute or a group is.

As in `precice_lb.store.hdf5`, after "HDF5 File Format Specification Version 3.0" (The HDF Group), section IV.A.2.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from precice_lb.store.hdf5 import UNDEFINED

__all__ = [
    "ATTRIBUTE",
    "DATASPACE",
    "DATATYPE",
    "FILL_VALUE",
    "GROUP_INFO",
    "LAYOUT",
    "LINK",
    "LINK_INFO",
    "NIL",
    "TEXT",
    "attribute",
    "chunked_layout",
    "contiguous_layout",
    "dataspace",
    "datatype",
    "fill_value",
    "link",
    "link_info",
]

NIL, DATASPACE, LINK_INFO, DATATYPE, FILL_VALUE = 0x0, 0x1, 0x2, 0x3, 0x5
LINK, LAYOUT, GROUP_INFO, ATTRIBUTE = 0x6, 0x8, 0xA, 0xC
"""Types of messages of an object header (section IV.A.2)."""

_UNSIGNED_BYTE = struct.pack("<B3BIHH", 0x10, 0, 0, 0, 1, 0, 8)
TEXT = struct.pack("<B3BI", 0x19, 1, 1, 0, 16) + _UNSIGNED_BYTE
"""Datatype of UTF-8 text of any length, which lies in a heap."""


def dataspace(rows: int | None = None) -> bytes:
    """Make the shape of a scalar, or of a table that grows (section IV.A.2.b, version 1).

    Parameters
    ----------
    rows : int, optional
        Rows that the table has; they stand 8 bytes from the beginning.

    Returns
    -------
    bytes
    """
    if rows is None:
        return struct.pack("<BBB5x", 1, 0, 0)
    return struct.pack("<BBB5xQQ", 1, 1, 1, rows, UNDEFINED)


def datatype(dtype: np.dtype[Any]) -> bytes:
    """Describe the elements of an array (section IV.A.2.d), as h5py does.

    Parameters
    ----------
    dtype : numpy.dtype
        Little-endian integers and float64, bool, byte strings, and records of these.

    Returns
    -------
    bytes

    Raises
    ------
    TypeError
        If it is of another kind.
    """
    size = dtype.itemsize
    if dtype.names is not None:
        members = b""
        for name in dtype.names:
            kind, offset = dtype.fields[name][:2]  # type: ignore[index]
            members += name.encode() + b"\0" + offset.to_bytes((size.bit_length() + 7) // 8, "little") + datatype(kind)
        return struct.pack("<BHBI", 0x36, len(dtype.names), 0, size) + members
    if dtype.kind in "iu" and dtype.byteorder in "<=|":
        return struct.pack("<B3BIHH", 0x10, 8 if dtype.kind == "i" else 0, 0, 0, size, 0, 8 * size)
    if dtype == np.dtype("<f8"):
        return struct.pack("<B3BIHHBBBBI", 0x11, 0x20, 63, 0, size, 0, 64, 52, 11, 0, 52, 1023)
    if dtype.kind == "b":
        return struct.pack("<BHBI", 0x38, 2, 0, 1) + datatype(np.dtype("i1")) + b"FALSE\0TRUE\0" + bytes([0, 1])
    if dtype.kind == "S":
        return struct.pack("<B3BI", 0x13, 1, 0, 0, size)
    raise TypeError(f"expected integers, float64, bool, byte strings or records of these, found {dtype}")


def fill_value() -> bytes:
    """Say that what was never written is zero (section IV.A.2.f, version 2).

    Returns
    -------
    bytes
    """
    return struct.pack("<BBBBI", 2, 3, 2, 1, 0)


def chunked_layout(index: int, rows: int, row_bytes: int) -> bytes:
    """Say where the index of a table's chunks is (section IV.A.2.i, version 3).

    Parameters
    ----------
    index : int
        Address of the topmost node; it stands 3 bytes from the beginning.
    rows : int
        Rows per chunk.
    row_bytes : int
        Bytes per row.

    Returns
    -------
    bytes
    """
    return struct.pack("<BBBQII", 3, 2, 2, index, rows, row_bytes)


def contiguous_layout(address: int, size: int) -> bytes:
    """Say where the data of a dataset are that does not grow (section IV.A.2.i, version 3).

    Parameters
    ----------
    address, size : int
        Bytes.

    Returns
    -------
    bytes
    """
    return struct.pack("<BBQQ", 3, 1, address, size)


def attribute(name: str, kind: bytes, value: bytes) -> bytes:
    """Make a scalar attribute (section IV.A.2.m, version 3); its value comes last.

    Parameters
    ----------
    name : str
        In ASCII.
    kind : bytes
        Its datatype.
    value : bytes
        As the datatype says.

    Returns
    -------
    bytes
    """
    label = name.encode("ascii") + b"\0"
    space = dataspace()
    return struct.pack("<BBHHHB", 3, 0, len(label), len(kind), len(space), 0) + label + kind + space + value


def link_info() -> bytes:
    """Say that a group has its links in its header (section IV.A.2.c).

    Returns
    -------
    bytes
    """
    return struct.pack("<BBQQ", 0, 0, UNDEFINED, UNDEFINED)


def link(name: str, address: int) -> bytes:
    """Name an object of a group (section IV.A.2.g).

    Parameters
    ----------
    name : str
        In ASCII, up to 255 characters.
    address : int
        Of its header.

    Returns
    -------
    bytes
    """
    label = name.encode("ascii")
    return struct.pack("<BBB", 1, 0, len(label)) + label + struct.pack("<Q", address)
