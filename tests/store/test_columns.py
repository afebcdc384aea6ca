"""Tables that a room registers, and columns that came later: in a spool, the file of a rank, and a merged copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_helpers import PARALLEL, START, metadata, row, rows

from precice_lb.export import export_merged
from precice_lb.store.columns import TABLES, register
from precice_lb.store.reader import read_stores
from precice_lb.store.records import RankFile
from precice_lb.store.spool import StoreWriter, _table_of


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever is registered is for one test."""
    before = dict(TABLES)
    _table_of.cache_clear()
    yield
    TABLES.clear()
    TABLES.update(before)
    _table_of.cache_clear()


def kinds(directory: Path, *, names: Iterable[list[str]] = ([], []), **tables: list[Any]) -> list[list[RankFile]]:
    """Two ranks with rows of two windows each, as spools, files of a rank, and merged; tables by rank."""
    for kind in ("spool", "rank"):
        for rank, texts in enumerate(names):
            writer = StoreWriter(directory / kind, metadata(rank=rank, size=2), PARALLEL, keep_spool=kind == "spool")
            more = {name: np.array(values[rank], TABLES[name].dtype) for name, values in tables.items()}
            writer.append(rows([row(w, 0.1 * w, 0.2, 0.1) for w in (1, 2)]), dict.fromkeys(tables, texts), **more)
            writer.close(finished=True, ended_unix_ns=START + 10**9)
    export_merged([directory / "rank"], directory / "merged")
    read = [sorted(read_stores([directory / kind]), key=by_rank) for kind in ("spool", "rank", "merged")]
    assert ["".join(store.path.suffixes[-2:]) for store, _ in read] == [".spool", ".h5", ".merged.h5"]
    return read


def by_rank(store: RankFile) -> int:
    return int(store.metadata["rank"])


def test_a_table_that_is_registered_is_found_everywhere(tmp_path: Path) -> None:
    register(
        "energy",
        ("window", "<i8", "1", "time window"),
        ("name", "<i4", "1", "device, as a position in `/energy_names`"),
        ("energy_j", "<f8", "J", "what it took"),
        names="energy_names",
    )
    planted, devices = [[(1, 0, 2.5), (2, 1, 3.5)], [(1, 0, 4.5)]], [["cpu", "gpu"], ["gpu"]]
    read = kinds(tmp_path, names=devices, energy=planted)
    for stores in read:
        for rank, store in enumerate(stores):
            energy = [(window, store.names("energy")[name], j) for window, name, j in store.rows("energy").tolist()]
            assert energy == [(window, devices[rank][name], j) for window, name, j in planted[rank]]
            assert store.advances["window"].tolist() == [1, 2]
    # Without the room that has it, files are read as if it were not there.
    del TABLES["energy"], TABLES["energy_names"]
    _table_of.cache_clear()
    for stores in read:
        for again in read_stores([store.path for store in stores]):
            assert again.loaded().advances["window"].tolist() == [1, 2]
