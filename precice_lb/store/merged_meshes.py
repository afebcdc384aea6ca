"""The meshes of all ranks in a merged store: written rank by rank, read for one rank or for all."""

from __future__ import annotations

import json
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.meshes import MESH_PARTS, RecordedMeshes, recorded_meshes
from precice_lb.store.schema import MESH_DTYPE, UNITS

__all__ = ["PACKING", "MergedMeshes", "MeshWriter"]

PACKING: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True, "fletcher32": True}
"""How the tables of a merged store are packed: small, and each chunk with a checksum that every reader sees to."""

_CHUNK = 1 << 16
_CHUNK_ROWS = 1 << 10


class MergedMeshes:
    """Reads meshes from a merged store; it keeps the rows, not coordinates and cells."""

    def __init__(self) -> None:
        self._kept: tuple[RecordedMeshes, NDArray[np.int64], NDArray[np.int64]] | None = None

    def read(self, file: h5py.File, rank: int | None) -> RecordedMeshes:
        """Read the meshes of a rank.

        Parameters
        ----------
        file : h5py.File
            The merged store.
        rank : int or None
            The rank; None for all.

        Returns
        -------
        RecordedMeshes
            Empty for a store that was merged before meshes were recorded.

        Raises
        ------
        StoreError
            If they are damaged.
        """
        if "meshes" not in file:
            return RecordedMeshes()
        try:
            if rank is None:
                names, coordinates, cells = (file[name][...] for name in MESH_PARTS)
                return recorded_meshes(names.tobytes(), file["meshes"][...], coordinates, cells)
            return self._of_rank(file, rank)
        except (OSError, KeyError, ValueError, StoreError) as error:
            raise StoreError(f"{file.filename}: expected meshes, found damaged ones ({error}); copy it anew") from error

    def _of_rank(self, file: h5py.File, rank: int) -> RecordedMeshes:
        if self._kept is None:
            names = file["mesh_names"][...].tobytes().decode("utf-8", "replace").split("\0")
            meshes = RecordedMeshes(tuple(names[:-1]), file["meshes"][...])
            self._kept = meshes, meshes.coordinate_starts, meshes.cell_starts
        meshes, places, cells = self._kept
        first, last = np.searchsorted(meshes.rows["rank"], [rank, rank + 1])
        if first == last:
            return RecordedMeshes()
        return RecordedMeshes(
            meshes.names,
            meshes.rows[first:last],
            file["coordinates"][places[first] : places[last]],
            file["cells"][cells[first] : cells[last]],
        )


class MeshWriter:
    """Writes meshes into a new merged store.

    Parameters
    ----------
    file : h5py.File
        The store.
    """

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._names: dict[str, int] = {}
        types: dict[str, np.dtype[Any]] = {"meshes": MESH_DTYPE, **MESH_PARTS}
        del types["mesh_names"]
        self._tables = {
            name: file.create_dataset(
                name,
                (0,),
                dtype,
                maxshape=(None,),
                chunks=(_CHUNK_ROWS if name == "meshes" else _CHUNK,),
                **PACKING,
            )
            for name, dtype in types.items()
        }
        self._tables["meshes"].attrs["units"] = json.dumps({column: UNITS[column] for column in MESH_DTYPE.names or ()})

    def add(self, meshes: RecordedMeshes) -> None:
        """Write meshes of further ranks.

        Parameters
        ----------
        meshes : RecordedMeshes
            Of ranks after all that were added before.

        Raises
        ------
        OSError
            If they cannot be written.
        """
        known = np.array([self._names.setdefault(name, len(self._names)) for name in meshes.names], dtype=np.int32)
        arrays = meshes.arrays()
        if len(meshes.rows):
            arrays["meshes"] = meshes.rows.copy()
            arrays["meshes"]["name"] = known[meshes.rows["name"]]
        for name, table in self._tables.items():
            count = len(table)
            if len(arrays[name]):
                table.resize((count + len(arrays[name]),))
                table[count:] = arrays[name]

    def close(self) -> None:
        """Write the names.

        Raises
        ------
        OSError
            If they cannot be written.
        """
        self._file.create_dataset("mesh_names", data=RecordedMeshes(tuple(self._names)).arrays()["mesh_names"])
