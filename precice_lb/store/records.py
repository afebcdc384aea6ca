"""What one rank recorded: its metadata, the configuration, and tables, in memory or in its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.columns import TABLES, Tables, decode_names
from precice_lb.store.schema import store_directory


def _nothing(names: Sequence[str]) -> Tables:
    return {}


@dataclass(frozen=True, eq=False)
class RankFile:
    """What one rank recorded.

    Attributes
    ----------
    path : Path
        The file.
    metadata : dict
        Values by key, as `precice_lb.store.schema.METADATA` describes them.
    configuration : str
        Text of ``precice-config.xml``.
    tables : dict of str to ndarray
        Tables of `precice_lb.store.columns.TABLES` that are in memory, by name.
    read : callable
        From names of other tables to those that the file holds, which are read at each access: keep an array instead of
        asking twice, or have all of them `loaded`.
    """

    path: Path
    metadata: dict[str, Any]
    configuration: str
    tables: Tables = field(default_factory=dict)
    read: Callable[[Sequence[str]], Tables] = field(default_factory=lambda: _nothing)

    @property
    def advances(self) -> NDArray[np.void]:
        """Rows of ``/advances``, in the order of the calls."""
        return self.rows("advances")

    @property
    def initialize(self) -> NDArray[np.void]:
        """Rows of ``/initialize``, at most one."""
        return self.rows("initialize")

    def rows(self, table: str) -> NDArray[Any]:
        """Give the rows of a table; none where it was not recorded.

        Parameters
        ----------
        table : str
            Its name in `precice_lb.store.columns.TABLES`.

        Returns
        -------
        ndarray, shape (n,)
        """
        return self.read_tables(table)[0]

    def names(self, table: str) -> tuple[str, ...]:
        """Give what the column ``name`` of a table counts, from 0.

        Parameters
        ----------
        table : str
            The table whose rows count them.

        Returns
        -------
        tuple of str
        """
        return decode_names(self.rows(TABLES[table].names))

    def read_tables(self, *names: str) -> list[NDArray[Any]]:
        """Give several tables, read at once.

        Parameters
        ----------
        *names : str
            As of `rows`.

        Returns
        -------
        list of ndarray, shape (n,) each
        """
        others = [name for name in names if name not in self.tables]
        found = {**self.tables, **self.read(others)} if others else self.tables
        return [found[name] if name in found else TABLES[name].empty() for name in names]

    def loaded(self, *names: str) -> RankFile:
        """Read tables into memory.

        Parameters
        ----------
        *names : str
            As of `rows`; by default all tables.

        Returns
        -------
        RankFile
        """
        names = names or tuple(TABLES)
        return replace(self, tables={**self.tables, **dict(zip(names, self.read_tables(*names), strict=True))})

    def having(self, metadata: Mapping[str, Any] | None = None, **tables: NDArray[Any]) -> RankFile:
        """Give the rank more or other metadata and tables.

        Parameters
        ----------
        metadata : mapping, optional
            Values by key, in place of those there are.
        **tables : ndarray
            Tables by name, shape (n,) each, likewise.

        Returns
        -------
        RankFile
        """
        return replace(self, metadata={**self.metadata, **(metadata or {})}, tables={**self.tables, **tables})

    @cached_property
    def interval_unix_ns(self) -> tuple[int, int]:
        """Unix time in ns from when to when the rank recorded, for a killed one up to its last row."""
        start: int = self.metadata["started_unix_ns"]
        end = self.metadata.get("ended_unix_ns")
        if end is None:
            offset = start - self.metadata["started_clock_ns"]
            ends = [
                offset + int(rows["begin_ns"][-1] + rows[f"{call}_ns"][-1])
                for call, rows in (("initialize", self.initialize), ("advance", self.advances))
                if len(rows)
            ]
            end = ends[-1] if ends else start
        return start, max(start, end)

    @property
    def directory(self) -> Path:
        """The store directory that the rank recorded into."""
        return store_directory(self.path)

    @property
    def is_imported(self) -> bool:
        """Whether it was made from preCICE's profiling files, whose clock begins at zero, and not recorded."""
        return "timing_source" in self.metadata and self.metadata["started_clock_ns"] == 0


Complete: TypeAlias = Callable[[Sequence[RankFile]], Sequence[RankFile]]
"""Takes some ranks of one participant, sorted; returns them with what was measured beside the store."""
