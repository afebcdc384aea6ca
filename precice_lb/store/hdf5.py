"""The parts of an HDF5 file that a rank's store is made of, as bytes.

The HDF5 library takes 12 MiB and 60 ms of every rank that loads it, and must be kept from writing in an order that a
kill turns into damage. A store needs little of the format, so the solver's process writes that itself; everything
else reads and writes through h5py. Structures and numbers of messages are those of "HDF5 File Format Specification
Version 3.0" (The HDF Group), of which these can be read by HDF5 1.8 and newer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = [
    "CHILDREN",
    "END_OF_FILE",
    "HEADER_PREFIX",
    "MESSAGE_PREFIX",
    "NODE_COUNT",
    "NODE_RIGHT",
    "UNDEFINED",
    "heap",
    "heap_reference",
    "node",
    "node_child",
    "object_header",
    "padded",
    "superblock",
]

UNDEFINED = 2**64 - 1
"""The address of what does not exist."""

HEADER_PREFIX = 16
"""Bytes of an object header before its first message."""

MESSAGE_PREFIX = 8
"""Bytes of a message before its data."""

END_OF_FILE = 40
"""Where the superblock has the length of the file."""

CHILDREN = 64
"""Children of a full node of the index of chunks: what a superblock of version 0 stands for."""

NODE_COUNT, NODE_RIGHT = 6, 16
"""Where a node has the number of its children, and the address of the node after it."""

_HEAP_MINIMUM = 4096
_HEAP_OBJECT = 16


def padded(data: bytes) -> bytes:
    """Fill up with zeros to a multiple of eight bytes.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    bytes
    """
    return data + bytes(-len(data) % 8)


def superblock(root: int, end_of_file: int) -> bytes:
    """Make the first bytes of a file (section II.A, version 0).

    Parameters
    ----------
    root : int
        Address of the root group's object header.
    end_of_file : int
        Bytes in the file.

    Returns
    -------
    bytes
    """
    versions = bytes([0, 0, 0, 0, 0, 8, 8, 0])
    entry = struct.pack("<QQII16x", 0, root, 0, 0)
    addresses = struct.pack("<QQQQ", 0, UNDEFINED, end_of_file, UNDEFINED)
    return b"\x89HDF\r\n\x1a\n" + versions + struct.pack("<HHI", 4, 16, 0) + addresses + entry


def object_header(messages: Sequence[tuple[int, bytes]]) -> bytes:
    """Make the header of a group or dataset (section IV.A.1.a, version 1).

    Parameters
    ----------
    messages : sequence of (int, bytes)
        Type and data of each.

    Returns
    -------
    bytes
    """
    body = b""
    for kind, data in messages:
        data = padded(data)
        body += struct.pack("<HHB3x", kind, len(data), 0) + data
    return struct.pack("<BxHII4x", 1, len(messages), 1, len(body)) + body


def heap(texts: Sequence[bytes]) -> bytes:
    """Make the collection that holds texts of any length (section III.E).

    Parameters
    ----------
    texts : sequence of bytes
        Up to 65,535.

    Returns
    -------
    bytes
    """
    objects = b"".join(struct.pack("<HHIQ", i, 1, 0, len(text)) + padded(text) for i, text in enumerate(texts, 1))
    free = max(_HEAP_MINIMUM - 16 - len(objects), _HEAP_OBJECT)
    rest = struct.pack("<HHIQ", 0, 0, 0, free) + bytes(free - _HEAP_OBJECT)
    return b"GCOL" + struct.pack("<B3xQ", 1, 16 + len(objects) + free) + objects + rest


def heap_reference(address: int, index: int, size: int) -> bytes:
    """Refer to a text of a heap.

    Parameters
    ----------
    address : int
        Of the heap.
    index : int
        From 1.
    size : int
        Bytes of the text.

    Returns
    -------
    bytes
    """
    return struct.pack("<IQI", size, address, index)


def node(
    level: int, first: int, children: Sequence[int], chunk_rows: int, chunk_bytes: int, left: int = UNDEFINED
) -> bytes:
    """Make a node of the index of chunks (section III.A.1, node type 1).

    Its keys say already which rows each child will have: chunks come one after the other and all are of one size.

    Parameters
    ----------
    level : int
        0 for a node whose children are chunks.
    first : int
        Number of the first chunk below it, from 0.
    children : sequence of int
        Addresses of the first children, up to `CHILDREN`.
    chunk_rows, chunk_bytes : int
        Size of a chunk.
    left : int
        Address of the node before it on its level.

    Returns
    -------
    bytes
        The number of children stands `NODE_COUNT`, the address of the node after it `NODE_RIGHT` bytes from the
        beginning.
    """
    data = bytearray(b"TREE" + struct.pack("<BBHQQ", 1, level, len(children), left, UNDEFINED))
    for child in range(CHILDREN + 1):
        data += struct.pack("<IIQQ", chunk_bytes, 0, (first + child * CHILDREN**level) * chunk_rows, 0)
        if child < CHILDREN:
            data += struct.pack("<Q", children[child] if child < len(children) else UNDEFINED)
    return bytes(data)


def node_child(position: int) -> int:
    """Where a node has the address of a child.

    Parameters
    ----------
    position : int
        Of the child, from 0.

    Returns
    -------
    int
        Bytes from the beginning of the node.
    """
    return 24 + position * 32 + 24
