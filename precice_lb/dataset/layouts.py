"""Layouts that participants, and their versions, were measured with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from precice_lb.exceptions import DataError, InfeasibleError
from precice_lb.layout import Layout, Layouts, layouts_of
from precice_lb.names import key_of

if TYPE_CHECKING:
    from precice_lb.dataset.records import Measurements


def measured_layouts(measured: Mapping[str, Iterable[Layout]]) -> dict[str, Layouts]:
    """Tell the layouts by key (`key_of`); refuse one core in two ways."""
    found = {}
    for name, each in measured.items():
        try:
            found[name] = layouts_of(each)
        except InfeasibleError as error:
            raise DataError(f"measurements of {name}: {error}; learn from those with one way alone") from None
    return found


def row_layouts(measurements: Measurements, name: str) -> list[tuple[str, Layout]]:
    """Give the key and the layout of each row of a participant's samples; one thread where nothing was said."""
    cores = measurements.samples[name][:, 0]
    keys = [key_of(name, str(ran)) for ran in measurements.versions.get(name, [""] * len(cores))]
    return [(key, measurements.layouts.get(key, Layouts()).of(int(n))) for key, n in zip(keys, cores, strict=True)]
