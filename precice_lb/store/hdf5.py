"""The one door to HDF5 files of stores, whoever wrote them.

Nothing is followed out of the file, and nothing is read that says to be larger than what the file holds can be.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.checks import check_type, table_rows
from precice_lb.store.columns import TABLES
from precice_lb.store.schema import METADATA, decode, refuse_link

_FOREIGN = "leave it out, or import it first if it holds measurements of another format (precice-lb import --help)"
_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_SCALEOFFSET}
# Deflate makes at most so many bytes of one (RFC 1951: 258 bytes of two bits).
_INFLATED = 1032
# Of values that are all alike earlier packing leaves so many bytes of a chunk, which is no larger than this.
_LEAST_OF_CHUNK, _LARGEST_CHUNK = 16, 1 << 20
# For chunks that are not there: a file may end before its first rows.
_FREE_BYTES = 1 << 20
# Texts that are read at once: any number of them may be one and the same in the file.
_TEXTS = 256


def opened(path: Path, *, locking: bool | str) -> h5py.File:
    """Open a file for reading, which must not be a link."""
    refuse_link(path)
    return h5py.File(path, "r", locking=locking)


@contextlib.contextmanager
def told_damage(
    path: Path,
    expected: str = "a store written by precice_lb",
    remedy: str = _FOREIGN,
    remedy_within: str = "leave the file out, or copy it anew where it was damaged",
) -> Iterator[None]:
    """Turn whatever a foreign file raises, or one that is damaged within, into one error with its name and a remedy."""
    try:
        yield
    except StoreError as error:
        if str(error).startswith(str(path)):
            raise
        raise StoreError(f"{path}: {error}; {remedy_within}") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(
            f"{path}: expected {expected}, found a file that cannot be read as one ({reason}); {remedy}"
        ) from error


def attribute(file: h5py.File, name: str) -> Any:
    """Read a single value; None where there is none."""
    attributes = file.attrs
    if name not in attributes:
        return None
    if attributes.get_id(name).shape != ():
        raise StoreError(f"attribute {name}: expected one value, found an array")
    value = attributes[name]
    return value.item() if isinstance(value, np.generic) else value


def metadata_of(file: h5py.File) -> dict[str, Any]:
    """Read the metadata that are attributes; keys that a later version added are passed over."""
    return {name: decode(name, attribute(file, name)) for name in file.attrs if name in METADATA}


def has(parent: h5py.Group, name: str) -> bool:
    """Whether there is anything of a name, whatever it is."""
    return parent.get(name, getlink=True) is not None


def item(parent: h5py.Group, name: str, kind: type[h5py.Group] | type[h5py.Dataset]) -> Any:
    """Give a group or a dataset that lies in the file itself."""
    link = parent.get(name, getlink=True)
    if link is None:
        raise StoreError(f"expected /{name}, found none")
    if not isinstance(link, h5py.HardLink):
        raise StoreError(f"expected /{name} in the file itself, found a link to elsewhere")
    found = parent[name]
    if not isinstance(found, kind):
        raise StoreError(f"expected /{name} to be a {kind.__name__.lower()}, found a {type(found).__name__.lower()}")
    return found


def dataset(parent: h5py.Group, name: str, dtype: np.dtype[Any] | None, dimensions: int = 1) -> h5py.Dataset:
    """Give a dataset, unread: of a type (or of texts) and a shape that its bytes in the file allow."""
    found = item(parent, name, h5py.Dataset)
    if found.external or found.is_virtual:
        raise StoreError(f"expected the values of /{name} in the file itself, found them said to be elsewhere")
    if found.shape is None or len(found.shape) != dimensions:
        raise StoreError(f"expected /{name} to have {dimensions} dimensions, found shape {found.shape}")
    if dtype is not None:
        check_type(name, found.dtype, dtype)
    elif h5py.check_string_dtype(found.dtype) is None:
        raise StoreError(f"expected texts in /{name}, found {found.dtype}")
    properties = found.id.get_create_plist()
    filters = [properties.get_filter(at)[0] for at in range(properties.get_nfilters())]
    if len(set(filters)) < len(filters) or not set(filters) <= _FILTERS:
        raise StoreError(f"expected /{name} to be packed as stores are, found the filters {filters}")
    stored = min(found.id.get_storage_size(), found.file.id.get_filesize())
    chunk = math.prod(found.chunks or ()) * found.dtype.itemsize
    inflated = _INFLATED if h5py.h5z.FILTER_DEFLATE in filters else 1
    if h5py.h5z.FILTER_SCALEOFFSET in filters:
        inflated *= min(chunk, _LARGEST_CHUNK) // _LEAST_OF_CHUNK
    most = _FREE_BYTES + stored * inflated
    if max(math.prod(found.shape) * found.dtype.itemsize, chunk) > most:
        raise StoreError(f"expected as many values in /{name} as its {stored} bytes hold, found shape {found.shape}")
    return found


def table(file: h5py.File, name: str) -> NDArray[Any]:
    """Read one of `TABLES`; without rows where it is not there."""
    if not has(file, name):
        return TABLES[name].empty()
    return table_rows(name, dataset(file, name, TABLES[name].least)[...])


def texts(file: h5py.File, name: str) -> list[str]:
    """Read texts, which together are no longer than the file."""
    found: list[str] = []
    length, source = 0, dataset(file, name, None)
    for begin in range(0, len(source), _TEXTS):
        found.extend(source.asstr()[begin : begin + _TEXTS])
        length += sum(map(len, found[begin:]))
        if length > file.id.get_filesize():
            raise StoreError(f"expected texts in /{name} of their own, found the same ones many times")
    return found
