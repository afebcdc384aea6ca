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
from precice_lb.ingest import read_meshio
from precice_lb.partners.meshes import Floats, Integers, PartitionedMesh, make_mesh
from precice_lb.store.columns import CELL_VERTICES, MESHES, RecordedMeshes, box_names, recorded_meshes
from precice_lb.store.reader import find_stores, read_file, read_runs
from precice_lb.store.records import RankFile
from precice_lb.text import checked_list

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
    places = [Path(path) for path in checked_list(directories, "directories", "paths", DataError)]
    stems = {f"{mesh}-{who}": mesh for mesh, who in configuration.providers.items()}
    for place in places:
        if not place.is_dir():
            raise DataError(
                f"{place}: expected a directory of <export:csv>, found none; name the one in the configuration"
            )
        for path in sorted(place.iterdir()):
            match = _EXPORT.fullmatch(path.name)
            if match and (mesh := stems.get(match["stem"])):
                # The first export of a rank is as good as any: received meshes do not move.
                rank = int(match["rank"] or 0)
                if match["time"] == "init" or rank not in exports[mesh]:
                    exports[mesh][rank] = path
    if not exports:
        raise DataError(
            f"{', '.join(map(str, places))}: expected exports of {', '.join(f'{stem}.0_init.csv' for stem in stems)}, "
            'found none; add <export:csv directory="…"/> to the participants, or give the configuration of this case'
        )
    meshes = {}
    for mesh, files in exports.items():
        ranks, where = max(files) + 1, str(next(iter(files.values())).parent)
        if absent := sorted(set(range(ranks)) - set(files)):
            raise DataError(
                f'{where}: expected exports of mesh "{mesh}" of ranks 0 to {ranks - 1}, found none of rank '
                f"{absent[0]}; copy the files of all ranks"
            )
        parts = [_read_csv(files[rank], configuration.meshes[mesh].dimensions) for rank in range(ranks)]
        rank_of = np.repeat(np.arange(ranks), [len(part) for part in parts])
        participant = configuration.providers[mesh]
        meshes[mesh] = make_mesh(mesh, participant, np.concatenate(parts), rank_of, ranks, source=where)
    return meshes


def _read_csv(path: Path, dimensions: int) -> Floats:
    header, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    wanted = ";".join(["PosX", "PosY", "PosZ"][:dimensions])
    if not header.startswith(f"{wanted};Rank"):
        raise DataError(
            f"{path}: expected the columns {wanted};Rank of an export in {dimensions} dimensions, found "
            f"{header[:40] or 'an empty file'}; give the exports of this case"
        )
    try:
        return (
            np.loadtxt(lines, delimiter=";", usecols=range(dimensions), ndmin=2) if lines else np.empty((0, dimensions))
        )
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
        Number of coordinates of a vertex of the mesh, 2 or 3. Of files with more, the last ones are left out.

    Returns
    -------
    PartitionedMesh
        With edges, triangles and tetrahedra where the files have them; other kinds of cells are left out.

    Raises
    ------
    DataError
        If meshio is not installed or cannot read a file, or if a file has too few coordinates.
    """
    points_by_rank: list[Floats] = []
    cells: dict[str, list[Integers]] = defaultdict(list)
    for path in map(Path, checked_list(files, "files", "paths", DataError)):
        mesh = read_meshio(path)
        if mesh.points.shape[1] < dimensions:
            raise DataError(
                f"{path}: expected points in {dimensions} dimensions, found {mesh.points.shape[1]}; give a mesh of "
                "this case"
            )
        vertices_before = sum(map(len, points_by_rank))
        points_by_rank.append(np.asarray(mesh.points[:, :dimensions], dtype=float))
        for block in mesh.cells:
            if block.type in _MESHIO_CELLS:
                cells[_MESHIO_CELLS[block.type]].append(np.asarray(block.data, np.int64) + vertices_before)
    ranks = len(points_by_rank)
    return make_mesh(
        name,
        participant,
        np.concatenate(points_by_rank),
        np.repeat(np.arange(ranks), [len(points) for points in points_by_rank]),
        ranks,
        cells={kind: np.concatenate(arrays) for kind, arrays in cells.items()},
        source=f"files of {name}",
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
        # What the first rank says that has any mesh: others may be off the interface.
        tables = [(recorded_meshes(store).rows for store in group) for group in run]
        rows = [next(filter(len, table), MESHES.empty()) for table in tables]
        sizes = ranks_of_run(run)
        if sizes.keys() == set(ranks) and any(map(len, rows)):
            score = (sizes == dict(ranks), all(table["coordinates"].all() for table in rows))
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
    for stores, (participant, size) in zip(run, ranks_of_run(run).items(), strict=True):
        place = str(stores[0].directory)
        missing = sorted(set(range(size)) - {int(store.metadata["rank"]) for store in stores})
        if missing:
            raise DataError(
                f"{place}: expected stores of all {size} ranks of {participant}, found none of rank {missing[0]}; copy "
                "the stores of all ranks"
            )
        recorded = recorded_meshes(*stores)
        provided = [mesh for mesh, who in providers.items() if who == participant]
        if not len(recorded.rows) and provided:
            why = "found none recorded; record the run again, without PRECICE_LB_MESHES=0"
            if stores[0].is_imported:
                why = (
                    "found its stores imported from preCICE's profiling files, which hold none; add <export:csv "
                    'directory="…"/> to every participant, run again, and give precice-lb partners that directory and '
                    "--config"
                )
            raise DataError(f"{place}: expected the meshes of {participant}, {why}")
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


def ranks_of_run(run: Run) -> dict[str, int]:
    """Ranks of a recorded run by participant."""
    return {str(group[0].metadata["participant"]): int(group[0].metadata["size"]) for group in run}


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
    offset = 0
    cells: dict[str, list[Integers]] = defaultdict(list)
    for row in rows:
        begin = int(recorded.cell_starts[row])
        for kind, corners in CELL_VERTICES.items():
            end = begin + int(recorded.rows[kind][row]) * corners
            cells[kind].append(recorded.cells[begin:end].astype(np.int64).reshape(-1, corners) + offset)
            begin = end
        offset += int(recorded.rows["vertices"][row])
    return {kind: np.concatenate(parts) for kind, parts in cells.items()}
