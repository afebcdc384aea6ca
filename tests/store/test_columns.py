"""Tables that a room registers, and columns that came later: in a spool, the file of a rank, and a merged copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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


def kinds(directory: Path, **more: object) -> dict[str, list[RankFile]]:
    """Two ranks with rows of two windows each, as spools, files of a rank, and merged."""
    found: dict[str, list[RankFile]] = {}
    for kind in ("spool", "rank"):
        for rank in range(2):
            writer = StoreWriter(directory / kind, metadata(rank=rank, size=2), PARALLEL, keep_spool=kind == "spool")
            writer.append(rows([row(w, 0.1 * w, 0.2, 0.1) for w in (1, 2)]), **more.get(str(rank), {}))  # type: ignore[call-overload]
            writer.close(finished=True, ended_unix_ns=START + 10**9)
    export_merged([directory / "rank"], directory / "merged")
    for kind, suffix in (("spool", ".spool"), ("rank", ".h5"), ("merged", ".merged.h5")):
        found[kind] = sorted(read_stores([directory / kind]), key=lambda store: int(store.metadata["rank"]))
        assert all(store.path.name.endswith(suffix) for store in found[kind])
    return found


def test_a_table_that_is_registered_is_found_everywhere(tmp_path: Path) -> None:
    table = register(
        "energy",
        ("window", "<i8", "1", "time window"),
        ("name", "<i4", "1", "device, as a position in `/energy_names`"),
        ("energy_j", "<f8", "J", "what it took"),
        names="energy_names",
    )
    planted = [[(1, 0, 2.5), (2, 1, 3.5)], [(1, 0, 4.5)]]
    devices = [["cpu", "gpu"], ["gpu"]]
    more = {
        str(rank): {"names": {"energy": devices[rank]}, "energy": np.array(planted[rank], table.dtype)}
        for rank in range(2)
    }
    found = kinds(tmp_path, **more)
    for stores in found.values():
        for rank, store in enumerate(stores):
            names = store.names("energy")
            read = [(window, names[name], energy) for window, name, energy in store.rows("energy").tolist()]
            assert read == [(window, devices[rank][name], energy) for window, name, energy in planted[rank]]
            assert store.advances["window"].tolist() == [1, 2]
    # Without the room that has it, files are read as if it were not there.
    del TABLES["energy"], TABLES["energy_names"]
    _table_of.cache_clear()
    for stores in found.values():
        for store in stores:
            again = next(each for each in read_stores([store.path]) if each.metadata["rank"] == store.metadata["rank"])
            assert again.loaded().advances["window"].tolist() == [1, 2]


def test_no_two_tables_are_called_or_look_the_same() -> None:
    with pytest.raises(ValueError, match="table mpi: expected a name and columns of its own"):
        register("mpi", ("window", "<i8", "1", "window"), ("other_ns", "<i8", "ns", "other"))
    with pytest.raises(ValueError, match="table other: expected"):
        register("other", ("window", "<i8", "1", "window"), ("mpi_ns", "<i8", "ns", "other"))
