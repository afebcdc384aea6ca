"""HDF5 files of recorded runs: schema, writer, reader and how files belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precice_lb.rooms import lazily

if TYPE_CHECKING:
    from precice_lb.store.reader import find_stores, read_runs, read_store
    from precice_lb.store.records import RankFile

__all__ = ["RankFile", "find_stores", "read_runs", "read_store"]

__getattr__ = lazily(
    __name__,
    reader=(*__all__, "read_stores"),
    columns=("ADVANCES", "COUNTS", "INITIALIZE", "MPI", "RecordedMeshes", "SECTIONS", "TABLES", "recorded_meshes"),
    rank_file=("Tail", "write_hdf5"),
    schema=("case_fingerprint",),
    spool=("StoreWriter", "note_stop"),
)
