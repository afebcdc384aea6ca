"""Mesh files of any format that meshio knows, and who has their vertices or cells."""

from __future__ import annotations

import contextlib
import importlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from precice_lb.exceptions import DataError
from precice_lb.store.columns import Integers


def read_meshio(path: Path) -> Any:
    """Read a file of any format that meshio knows, as a ``meshio.Mesh``."""
    try:
        meshio: Any = importlib.import_module("meshio")
    except ImportError:
        raise DataError(
            "expected meshio to read mesh files, found it is not installed; pip install precice_lb[meshio]"
        ) from None
    try:
        # It prints what it cannot read, too, and ends the program where it finds no reader.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return meshio.read(path)
    except (Exception, SystemExit) as error:
        raise DataError(f"{path}: expected a mesh file that meshio reads, found: {error}") from error


def read_ranks(path: Path) -> Integers:
    """Read a file of one rank per line, or a ``.npy`` file."""
    try:
        return np.asarray(np.load(path) if path.suffix == ".npy" else np.loadtxt(path, dtype=np.int64, ndmin=1))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected one rank per line, found: {error}; name another file") from None


def checked_ranks(where: str, values: ArrayLike, count: int, what: str, ranks: int = 2**31) -> Integers:
    """Check that there is a rank for each of so many vertices or cells."""
    numbers = np.asarray(values)
    if numbers.shape != (count,):
        raise DataError(
            f"{where}: expected a partition with one rank for each of {count} {what}, found shape {numbers.shape}; "
            "give one of this mesh"
        )
    owners = numbers.astype(np.int64)
    if (wrong := (owners != numbers) | (owners < 0) | (owners >= ranks)).any():
        wanted = f"whole numbers of ranks from 0 to {ranks - 1}"
        raise DataError(f"{where}: expected {wanted}, found {numbers[wrong][0]}; correct them")
    return owners
