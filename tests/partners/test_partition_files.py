"""Partitions that users give: files of one rank per vertex, as text or as numpy writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pickle_helpers import TouchesWhenLoaded

from precice_lb.exceptions import DataError
from precice_lb.partners import PartitionedMesh, make_mesh, read_partition


def mesh_of_three() -> PartitionedMesh:
    """Make a mesh of three vertices on one rank."""
    return make_mesh("Mesh", "A", [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], [0, 0, 0], 1)


@pytest.mark.parametrize("suffix", [".txt", ".npy"])
def test_a_partition_says_the_rank_of_each_vertex(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"partition{suffix}"
    ranks = np.array([1, 0, 1])
    if suffix == ".npy":
        np.save(path, ranks)
    else:
        path.write_text("1\n0\n1\n")

    # One vertex on rank 0, two on rank 1.
    assert read_partition(path, mesh_of_three(), 2).counts.tolist() == [1, 2]


@pytest.mark.parametrize("ranks", [[0, 1], [0, 1, 2], [0, 1, -1]], ids=["too few", "too high", "negative"])
def test_a_partition_of_another_length_or_with_other_ranks_is_refused(ranks: list[int], tmp_path: Path) -> None:
    path = tmp_path / "partition.npy"
    np.save(path, np.array(ranks))

    with pytest.raises(DataError, match=r"expected .* found"):
        read_partition(path, mesh_of_three(), 2)


def test_a_pickled_object_is_refused_and_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "partition.npy"
    marker = tmp_path / "loaded"
    np.save(path, np.array([TouchesWhenLoaded(marker)] * 3), allow_pickle=True)

    with pytest.raises(DataError, match=r"partition\.npy: expected one rank per line, found: Object arrays cannot"):
        read_partition(path, mesh_of_three(), 2)
    assert not marker.exists()
