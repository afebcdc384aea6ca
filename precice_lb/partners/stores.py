"""Partitioned meshes of recorded runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.partners.meshes import PartitionedMesh, make_mesh
from precice_lb.precice_xml import Configuration, parse_configuration
from precice_lb.store.merged import aligned_meshes
from precice_lb.store.reader import RankStore, find_stores, keeps_meshes, read_runs
from precice_lb.store.records import CELL_VERTICES, RecordedMeshes, box_names

__all__ = ["meshes_of_run", "read_store_meshes", "run_with_meshes"]

Run = Sequence[Sequence[RankStore]]


def read_store_meshes(
    sources: Iterable[str | Path],
) -> tuple[Configuration, dict[str, PartitionedMesh], dict[str, NDArray[np.float64]]]:
    """Read the meshes of the last recorded run.

    Parameters
    ----------
    sources : iterable of path
        Directories of stores.

    Returns
    -------
    configuration : Configuration
        What the stores kept of ``precice-config.xml``.
    meshes : dict of str to PartitionedMesh
        Provided meshes by name.
    regions : dict of str to ndarray, shape (ranks, dimensions, 2)
        Access regions by received mesh; NaN for a rank that set none.

    Raises
    ------
    StoreError
        If there is no store, or one is damaged.
    DataError
        If a rank is missing, or no meshes were recorded.
    """
    return meshes_of_run(read_runs(sources, rows=False)[-1])


def run_with_meshes(sources: Iterable[str | Path], ranks: Mapping[str, int]) -> Run | None:
    """Find the recorded run that tells most about some numbers of ranks; None if no run has kept any meshes.

    Of the runs with all participants it is the last one with these ranks, or else the last one that kept coordinates,
    or else the last one with boxes.
    """
    best: Run | None = None
    best_score = (False, False)
    paths = find_stores(sources)
    for run in read_runs(paths, rows=False) if any(map(keeps_meshes, paths)) else ():
        told = [_first_rows(group) for group in run]
        if {_name(group) for group in run} == set(ranks) and any(map(len, told)):
            same = all(int(group[0].metadata["size"]) == ranks[_name(group)] for group in run)
            score = (same, all(rows["coordinates"].all() for rows in told))
            if best is None or score >= best_score:
                best, best_score = run, score
    return best


def meshes_of_run(run: Run) -> tuple[Configuration, dict[str, PartitionedMesh], dict[str, NDArray[np.float64]]]:
    """Read the configuration, the provided meshes by name, and the access regions by received mesh of a recorded run.

    A region has shape (ranks, dimensions, 2), NaN for a rank that set none.
    """
    configuration = parse_configuration(run[0][0].configuration)
    providers = {mesh: who.name for who in configuration.participants.values() for mesh in who.provides}
    meshes: dict[str, PartitionedMesh] = {}
    regions: dict[str, NDArray[np.float64]] = {}
    for stores in run:
        participant, size, place = _name(stores), int(stores[0].metadata["size"]), str(stores[0].directory)
        missing = sorted(set(range(size)) - {int(store.metadata["rank"]) for store in stores})
        if missing:
            raise DataError(
                f"{place}: expected stores of all {size} ranks of {participant}, found none of rank {missing[0]}; copy "
                "the stores of all ranks"
            )
        told = aligned_meshes(stores)
        provided = [mesh for mesh, who in providers.items() if who == participant]
        if not len(told.rows) and provided:
            raise DataError(f"{place}: expected the meshes of {participant}, {_why_none(stores[0])}")
        for number, name in enumerate(told.names):
            rows = np.flatnonzero(told.rows["name"] == number)
            if name not in configuration.meshes:
                raise DataError(f'{place}: expected meshes of the configuration, found "{name}"; record the run again')
            dimensions = configuration.meshes[name].dimensions
            if (told.rows["dimensions"][rows] != dimensions).any():
                raise DataError(
                    f'{place}: expected mesh "{name}" in {dimensions} dimensions, found others; record the run again'
                )
            if providers.get(name) == participant:
                meshes[name] = _mesh(name, participant, told, rows, size, place)
            else:
                regions[name] = _boxes(told.rows[rows], dimensions, size, "region_")
        for name in provided:
            if name not in meshes:
                nothing = np.empty((0, configuration.meshes[name].dimensions))
                meshes[name] = make_mesh(name, participant, nothing, nothing[:, 0], size, source=place)
    return configuration, meshes, regions


def _why_none(store: RankStore) -> str:
    """Say why a participant has no meshes in its stores, and what to do."""
    if store.is_imported:
        return (
            "found its stores imported from preCICE's profiling files, which hold none; add "
            '<export:csv directory="…"/> to every participant, run again, and give precice-lb partners that directory '
            "and --config"
        )
    return "found none recorded; record the run again, without PRECICE_LB_MESHES=0"


def _name(group: Sequence[RankStore]) -> str:
    return str(group[0].metadata["participant"])


def _first_rows(group: Sequence[RankStore]) -> NDArray[np.void]:
    """Return what the first rank says that has any mesh: others may be off the interface."""
    found = (rows for rows in (store.meshes().rows for store in group) if len(rows))
    return next(found, RecordedMeshes().rows)


def _boxes(rows: NDArray[np.void], dimensions: int, size: int, prefix: str = "") -> NDArray[np.float64]:
    boxes = np.full((size, dimensions, 2), np.nan)
    for axis, sides in enumerate(box_names(prefix)[:dimensions]):
        for side, column in enumerate(sides):
            boxes[rows["rank"], axis, side] = rows[column]
    return boxes


def _mesh(
    name: str, participant: str, told: RecordedMeshes, rows: NDArray[np.int64], size: int, source: str
) -> PartitionedMesh:
    mine = told.rows[rows]
    dimensions = int(mine["dimensions"][0])
    counts = np.zeros(size, np.int64)
    counts[mine["rank"]] = mine["vertices"]
    boxes = _boxes(mine, dimensions, size)
    if not np.isfinite(boxes[counts > 0]).all():
        raise DataError(f'{source}: expected finite coordinates of mesh "{name}" of {participant}, found others')
    if not mine["coordinates"].all():
        return PartitionedMesh(name, participant, counts, boxes, None, {}, source)
    starts = told.coordinate_starts
    parts = [told.coordinates[starts[row] : starts[row + 1]] for row in rows]
    coordinates = np.concatenate([np.empty(0), *parts]).reshape(-1, dimensions)
    ranks = np.repeat(mine["rank"], mine["vertices"])
    return make_mesh(name, participant, coordinates, ranks, size, cells=_cells(told, rows), source=source)


def _cells(told: RecordedMeshes, rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Cells by kind, as positions in the whole mesh."""
    starts, offset = told.cell_starts, 0
    found = {kind: [np.empty((0, corners), np.int64)] for kind, corners in CELL_VERTICES.items()}
    for row in rows:
        begin = int(starts[row])
        for kind, corners in CELL_VERTICES.items():
            end = begin + int(told.rows[kind][row]) * corners
            found[kind].append(told.cells[begin:end].astype(np.int64).reshape(-1, corners) + offset)
            begin = end
        offset += int(told.rows["vertices"][row])
    return {kind: np.concatenate(parts) for kind, parts in found.items()}
