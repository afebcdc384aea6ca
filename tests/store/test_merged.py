"""One file per participant: it holds what the ranks' files hold, nothing else changes, and reading stays lazy."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import FULL_COUNTS
from hypothesis import given, settings
from hypothesis import strategies as st
from store_helpers import PARALLEL, contents, metadata, row, rows, write_store

from precice_lb.dataset import load_runs
from precice_lb.exceptions import DataError, StoreError
from precice_lb.export import export_merged
from precice_lb.guess import GUESSES
from precice_lb.store import COUNTS, INITIALIZE, MPI, SECTIONS, RankFile, StoreWriter, read_stores
from precice_lb.store.merged import merged_image, read_merged
from precice_lb.store.schema import METADATA


def fill(directory: Path, participant: str = "A", ranks: int = 4, windows: int = 20, **more: object) -> None:
    for rank in range(ranks):
        generator = np.random.default_rng(rank)
        table = [row(w, *generator.uniform(0.01, 0.02, 2), 0.001 * generator.uniform()) for w in range(1, windows + 1)]
        write_store(directory, table, participant, rank, ranks, hostname=f"node{rank // 2}", **more)


def by_rank(directory: Path) -> list[RankFile]:
    return sorted(read_stores([directory]), key=lambda store: (store.metadata["participant"], store.metadata["rank"]))


def everything(directory: Path) -> list[tuple[object, ...]]:
    return [contents(store) for store in by_rank(directory)]


def files(directory: Path) -> dict[str, bytes]:
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


def test_the_copy_holds_what_the_ranks_files_hold_and_these_stay(tmp_path: Path) -> None:
    source, target, again = (tmp_path / name for name in ("source", "merged", "again"))
    more = {"degrees_of_freedom": {"A": 1e6}, "parameters": {"order": [1, 2]}, "run": "r", "receives_data": True}
    fill(source, "A", 5, **more)
    fill(source, "B", 1, **more)
    before = files(source)
    written = export_merged([source], target)
    assert written == [target / "A-5.merged.h5", target / "B-1.merged.h5"]
    assert files(source) == before
    assert sorted(files(target)) == ["A-5.merged.h5", "B-1.merged.h5"]
    assert everything(target) == everything(source)
    assert by_rank(target)[0].interval_unix_ns == by_rank(source)[0].interval_unix_ns
    ((new,), (reference,)) = load_runs([target]), load_runs([source])
    for name in ("A", "B"):
        parts = (run.participants[name].compute_seconds for run in (new, reference))
        np.testing.assert_array_equal(*parts)
    # Given together each rank counts once, and is read where all are.
    assert everything(tmp_path) == everything(target)
    assert {store.path for store in by_rank(tmp_path)} == set(written)
    export_merged([target], again)
    assert files(again) == files(target)


_NS = st.integers(-1, 2**53)
_ROW = st.tuples(
    st.integers(1, 2**53), st.integers(0, 2**31 - 1), st.integers(0, 2**62), _NS, _NS, _NS, _NS, st.floats(width=64),
    st.booleans(),
)  # fmt: skip
_RANK = st.lists(_ROW, max_size=5, unique_by=lambda row: row[0]).map(sorted)


@given(st.lists(_RANK, min_size=1, max_size=4))
@settings(max_examples=1000 if FULL_COUNTS else 12)
def test_any_rows_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, tables: list) -> None:
    path = tmp_path_factory.mktemp("merged") / "A-4.merged.h5"
    stores = [
        RankFile(
            Path("A-0-4.h5"),
            metadata(rank=rank, size=4, attempt=1, finished=True, pid=rank, parameters={"x": rank // 2}),
            PARALLEL + " " * (rank % 2),
            {
                "advances": rows(table),
                "initialize": np.array([(rank, 1, 2, -1)] * (rank % 2), dtype=INITIALIZE.dtype),
                "sections": np.array([(k, 1, 5, 6) for k in range(rank)], dtype=SECTIONS.dtype),
                "section_names": np.array([f"{rank}-{k}".encode() for k in range(rank)], dtype="S9"),
                "guesses": np.array([(k + 1, k % 2, 5, k) for k in range(3 - rank)], dtype=GUESSES.dtype),
                "guess_names": np.array([f"{rank % 2}".encode(), b"hold"][: 3 - rank], dtype="S9"),
                "counts": np.array([(k + 1, k, k / 3) for k in range(rank)], dtype=COUNTS.dtype),
                "count_names": np.array([f"{(rank + k) % 3}".encode() for k in range(rank)], dtype="S9"),
                "mpi": np.array([(k + 1, 10 * rank + k) for k in range(3 - rank)], dtype=MPI.dtype),
            },
        )
        for rank, table in enumerate(tables)
    ]
    path.write_bytes(merged_image(stores))
    merged = read_merged(path)
    assert [contents(store) for store in merged] == [contents(store) for store in stores]


def test_store_directories_stay_apart(tmp_path: Path) -> None:
    """Two runs at the same time are told apart by them; two in one directory get a number."""
    for number, name in enumerate(("one/store", "two/store")):
        fill(tmp_path / "runs" / name, ranks=2, pid=number)
    fill(tmp_path / "runs" / "two" / "store", ranks=2, started_unix_ns=metadata()["started_unix_ns"] + 10**12)
    (tmp_path / "runs" / "two" / "solution.h5").write_bytes(b"not ours")
    export_merged([tmp_path / "runs" / name for name in ("one", "two")], tmp_path / "merged")
    expected = ["one/store/A-2.merged.h5", "two/store/A-2.2.merged.h5", "two/store/A-2.merged.h5"]
    assert sorted(files(tmp_path / "merged")) == expected
    assert len(load_runs([tmp_path / "merged"])) == 3


def test_of_a_participant_that_still_writes_the_copy_counts_as_far_as_it_goes(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "store", metadata("B", 0, 3), PARALLEL)
    for window in (1, 2):
        writer.append(rows([row(window, 0.1, 0.2, 0.0)]))
        if window == 1:
            assert len(export_merged([tmp_path / "store"], tmp_path / "merged")) == 1
    assert [len(store.advances) for store in by_rank(tmp_path / "merged")] == [1]
    assert [len(store.advances) for store in by_rank(tmp_path)] == [2]


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "store", ranks=2)
    real = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        real(path, content[:2000])
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DataError, match="No space left on device"):
        export_merged([tmp_path / "store"], tmp_path / "merged")
    assert files(tmp_path / "merged") == {}


def test_a_byte_that_the_disk_changes_is_seen(tmp_path: Path) -> None:
    fill(tmp_path / "store", ranks=3)
    (path,) = export_merged([tmp_path / "store"], tmp_path / "merged")
    with h5py.File(path) as file:
        chunk = file["advances/solve_ns"].id.get_chunk_info(0)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset + chunk.size // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match=f"{path.name}: expected a store .* cannot be read as one"):
        print(read_stores([path])[0].advances)


def test_keys_of_a_later_version_are_kept_and_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cores of a rank, added within format 1, differ between ranks: an earlier reader knows no such key."""
    for rank, cpus in enumerate(("0-1", "2,4")):
        write_store(tmp_path / "store", [row(1, 0.1, 0.1, 0.0)], "A", rank, 2, cpus=cpus)
        write_store(tmp_path / "store", [row(1, 0.1, 0.1, 0.0)], "B", rank, 2, cpus="8-15")
    export_merged([tmp_path / "store"], tmp_path / "merged")
    for place in ("store", "merged"):
        assert [store.metadata.get("cpus") for store in by_rank(tmp_path / place)] == ["0-1", "2,4", "8-15", "8-15"]
        with monkeypatch.context() as before:
            before.delitem(METADATA, "cpus")
            assert [store.metadata.get("cpus") for store in by_rank(tmp_path / place)] == [None] * 4


def test_a_column_in_which_all_ranks_agree_is_written_once(tmp_path: Path) -> None:
    for rank, solve in enumerate((0.1, 0.2, 0.1)):
        write_store(tmp_path / "store", [row(w, solve, 0.3, 0.0) for w in (1, 2)], "A", rank, 3)
    (path,) = export_merged([tmp_path / "store"], tmp_path / "merged")
    with h5py.File(path) as file:
        shapes = {name: column.shape for name, column in file["advances"].items()}
    assert shapes.pop("solve_ns") == (3, 2)
    assert set(shapes.values()) == {(1, 2)}
    assert [store.advances["solve_ns"].tolist() for store in read_merged(path)] == [
        [100_000_000] * 2,
        [200_000_000] * 2,
        [100_000_000] * 2,
    ]
