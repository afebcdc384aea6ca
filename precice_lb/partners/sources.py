"""Where partitioned meshes come from (stores, exports of preCICE, a mesh file for each rank)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.case import Configuration, parse_configuration
from precice_lb.exceptions import DataError
from precice_lb.ingest.meshio import read_meshio
from precice_lb.partners.meshes import Floats, Integers, PartitionedMesh, make_mesh
from precice_lb.store.meshes import CELL_VERTICES, MESHES, RecordedMeshes, box_names, recorded_meshes
from precice_lb.store.reader import find_stores, read_file, read_runs
from precice_lb.store.records import RankFile

# <Mesh>-<Participant>.<rank>_<time>.csv of a parallel run, <Mesh>-<Participant>.<time>.csv of a serial one.
_EXPORT = re.compile(r"(?P<stem>.+)\.(?:(?P<rank>\d+)_)?(?P<time>init|final|dt\d+|it\d+)\.csv")
_MESHIO_CELLS = {"line": "edges", "triangle": "triangles", "tetra": "tetrahedra"}


def read_exports(directories: Iterable[str | Path], configuration: Configuration) -> dict[str, PartitionedMesh]:
    """Read the provided meshes that ``<export:csv>`` wrote.

    The export rounds coordinates to six digits, and so may a box that just touches another one. It has no connectivity.

    Parameters
    ----------
    directories : iterable of path
        Directories with ``<Mesh>-<Participant>.<rank>_init.csv``.
    configuration : Configuration
        The case, which says what meshes there are and who provides them.

    Returns
    -------
    dict of str to PartitionedMesh
        Provided meshes by name.

    Raises
    ------
    DataError
        If a directory has no exports of the case, a rank is missing, or a file is not such an export.
    """
    exports: dict[str, dict[int, Path]] = defaultdict(dict)
    places = [Path(path) for path in directories]
    providers = configuration.providers
    stems = {f"{mesh}-{who}": mesh for mesh, who in providers.items()}
    for place in places:
        if not place.is_dir():
            raise DataError(
                f"{place}: expected a directory of <export:csv>, found none; name the one in the configuration"
            )
        for path in sorted(place.iterdir()):
            match = _EXPORT.fullmatch(path.name)
            mesh = stems.get(match["stem"]) if match else None
            if match and mesh:
                rank = int(match["rank"] or 0)
                # The first export of a rank is as good as any: received meshes do not move.
                if match["time"] == "init" or rank not in exports[mesh]:
                    exports[mesh][rank] = path
    if not exports:
        raise DataError(
            f"{', '.join(map(str, places))}: expected exports of {', '.join(f'{stem}.0_init.csv' for stem in stems)}, "
            'found none; add <export:csv directory="…"/> to the participants, or give the configuration of this case'
        )
    return {
        mesh: _read_ranks(mesh, providers[mesh], files, configuration.meshes[mesh].dimensions)
        for mesh, files in exports.items()
    }


def _read_ranks(mesh: str, participant: str, files: Mapping[int, Path], dimensions: int) -> PartitionedMesh:
    ranks = max(files) + 1
    missing = sorted(set(range(ranks)) - set(files))
    where = next(iter(files.values())).parent
    if missing:
        raise DataError(
            f'{where}: expected exports of mesh "{mesh}" of ranks 0 to {ranks - 1}, found none of rank {missing[0]}; '
            "copy the files of all ranks"
        )
    parts = [_read_csv(files[rank], dimensions) for rank in range(ranks)]
    rank_of = np.repeat(np.arange(ranks), [len(part) for part in parts])
    return make_mesh(mesh, participant, np.concatenate(parts), rank_of, ranks, source=str(where))


def _read_csv(path: Path, dimensions: int) -> Floats:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    header = lines[0].split(";") if lines else []
    wanted = ["PosX", "PosY", "PosZ"][:dimensions]
    if header[: dimensions + 1] != [*wanted, "Rank"]:
        raise DataError(
            f"{path}: expected the columns {';'.join([*wanted, 'Rank'])} of an export in {dimensions} dimensions, "
            f"found {';'.join(header[:4]) or 'an empty file'}; give the exports of this case"
        )
    if not lines[1:]:
        return np.empty((0, dimensions))
    try:
        return np.loadtxt(lines[1:], delimiter=";", usecols=range(dimensions), ndmin=2)
    except ValueError as error:
        raise DataError(
            f"{path}: expected {dimensions} coordinates in each line, found: {error} (row 0 is line 2)"
        ) from None


def read_mesh_files(name: str, participant: str, files: Iterable[str | Path], dimensions: int) -> PartitionedMesh:
    """Read a mesh from files of any format that meshio knows.

    Parameters
    ----------
    name, participant : str
        The mesh, and the participant that provides it.
    files : iterable of path
        One file per rank, in the order of ranks.
    dimensions : int
        Space dimensions of the mesh; a third coordinate of a flat mesh is dropped.

    Returns
    -------
    PartitionedMesh
        With edges, triangles and tetrahedra where the files have them.

    Raises
    ------
    DataError
        If meshio is not installed or cannot read a file.
    """
    paths = [Path(path) for path in files]
    read = [read_meshio(path) for path in paths]
    points = [np.asarray(mesh.points, dtype=float) for mesh in read]
    for path, some in zip(paths, points, strict=True):
        if some.shape[1] < dimensions:
            raise DataError(
                f"{path}: expected points in {dimensions} dimensions, found {some.shape[1]}; give a mesh of this case"
            )
    counts = [len(some) for some in points]
    cells: dict[str, list[Integers]] = {}
    for mesh, start in zip(read, np.cumsum([0, *counts[:-1]]), strict=True):
        for block in mesh.cells:
            if block.type in _MESHIO_CELLS:
                cells.setdefault(_MESHIO_CELLS[block.type], []).append(np.asarray(block.data, np.int64) + start)
    return make_mesh(
        name,
        participant,
        np.concatenate(points)[:, :dimensions],
        np.repeat(np.arange(len(read)), counts),
        len(read),
        cells={kind: np.concatenate(arrays) for kind, arrays in cells.items()},
        source=", ".join(map(str, paths[:1])) + (" …" if len(paths) > 1 else ""),
    )


Run = Sequence[Sequence[RankFile]]


def read_store_meshes(
    sources: Iterable[str | Path],
) -> tuple[Configuration, dict[str, PartitionedMesh], dict[str, Floats]]:
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
    return meshes_of_run(read_runs(sources)[-1])


def run_with_meshes(sources: Iterable[str | Path], ranks: Mapping[str, int]) -> Run | None:
    """Find the recorded run that tells most about some numbers of ranks; None if no run has kept any meshes.

    Of the runs with all participants it is the last one with these ranks, or else the last one that kept coordinates,
    or else the last one with boxes.
    """
    paths = find_stores(sources)
    # Soon seen where there is none.
    recorded = any(len(store.rows("meshes")) for path in paths for store in read_file(path))
    best: Run | None = None
    best_score = (False, False)
    for run in read_runs(paths) if recorded else ():
        first_rows = [_first_rows(group) for group in run]
        if {_name(group) for group in run} == set(ranks) and any(map(len, first_rows)):
            same = all(int(group[0].metadata["size"]) == ranks[_name(group)] for group in run)
            score = (same, all(rows["coordinates"].all() for rows in first_rows))
            if score >= best_score:
                best, best_score = run, score
    return best


def meshes_of_run(run: Run) -> tuple[Configuration, dict[str, PartitionedMesh], dict[str, Floats]]:
    """Read the configuration, the provided meshes by name, and the access regions by received mesh of a recorded run.

    A region has shape (ranks, dimensions, 2), NaN for a rank that set none.
    """
    configuration = parse_configuration(run[0][0].configuration)
    providers = configuration.providers
    meshes: dict[str, PartitionedMesh] = {}
    regions: dict[str, Floats] = {}
    for stores in run:
        participant, size, place = _name(stores), int(stores[0].metadata["size"]), str(stores[0].directory)
        missing = sorted(set(range(size)) - {int(store.metadata["rank"]) for store in stores})
        if missing:
            raise DataError(
                f"{place}: expected stores of all {size} ranks of {participant}, found none of rank {missing[0]}; copy "
                "the stores of all ranks"
            )
        recorded = recorded_meshes(*stores)
        provided = [mesh for mesh, who in providers.items() if who == participant]
        if not len(recorded.rows) and provided:
            raise DataError(f"{place}: expected the meshes of {participant}, {_why_none(stores[0])}")
        # Whoever has a mesh of which no rank has a vertex named it all the same, or not at all.
        for number, name in enumerate([*recorded.names, *(mesh for mesh in provided if mesh not in recorded.names)]):
            rows = np.flatnonzero(recorded.rows["name"] == number)
            known = configuration.meshes.get(name)
            if known is None or (recorded.rows["dimensions"][rows] != known.dimensions).any():
                raise DataError(
                    f'{place}: expected meshes of the configuration, in its dimensions, found another "{name}"; record '
                    "the run again"
                )
            if providers.get(name) == participant:
                meshes[name] = _mesh(name, participant, recorded, rows, known.dimensions, size, place)
            else:
                regions[name] = _boxes(recorded.rows[rows], known.dimensions, size, "region_")
    return configuration, meshes, regions


def _why_none(store: RankFile) -> str:
    """Say why a participant has no meshes in its stores, and what to do."""
    if store.is_imported:
        return (
            "found its stores imported from preCICE's profiling files, which hold none; add "
            '<export:csv directory="…"/> to every participant, run again, and give precice-lb partners that directory '
            "and --config"
        )
    return "found none recorded; record the run again, without PRECICE_LB_MESHES=0"


def _name(group: Sequence[RankFile]) -> str:
    return str(group[0].metadata["participant"])


def _first_rows(group: Sequence[RankFile]) -> NDArray[np.void]:
    """Return what the first rank says that has any mesh: others may be off the interface."""
    tables = (rows for rows in (recorded_meshes(store).rows for store in group) if len(rows))
    return next(tables, MESHES.empty())


def _boxes(rows: NDArray[np.void], dimensions: int, size: int, prefix: str = "") -> Floats:
    boxes = np.full((size, dimensions, 2), np.nan)
    for axis, sides in enumerate(box_names(prefix)[:dimensions]):
        for side, column in enumerate(sides):
            boxes[rows["rank"], axis, side] = rows[column]
    return boxes


def _mesh(
    name: str, participant: str, recorded: RecordedMeshes, rows: Integers, dimensions: int, size: int, source: str
) -> PartitionedMesh:
    mine = recorded.rows[rows]
    counts = np.zeros(size, np.int64)
    counts[mine["rank"]] = mine["vertices"]
    boxes = _boxes(mine, dimensions, size)
    if not np.isfinite(boxes[counts > 0]).all():
        raise DataError(f'{source}: expected finite coordinates of mesh "{name}" of {participant}, found others')
    if not mine["coordinates"].all():
        return PartitionedMesh(name, participant, counts, boxes, None, {}, source)
    starts = recorded.coordinate_starts
    parts = [recorded.coordinates[starts[row] : starts[row + 1]] for row in rows]
    coordinates = np.concatenate([np.empty(0), *parts]).reshape(-1, dimensions)
    ranks = np.repeat(mine["rank"], mine["vertices"])
    return make_mesh(name, participant, coordinates, ranks, size, cells=_cells(recorded, rows), source=source)


def _cells(recorded: RecordedMeshes, rows: Integers) -> dict[str, Integers]:
    """Cells by kind, as positions in the whole mesh."""
    starts, offset = recorded.cell_starts, 0
    cells = {kind: [np.empty((0, corners), np.int64)] for kind, corners in CELL_VERTICES.items()}
    for row in rows:
        begin = int(starts[row])
        for kind, corners in CELL_VERTICES.items():
            end = begin + int(recorded.rows[kind][row]) * corners
            cells[kind].append(recorded.cells[begin:end].astype(np.int64).reshape(-1, corners) + offset)
            begin = end
        offset += int(recorded.rows["vertices"][row])
    return {kind: np.concatenate(parts) for kind, parts in cells.items()}
