"""Partitioned meshes of recorded runs."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.partners.meshes import PartitionedMesh
from precice_lb.precice_xml import Configuration, parse_configuration
from precice_lb.store.reader import RankStore, read_runs
from precice_lb.store.schema import store_filename

__all__ = ["read_store_meshes"]

_FORMAT_VERSION = 1


def read_store_meshes(
    sources: Iterable[str | Path],
) -> tuple[Configuration, dict[str, PartitionedMesh], dict[str, NDArray[np.float64]]]:
    """Read the meshes of the last recorded run.

    Parameters
    ----------
    sources : iterable of path
        Directories of stores; the run was recorded with ``PRECICE_LB_MESHES``.

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
        If there is no store.
    DataError
        If a rank is missing, has no meshes recorded, or their file is damaged.
    """
    places = [Path(each) for each in sources]
    run = read_runs(places)[-1]
    configuration = parse_configuration(run[0][0].configuration)
    providers = {mesh: who.name for who in configuration.participants.values() for mesh in who.provides}
    meshes: dict[str, PartitionedMesh] = {}
    regions: dict[str, NDArray[np.float64]] = {}
    for stores in run:
        participant, size = str(stores[0].metadata["participant"]), int(stores[0].metadata["size"])
        parts = _parts(stores, participant, size)
        for name in sorted({name for part in parts for name in part}):
            told = [part.get(name, {}) for part in parts]
            if providers.get(name) == participant:
                dimensions = configuration.meshes[name].dimensions
                meshes[name] = _mesh(name, participant, told, dimensions, str(stores[0].directory))
            elif any("region" in each for each in told):
                nothing = np.full((configuration.meshes[name].dimensions, 2), np.nan)
                regions[name] = np.stack([each.get("region", nothing) for each in told])
    return configuration, meshes, regions


def _parts(stores: Sequence[RankStore], participant: str, size: int) -> list[dict[str, dict[str, Any]]]:
    by_rank = {int(store.metadata["rank"]): store for store in stores}
    missing = [rank for rank in range(size) if rank not in by_rank]
    if missing:
        raise DataError(
            f"{stores[0].directory}: expected stores of all {size} ranks of {participant}, found none of rank "
            f"{missing[0]}; copy the stores of all ranks"
        )
    parts = []
    for rank in range(size):
        store = by_rank[rank]
        name = store_filename(participant, rank, size, int(store.metadata["attempt"]))
        parts.append(_read(store.directory / Path(name).with_suffix(".npz"), participant))
    return parts


def _read(path: Path, participant: str) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        raise DataError(
            f"{path}: expected the meshes of a rank of {participant}, found none; record the run with "
            "PRECICE_LB_MESHES=coordinates (or boxes, for level 1 alone)"
        )
    try:
        with path.open("rb") as raw, np.load(raw) as file:
            version = int(file["format_version"])
            if version != _FORMAT_VERSION:
                raise DataError(
                    f"{path}: expected format version {_FORMAT_VERSION}, found {version}; use a newer precice_lb"
                )
            told: dict[str, dict[str, Any]] = {}
            for number, name in enumerate(file["meshes"].tolist()):
                keys = [key for key in file.files if key.startswith(f"{number}.")]
                told[name] = {key.partition(".")[2]: file[key] for key in keys}
            return told
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: expected the meshes of a rank, found a damaged file ({error}); record again"
        ) from error


def _mesh(name: str, participant: str, told: list[dict[str, Any]], dimensions: int, source: str) -> PartitionedMesh:
    counts = np.array([int(each.get("count", 0)) for each in told], dtype=np.int64)
    nothing = np.full((dimensions, 2), np.nan)
    boxes = [each.get("box", nothing) for each in told]
    if any(box.shape != nothing.shape or np.isinf(box).any() for box in boxes):
        raise DataError(f'{source}: expected finite boxes of mesh "{name}" in {dimensions} dimensions, found others')
    points = [each["points"] for each in told if "points" in each]
    known = sum(len(each) for each in points) == counts.sum()
    coordinates = np.concatenate([np.empty((0, dimensions)), *points]) if known else None
    return PartitionedMesh(name, participant, counts, np.stack(boxes), coordinates, {}, source)
