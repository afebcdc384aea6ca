"""One file with all ranks of a participant.

``/ranks`` has one row per rank (`RANK_DTYPE`), ``/initialize`` and ``/metadata`` (JSON text of what differs between
ranks) likewise; what all ranks have in common are attributes of the root, encoded as in the file of one rank. The rows
of ``advance`` lie in ``/advances/<column>``, shape (ranks, rows), or (1, rows) where all ranks have the same values; a
rank that recorded fewer rows leaves the rest of its row empty. ``/sections`` holds the ranks' sections one after the
other, ``/meshes`` and its parts their meshes, ``/configurations`` the configuration's text. Every chunk of rows has
HDF5's checksum (fletcher32).
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import StoreError
from precice_lb.store.columns import DURATIONS, RankColumns, row_slice
from precice_lb.store.merged_meshes import MergedMeshes
from precice_lb.store.meshes import RecordedMeshes
from precice_lb.store.metadata import METADATA, decode, validate
from precice_lb.store.records import RankStore
from precice_lb.store.schema import ADVANCE_DTYPE, SECTION_DTYPE

__all__ = ["FORMAT", "FORMAT_VERSION", "RANK_DTYPE", "MergedStore", "MergedTable"]

FORMAT = "precice-lb-merged"
"""Value of the root attribute ``format``."""

FORMAT_VERSION = 2
"""Value of the root attribute ``format_version``. Version 1, which is read too, had digests in place of checksums."""

RANK_DTYPE = np.dtype(
    [
        ("rank", "<i8"),
        ("rows", "<i8"),
        ("initialized", "?"),
        ("configuration", "<i4"),
        ("first_section", "<i8"),
        ("sections", "<i8"),
    ]
)
"""One row per rank: how many rows of ``advance``, whether it has one of ``initialize``, the position of its
configuration, and where its sections begin and how many there are."""

# A campaign may leave more merged files than a process may have open.
_MOST_OPEN = 32
_OPEN: weakref.WeakValueDictionary[int, MergedStore] = weakref.WeakValueDictionary()


class MergedStore:
    """A merged store, read lazily.

    Parameters
    ----------
    path : path
        The file.

    Attributes
    ----------
    path : Path
        The file.
    index : ndarray of RANK_DTYPE, shape (R,)
        The ranks, rising.
    stores : list of RankStore, length R
        The ranks. Their rows stay in the file until asked for.

    Raises
    ------
    StoreError
        If it is not a merged store, is damaged, or has an unknown format version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._open_file: h5py.File | None = None
        self._datasets: dict[str, h5py.Dataset] = {}
        self._meshes = MergedMeshes()
        try:
            self._check_format()
            self.index: NDArray[np.void] = self._file["ranks"][...]
            self.stores = self._read_stores()
            for name in ADVANCE_DTYPE.names or ():
                self._column(name)
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise StoreError(
                f"{self.path}: expected a merged store (HDF5), found a file that cannot be read as one ({reason}); "
                "copy it anew"
            ) from error
        except StoreError as error:
            if str(error).startswith(str(self.path)):
                raise
            raise StoreError(f"{self.path}: {error}; copy it anew") from error

    def __reduce__(self) -> tuple[type[MergedStore], tuple[Path]]:
        return MergedStore, (self.path,)

    @property
    def block_ranks(self) -> int:
        """How many neighbouring ranks, from a multiple of it on, are quickest read together."""
        return max(int(self._column(name).chunks[0]) for name in ADVANCE_DTYPE.names or ())

    @property
    def _file(self) -> h5py.File:
        """The file, opened when needed."""
        if self._open_file is None:
            _OPEN[id(self)] = self
            for other in list(_OPEN.values())[:-_MOST_OPEN]:
                other.close()
            # Unlike a part, nobody writes to it: a lock hinders no solver.
            self._open_file = h5py.File(self.path, "r", locking="best-effort")
        return self._open_file

    def _column(self, name: str) -> h5py.Dataset:
        file = self._file
        if name not in self._datasets:
            self._datasets[name] = file["advances"][name]
        return self._datasets[name]

    def close(self) -> None:
        """Close the file until something is read again."""
        self._datasets.clear()
        _OPEN.pop(id(self), None)
        if self._open_file is not None:
            self._open_file.close()
            self._open_file = None

    def columns(
        self,
        ranks: Sequence[int] | None = None,
        names: Sequence[str] = DURATIONS,
        *,
        windows: tuple[int, int] | None = None,
    ) -> RankColumns | None:
        """Read columns of several ranks as arrays; nothing else is read.

        Parameters
        ----------
        ranks : sequence of int, optional
            Positions in `index`, by default all.
        names : sequence of str
            Columns of `precice_lb.store.schema.ADVANCE_DTYPE`.
        windows : tuple of int, optional
            First and last time window, both included; by default all.

        Returns
        -------
        RankColumns or None
            Up to the last row that every rank has. None if the ranks differ in windows, iterations or completed
            windows, or one has no rows.
        """
        chosen = np.arange(len(self.index)) if ranks is None else np.asarray(ranks, dtype=np.int64)
        count = int(self.index["rows"][chosen].min(initial=np.iinfo(np.int64).max)) if len(chosen) else 0
        if not count:
            return None
        calls = []
        for name in ("window", "iteration", "window_complete"):
            values = self._read(name, chosen, slice(0, count))
            if (values != values[0]).any():
                return None
            calls.append(values[0])
        rows = row_slice(calls[0], windows)
        window, iteration, complete = (values[rows].copy() for values in calls)
        return RankColumns(
            ranks=self.index["rank"][chosen],
            window=window,
            iteration=iteration,
            window_complete=complete,
            values={name: self._read(name, chosen, rows) for name in names},
        )

    def tables(self, first: int, last: int) -> list[NDArray[np.void]]:
        """Rows of ``advance`` of neighbouring ranks.

        Parameters
        ----------
        first, last : int
            Positions in `index`, the last not included.

        Returns
        -------
        list of ndarray of ADVANCE_DTYPE
        """
        counts = self.index["rows"][first:last]
        rows = slice(0, int(counts.max(initial=0)))
        tables = [np.empty(count, dtype=ADVANCE_DTYPE) for count in counts]
        for name in ADVANCE_DTYPE.names or ():
            values = self._read(name, np.arange(first, last), rows)
            for table, row in zip(tables, values, strict=True):
                table[name] = row[: len(table)]
        return tables

    def sections(self, position: int) -> NDArray[np.void]:
        """Profiling sections of one rank.

        Parameters
        ----------
        position : int
            Position in `index`.

        Returns
        -------
        ndarray of SECTION_DTYPE
        """
        first, count = self.index["first_section"][position], self.index["sections"][position]
        if not count:
            return np.empty(0, dtype=SECTION_DTYPE)
        sections: NDArray[np.void] = self._file["sections"][first : first + count]
        return sections

    def meshes(self, position: int | None = None) -> RecordedMeshes:
        """Meshes of one rank, or of all.

        Parameters
        ----------
        position : int, optional
            Position in `index`, by default all.

        Returns
        -------
        RecordedMeshes

        Raises
        ------
        StoreError
            If they are damaged.
        """
        return self._meshes.read(self._file, None if position is None else int(self.index["rank"][position]))

    def check(self) -> None:
        """Read everything once, so that HDF5 compares all checksums.

        Raises
        ------
        OSError
            If a chunk is not what was written.
        """

        def read(_: str, item: h5py.Group | h5py.Dataset) -> None:
            if isinstance(item, h5py.Dataset) and item.chunks is not None and item.size:
                for chunk in item.iter_chunks():
                    item[chunk]

        self._file.visititems(read)

    def _read(self, name: str, ranks: NDArray[np.int64], rows: slice) -> NDArray[Any]:
        """Rows of one column, shape (len(ranks), rows); a view where all ranks share them."""
        dataset = self._column(name)
        if len(dataset) == 1:
            return np.broadcast_to(dataset[0, rows], (len(ranks), rows.stop - rows.start))
        low, high = int(ranks.min()), int(ranks.max()) + 1
        values: NDArray[Any] = dataset[low:high, rows]
        return values if np.array_equal(ranks, np.arange(low, high)) else values[ranks - low]

    def _read_stores(self) -> list[RankStore]:
        file = self._file
        common = {name: decode(name, value) for name, value in file.attrs.items() if name in METADATA}
        own = [json.loads(text) for text in file["metadata"].asstr()[...]]
        initialize = file["initialize"][...]
        configurations = list(file["configurations"].asstr()[...])
        section_names = tuple(name.decode("utf-8", "replace") for name in file["section_names"][...])
        stores = []
        for position, row in enumerate(self.index):
            # As of one rank's file, keys that a later version added are passed over.
            metadata = common | {name: decode(name, value) for name, value in own[position].items() if name in METADATA}
            validate(metadata, complete=True)
            if metadata["rank"] != row["rank"]:
                raise StoreError(f"rank {row['rank']}: expected its metadata, found those of rank {metadata['rank']}")
            stores.append(
                RankStore(
                    path=self.path,
                    metadata=metadata,
                    configuration=configurations[row["configuration"]],
                    advances=MergedTable(self, position, "advances"),
                    initialize=initialize[position : position + int(row["initialized"])],
                    sections=MergedTable(self, position, "sections"),
                    section_names=section_names,
                    meshes=MergedTable(self, position, "meshes"),
                )
            )
        return stores

    def _check_format(self) -> None:
        found, version = self._file.attrs.get("format"), self._file.attrs.get("format_version")
        if found != FORMAT or version not in range(1, FORMAT_VERSION + 1):
            raise StoreError(
                f"{self.path}: expected an HDF5 file with format={FORMAT!r} and format_version up to {FORMAT_VERSION}, "
                f"found {found!r} and {version}; read it with the version of precice_lb that wrote it or a newer one"
            )


@dataclass(frozen=True)
class MergedTable:
    """A table of one rank of a merged store, read when called.

    Attributes
    ----------
    store : MergedStore
        The file.
    position : int
        Position of the rank in it.
    name : str
        ``advances``, ``sections`` or ``meshes``.
    """

    store: MergedStore
    position: int
    name: str

    def __call__(self) -> Any:
        """Read it."""
        try:
            if self.name == "advances":
                return self.store.tables(self.position, self.position + 1)[0]
            return getattr(self.store, self.name)(self.position)
        except OSError as error:
            reason = str(error).splitlines()[0]
            raise StoreError(
                f"{self.store.path}: expected rows with the checksums they were written with, found others ({reason}); "
                "copy it anew"
            ) from error
