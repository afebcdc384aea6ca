"""What one rank recorded, as read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.meshes import MESH_TABLES, RecordedMeshes, recorded_meshes
from precice_lb.store.schema import TABLES, store_directory

__all__ = ["Complete", "RankStore", "Tables"]

Tables: TypeAlias = Mapping[str, NDArray[Any]]
"""Tables of a store by name, as in `precice_lb.store.schema.TABLES`."""


def _nothing(names: Sequence[str]) -> Tables:
    return {}


@dataclass(frozen=True, eq=False)
class RankStore:
    """What one rank recorded.

    Attributes
    ----------
    path : Path
        The file.
    metadata : dict
        Values by key, as `precice_lb.store.metadata.METADATA` describes them.
    configuration : str
        Text of ``precice-config.xml``.
    tables : dict of str to ndarray
        Tables of `precice_lb.store.schema.TABLES` that are in memory, by name.
    read : callable
        From names of other tables to those that the file holds, which are read at each access: keep an array instead of
        asking twice.
    """

    path: Path
    metadata: dict[str, Any]
    configuration: str
    tables: Tables = field(default_factory=dict)
    read: Callable[[Sequence[str]], Tables] = field(default_factory=lambda: _nothing)

    @property
    def advances(self) -> NDArray[np.void]:
        """Rows of `precice_lb.store.schema.ADVANCE_DTYPE`, in the order of the calls."""
        return self._tables("advances")[0]

    @property
    def initialize(self) -> NDArray[np.void]:
        """Rows of `precice_lb.store.schema.INITIALIZE_DTYPE`, at most one."""
        return self._tables("initialize")[0]

    @property
    def sections(self) -> NDArray[np.void]:
        """Rows of `precice_lb.store.schema.SECTION_DTYPE`: the solver's own profiling sections, as they ended."""
        return self._tables("sections")[0]

    @cached_property
    def section_names(self) -> tuple[str, ...]:
        """What ``sections["name"]`` counts, from 0."""
        return tuple(name.decode("utf-8", "replace") for name in self._tables("section_names")[0] if name)

    def meshes(self) -> RecordedMeshes:
        """Read what the rank said about its coupling meshes.

        Returns
        -------
        RecordedMeshes

        Raises
        ------
        StoreError
            If they are damaged.
        """
        return recorded_meshes(self.path, *self._tables(*MESH_TABLES))

    def _tables(self, *names: str) -> list[NDArray[Any]]:
        others = [name for name in names if name not in self.tables]
        found = {**self.tables, **self.read(others)} if others else self.tables
        return [found[name] if name in found else np.empty(0, TABLES[name]) for name in names]

    def having(self, metadata: Mapping[str, Any] | None = None, **tables: NDArray[Any]) -> RankStore:
        """Give the rank more or other metadata and tables.

        Parameters
        ----------
        metadata : mapping, optional
            Values by key, in place of those there are.
        **tables : ndarray
            Tables by name, shape (n,) each, likewise.

        Returns
        -------
        RankStore
        """
        return replace(self, metadata={**self.metadata, **(metadata or {})}, tables={**self.tables, **tables})

    @cached_property
    def interval_unix_ns(self) -> tuple[int, int]:
        """Unix time in ns from when to when the rank recorded, for a killed one up to its last row."""
        start: int = self.metadata["started_unix_ns"]
        end = self.metadata.get("ended_unix_ns")
        if end is None:
            end = start
            offset = start - self.metadata["started_clock_ns"]
            if len(self.initialize):
                end = offset + int(self.initialize["begin_ns"][-1] + self.initialize["initialize_ns"][-1])
            advances = self.advances
            if len(advances):
                end = offset + int(advances["begin_ns"][-1] + advances["advance_ns"][-1])
        return start, max(start, end)

    @property
    def directory(self) -> Path:
        """The store directory that the rank recorded into."""
        return store_directory(self.path)

    @property
    def is_imported(self) -> bool:
        """Whether it was made from preCICE's profiling files, whose clock begins at zero, and not recorded."""
        return "timing_source" in self.metadata and self.metadata["started_clock_ns"] == 0


Complete: TypeAlias = Callable[[Sequence[RankStore]], Sequence[RankStore]]
"""Takes some ranks of one participant, sorted; returns them with what was measured beside the store."""
