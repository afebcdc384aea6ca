"""Reading the file of one rank.

Through h5py's low-level API, which reads a file three times faster than its high-level one: a run has a file per rank.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from h5py import h5a, h5d, h5f, h5o, h5p, h5s, h5t
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.meshes import MESH_PARTS, RecordedMeshes, recorded_meshes
from precice_lb.store.metadata import METADATA, decode, validate
from precice_lb.store.records import RankStore
from precice_lb.store.schema import ADVANCE_DTYPE, FORMAT, FORMAT_VERSION, INITIALIZE_DTYPE, MESH_DTYPE, SECTION_DTYPE

__all__ = ["open_read_only", "read_meshes", "read_part", "read_rows", "read_tables"]

_TABLES: dict[str, np.dtype[Any]] = {
    "advances": ADVANCE_DTYPE,
    "initialize": INITIALIZE_DTYPE,
    "sections": SECTION_DTYPE,
    "meshes": MESH_DTYPE,
    **MESH_PARTS,
}
_TYPES = {name: h5t.py_create(dtype, logical=True) for name, dtype in _TABLES.items()}


def open_read_only(path: Path) -> h5f.FileID:
    """Open a file for h5py without a lock, so that on a network file system a reader never blocks the solver.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    h5py.h5f.FileID

    Raises
    ------
    OSError
        If it cannot be opened as HDF5.
    """
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_file_locking(False, True)
    return h5f.open(os.fsencode(path), h5f.ACC_RDONLY, access)


def read_part(path: Path, *, rows: bool = True) -> RankStore:
    """Read the file of one rank.

    Parameters
    ----------
    path : Path
        The file; it may still be written to, or have been left behind by a kill.
    rows : bool
        False leaves the rows of ``advance`` and the sections in the file: they are read when asked for.

    Returns
    -------
    RankStore
        What it holds up to the last flush.

    Raises
    ------
    StoreError
        If the file is not a store of one rank, is damaged, or has an unknown format version.
    """
    with _damage_told(path), _opened(path) as root:
        attributes = _attributes(root)
        _check_format(path, root, attributes)
        metadata = {name: decode(name, value) for name, value in attributes.items() if name in METADATA}
        validate(metadata, complete=True)
        names = _section_names(root)
        return RankStore(
            path=path,
            metadata=metadata,
            configuration=_text(root, b"configuration"),
            advances=_advances(root) if rows else lambda: read_rows(path)[0],
            initialize=_table(root, "initialize"),
            sections=_sections(root, len(names)) if rows else lambda: read_rows(path)[1],
            section_names=names,
            meshes=functools.partial(read_meshes, path),
        )


def read_rows(path: Path) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Read only the rows of ``advance`` and the sections of one rank, of a file that `read_part` can read.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    advances, sections : ndarray

    Raises
    ------
    StoreError
        If they cannot be read.
    """
    with _damage_told(path), _opened(path) as root:
        return _advances(root), _sections(root, len(_section_names(root)))


def read_meshes(path: Path) -> RecordedMeshes:
    """Read only what one rank said about its meshes, of a file that `read_part` can read.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    RecordedMeshes

    Raises
    ------
    StoreError
        If they cannot be read.
    """
    with _damage_told(path), _opened(path) as root:
        return _meshes(root)


def read_tables(path: Path) -> tuple[NDArray[np.void], NDArray[np.void], RecordedMeshes]:
    """Read what `read_rows` and `read_meshes` read, at once.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    advances, sections : ndarray
    meshes : RecordedMeshes

    Raises
    ------
    StoreError
        If they cannot be read.
    """
    with _damage_told(path), _opened(path) as root:
        return _advances(root), _sections(root, len(_section_names(root))), _meshes(root)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[h5o.ObjectID]:
    file = open_read_only(path)
    try:
        yield h5o.open(file, b"/")
    finally:
        file.close()


@contextlib.contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """Turn whatever a damaged or foreign file raises into one error with its name."""
    try:
        yield
    except (OSError, KeyError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StoreError(
            f"{path}: expected a store written by precice_lb (HDF5), found a file that cannot be read as one "
            f"({reason}); remove it or record the run again"
        ) from error
    except StoreError as error:
        if str(error).startswith(str(path)):
            raise
        raise StoreError(f"{path}: {error}; remove the file or record the run again") from error


def _attributes(root: h5o.ObjectID) -> dict[str, Any]:
    found = {}
    for index in range(h5a.get_num_attrs(root)):
        attribute = h5a.open(root, index=index)
        found[attribute.name.decode()] = _attribute(attribute)
    return found


def _attribute(attribute: h5a.AttrID) -> Any:
    value = np.empty(attribute.shape, attribute.dtype)
    attribute.read(value)
    scalar: Any = value[()]
    return scalar.decode("utf-8", "surrogateescape") if isinstance(scalar, bytes) else scalar


def _text(root: h5o.ObjectID, name: bytes) -> str:
    value = np.empty((), dtype=object)
    h5d.open(root, name).read(h5s.ALL, h5s.ALL, value)
    text: bytes = value.item()
    return text.decode("utf-8", "surrogateescape")


def _table(root: h5o.ObjectID, name: str) -> NDArray[Any]:
    if name.encode() not in root:
        return np.empty(0, dtype=_TABLES[name])
    dataset = h5d.open(root, name.encode())
    table = np.empty(dataset.shape, dtype=_TABLES[name])
    dataset.read(h5s.ALL, h5s.ALL, table, _TYPES[name])
    return table


def _meshes(root: h5o.ObjectID) -> RecordedMeshes:
    rows = _table(root, "meshes")
    if not len(rows):
        return RecordedMeshes()
    names, coordinates, cells = (_table(root, name) for name in MESH_PARTS)
    return recorded_meshes(names.tobytes(), rows, coordinates, cells)


def _advances(root: h5o.ObjectID) -> NDArray[np.void]:
    """Read the rows of ``advance`` without those that a machine lost when it went down."""
    table = _table(root, "advances")
    written = table["window"] > 0
    return table if written.all() else table[written]


def _sections(root: h5o.ObjectID, names: int) -> NDArray[np.void]:
    """Read the sections, likewise."""
    table = _table(root, "sections")
    written: NDArray[np.void] = table[(table["window"] > 0) & (table["name"] < names)]
    return written


def _section_names(root: h5o.ObjectID) -> tuple[str, ...]:
    if b"section_names" not in root:
        return ()
    dataset = h5d.open(root, b"section_names")
    names = np.empty(dataset.shape, dtype=dataset.dtype)
    dataset.read(h5s.ALL, h5s.ALL, names)
    return tuple(name.decode("utf-8", "replace") for name in names if name)


def _check_format(path: Path, root: h5o.ObjectID, attributes: dict[str, Any]) -> None:
    """Refuse what is not a store of a known format version."""
    found = attributes.get("format")
    if found != FORMAT:
        raise StoreError(
            f"{path}: expected an HDF5 file with attribute format={FORMAT!r}, found {found!r}; "
            "give only files that precice_lb wrote"
        )
    version = attributes.get("format_version")
    if version != FORMAT_VERSION:
        raise StoreError(
            f"{path}: expected format version {FORMAT_VERSION}, found {version}; "
            "read it with the version of precice_lb that wrote it or a newer one"
        )
    for name in ("advances", "initialize"):
        kind = h5d.open(root, name.encode()).get_type()
        if not kind.equal(_TYPES[name]):
            raise StoreError(
                f"{path}: expected columns {_TABLES[name].names} in /{name}, found {kind.dtype}; the file is damaged"
            )
