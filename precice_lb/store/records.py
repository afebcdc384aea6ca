"""What one rank recorded, as read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from precice_lb.store.meshes import RecordedMeshes
from precice_lb.store.schema import SECTION_DTYPE, store_directory

__all__ = ["RankStore"]


class _Rows:
    """Rows in memory, or a function that reads them each time they are asked for."""

    def __init__(self, default: Callable[[], NDArray[np.void]] | None = None) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> NDArray[np.void]:
        if instance is None:
            # How dataclass asks for a field's default.
            if self._default is None:
                raise AttributeError(self._name)
            return cast("NDArray[np.void]", self._default)
        value = instance.__dict__[self._name]
        rows: NDArray[np.void] = value() if callable(value) else value
        return rows

    def __set__(self, instance: object, value: NDArray[np.void] | Callable[[], NDArray[np.void]]) -> None:
        instance.__dict__[self._name] = value


def _no_sections() -> NDArray[np.void]:
    return np.empty(0, dtype=SECTION_DTYPE)


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
    advances : ndarray
        Rows of `precice_lb.store.schema.ADVANCE_DTYPE`, in the order of the calls. Those of a merged store are read
        from the file at each access: keep the array instead of asking twice.
    initialize : ndarray
        Rows of `precice_lb.store.schema.INITIALIZE_DTYPE`, at most one.
    sections : ndarray
        Rows of `precice_lb.store.schema.SECTION_DTYPE`: the solver's own profiling sections, in the order they ended.
    section_names : tuple of str
        What ``sections["name"]`` counts, from 0.
    meshes : callable
        Reads what the rank said about its coupling meshes; a `StoreError` where that is damaged.
    """

    path: Path
    metadata: dict[str, Any]
    configuration: str
    advances: _Rows = _Rows()
    initialize: _Rows = _Rows()
    sections: _Rows = _Rows(_no_sections)
    section_names: tuple[str, ...] = ()
    meshes: Callable[[], RecordedMeshes] = RecordedMeshes

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

    def without_rows(self, read: Callable[[str], NDArray[np.void]]) -> RankStore:
        """Leave the rows in the file, to be read when asked for; what is known of them already stays.

        Parameters
        ----------
        read : callable
            From "advances" or "sections" to the rows of that table, shape (n,).

        Returns
        -------
        RankStore
        """
        store = replace(self, advances=partial(read, "advances"), sections=partial(read, "sections"))
        if not callable(vars(self)["advances"]):
            vars(store)["interval_unix_ns"] = self.interval_unix_ns
        return store

    @property
    def directory(self) -> Path:
        """The store directory that the rank recorded into."""
        return store_directory(self.path)

    @property
    def is_imported(self) -> bool:
        """Whether it was made from preCICE's profiling files, whose clock begins at zero, and not recorded."""
        return "timing_source" in self.metadata and self.metadata["started_clock_ns"] == 0
