"""Pairs of ranks as a sparse matrix in an HDF5 file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import h5py
import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError

if TYPE_CHECKING:
    from precice_lb.partners.facade import PartnersReport

__all__ = ["write_pairs"]

_FORMAT = "precice-lb-partners"
_FORMAT_VERSION = 1


def write_pairs(report: PartnersReport, path: str | Path) -> None:
    """Write all pairs of a report.

    One group per received mesh, with provider and receiver as attributes. In it ``level_1`` and, where known,
    ``level_2`` and ``one_level`` are matrices in compressed sparse rows as scipy has them: the partners of provider
    rank ``r`` are ``indices[indptr[r]:indptr[r + 1]]``; ``data`` of ``level_2`` counts vertices.

    Parameters
    ----------
    report : PartnersReport
        The report.
    path : path
        The file; replaced if it is there.

    Raises
    ------
    DataError
        If it cannot be written.
    """
    try:
        with h5py.File(path, "w") as file:
            file.attrs.update(format=_FORMAT, format_version=_FORMAT_VERSION)
            for number, found in enumerate(report.links):
                group = file.create_group(str(number))
                group.attrs.update(mesh=found.link.mesh, provider=found.link.provider, receiver=found.link.receiver)
                _matrix(group, "level_1", found.level_1, found.ranks)
                if found.level_2 is not None:
                    _matrix(group, "level_2", found.level_2, found.ranks, found.vertices)
                if found.one_level is not None:
                    _matrix(group, "one_level", found.one_level, found.ranks)
    except OSError as error:
        raise DataError(
            f"{path}: expected a place to write pairs to, found: {error.strerror or error}; name another"
        ) from error


def _matrix(
    group: h5py.Group,
    name: str,
    pairs: NDArray[np.int64],
    shape: tuple[int, int],
    data: NDArray[np.int64] | None = None,
) -> None:
    matrix = group.create_group(name)
    matrix.attrs["shape"] = shape
    matrix["indptr"] = np.searchsorted(pairs[:, 0], np.arange(shape[0] + 1))
    matrix.create_dataset("indices", data=pairs[:, 1], compression="gzip", shuffle=True)
    if data is not None:
        matrix.create_dataset("data", data=data, compression="gzip", shuffle=True)
