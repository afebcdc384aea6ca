"""A file that is read while it grows: so many rows at once, each once, and why nothing can be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_helpers import PARALLEL, START, metadata, row, rows
from test_hostile_stores import fill

from precice_lb.store import StoreWriter, Tail


def test_a_file_that_no_longer_changes_is_read_to_its_end_by_pieces(tmp_path: Path) -> None:
    (path,) = fill(tmp_path, 1)
    tail = Tail(path, most=4)
    seen = []
    for _ in range(3):
        seen.append((tail.read()["window"].tolist(), tail.has_more))
    assert seen == [([1, 2, 3, 4], True), ([5, 6], False), ([], False)]


def test_a_spool_that_no_longer_changes_is_read_to_its_end_by_pieces(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path, metadata(), PARALLEL)
    for window in range(1, 6):
        writer.append(rows([row(window, 0.1, 0.1, 0.0)]))
    tail = Tail(writer.path, most=2)
    assert [tail.read()["window"].tolist() for _ in range(4)] == [[1, 2], [3, 4], [5], []]
    writer.append(rows([row(6, 0.1, 0.1, 0.0)]))
    assert tail.read()["window"].tolist() == [6]
    # Made HDF5 in the meantime, it is read on.
    writer.append(rows([row(7, 0.1, 0.1, 0.0)]))
    writer.close(finished=True, ended_unix_ns=START)
    assert [tail.read()["window"].tolist() for _ in range(2)] == [[7], []]
    assert tail.state == "ended"


@pytest.mark.parametrize("name", ["A-0-1.h5", "A-0-1.spool"])
def test_why_a_file_cannot_be_read_is_said_with_its_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"damaged")
    tail = Tail(path)
    assert len(tail.read()) == 0
    assert tail.head is None
    assert tail.problem.startswith(f"{path}: expected a s")
