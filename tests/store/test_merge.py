"""Merging: nothing is lost or counted twice, whatever interrupts it, and reading stays lazy."""

from __future__ import annotations

import dataclasses
import os
import pickle
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import FULL_COUNTS
from hypothesis import given
from hypothesis import strategies as st
from store_helpers import PARALLEL, SERIAL, metadata, row, rows, write_store
from store_helpers import contents as content_of

from precice_lb.dataset import load_runs
from precice_lb.exceptions import StoreError
from precice_lb.store.combine import DraftFile, MergedWriter
from precice_lb.store.merge import merge_stores
from precice_lb.store.merged import MergedStore, aligned_columns
from precice_lb.store.metadata import METADATA
from precice_lb.store.reader import find_stores, read_runs, read_store, read_stores
from precice_lb.store.records import RankStore
from precice_lb.store.schema import (
    ADVANCE_DTYPE,
    COUNT_DTYPE,
    GUESS_DTYPE,
    INITIALIZE_DTYPE,
    MPI_DTYPE,
    SECTION_DTYPE,
    case_fingerprint,
)
from precice_lb.store.writer import StoreWriter

SERIAL_CASE = {"configuration": SERIAL, "case": case_fingerprint(SERIAL)}


def fill(directory: Path, participant: str = "A", ranks: int = 4, windows: int = 20, **more: object) -> None:
    for rank in range(ranks):
        generator = np.random.default_rng(rank)
        write_store(
            directory,
            [row(w, *generator.uniform(0.01, 0.02, 2), 0.001 * generator.uniform()) for w in range(1, windows + 1)],
            participant,
            rank,
            ranks,
            hostname=f"node{rank // 2}",
            **more,
        )


def contents(directory: Path) -> dict[tuple[str, int, int, int], object]:
    """What every rank recorded, independent of the files."""
    found = {}
    for store in read_stores([directory]):
        data = store.metadata
        key = data["participant"], data["rank"], data["size"], data["attempt"]
        assert key not in found
        found[key] = content_of(store)
    return found


def by_rank(directory: Path) -> list[RankStore]:
    """Read all stores, sorted by participant and rank."""
    return sorted(read_stores([directory]), key=lambda store: (store.metadata["participant"], store.metadata["rank"]))


def files(directory: Path) -> list[str]:
    return sorted(
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    )


def test_one_file_per_participant_holds_what_the_parts_held(tmp_path: Path) -> None:
    more = {"degrees_of_freedom": {"A": 1e6}, "parameters": {"order": [1, 2]}, "run": "r", "receives_data": True}
    fill(tmp_path, "A", 5, **more)
    fill(tmp_path, "B", 1, **more)
    before, stores = contents(tmp_path), by_rank(tmp_path)
    old = load_runs([tmp_path])
    merged = merge_stores(tmp_path)
    assert [path.name for path in merged] == ["A-5.merged.h5", "B-1.merged.h5"]
    assert files(tmp_path) == ["A-5.merged.h5", "B-1.merged.h5"]
    assert not any(path.is_dir() for path in tmp_path.iterdir())
    assert contents(tmp_path) == before
    for one, other in zip(stores, by_rank(tmp_path), strict=True):
        assert one.metadata == other.metadata
        assert one.configuration == other.configuration
        assert one.interval_unix_ns == other.interval_unix_ns
        np.testing.assert_array_equal(one.advances, other.advances)
        np.testing.assert_array_equal(one.initialize, other.initialize)
        assert other.advances.dtype == ADVANCE_DTYPE
    ((new,), (reference,)) = load_runs([tmp_path]), old
    for name in ("A", "B"):
        np.testing.assert_array_equal(
            new.participants[name].compute_seconds, reference.participants[name].compute_seconds
        )
    assert merge_stores(tmp_path) == []


def test_ranks_that_were_killed_earlier_differ_in_length(tmp_path: Path) -> None:
    for rank, count in enumerate([7, 0, 9]):
        data = metadata(rank=rank, size=3, hostname=platform.node(), pid=_dead_pid())
        writer = StoreWriter(tmp_path, data, PARALLEL)
        if rank != 1:
            writer.write_initialize(np.array([(500, 1000, -1, -1)], dtype=INITIALIZE_DTYPE))
        writer.append(rows(row(w, 0.1 + rank, 0.2, None) for w in range(1, count + 1)))
        # Left behind as by a kill.
        writer._spool.close()
    before = contents(tmp_path)
    merge_stores(tmp_path)
    assert contents(tmp_path) == before
    stores = by_rank(tmp_path)
    assert [len(store.advances) for store in stores] == [7, 0, 9]
    assert [len(store.initialize) for store in stores] == [1, 0, 1]
    assert aligned_columns(stores) is None
    columns = aligned_columns([stores[0], stores[2]])
    assert columns is not None
    assert columns.values["solve_ns"][:, 0].tolist() == [100_000_000, 2_100_000_000]
    assert columns.window.tolist() == list(range(1, 8))
    with h5py.File(find_stores([tmp_path])[0]) as file:
        assert file["advances/window"].shape == (1, 9)
        assert (file["advances/solve_ns"][0, 7:] == -1).all()


def _dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


_NS = st.integers(-(2**63), 2**63 - 1)
_ROW = st.tuples(
    st.integers(1, 2**62), st.integers(0, 2**31 - 1), _NS, _NS, _NS, _NS, _NS, st.floats(width=64), st.booleans()
)


@given(st.lists(st.lists(_ROW, max_size=5), min_size=1, max_size=4), st.integers(1, 3))
def test_any_rows_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, tables: list, block: int) -> None:
    path = tmp_path_factory.mktemp("merged") / "A-4.merged.h5"
    stores = [
        RankStore(
            Path("A-0-4.h5"),
            metadata(rank=rank, size=4, attempt=1, finished=True, pid=rank, parameters={"x": rank // 2}),
            PARALLEL + " " * (rank % 2),
            {
                "advances": np.array(table, dtype=ADVANCE_DTYPE),
                "initialize": np.array([(rank, 1, 2, -1)] * (rank % 2), dtype=INITIALIZE_DTYPE),
                "sections": np.array([(k, 1, 5, 6) for k in range(rank)], dtype=SECTION_DTYPE),
                "section_names": np.array([f"{rank}-{k}".encode() for k in range(rank)], dtype="S9"),
                "guesses": np.array([(k, k % 2, 5, k) for k in range(3 - rank)], dtype=GUESS_DTYPE),
                "guess_names": np.array([f"{rank % 2}".encode(), b"hold"][: 3 - rank], dtype="S9"),
                "counts": np.array([(k + 1, k, k / 3) for k in range(rank)], dtype=COUNT_DTYPE),
                "count_names": np.array([f"{(rank + k) % 3}".encode() for k in range(rank)], dtype="S9"),
                "mpi": np.array([(k + 1, 10 * rank + k) for k in range(3 - rank)], dtype=MPI_DTYPE),
            },
        )
        for rank, table in enumerate(tables)
    ]
    writer = MergedWriter(path, 1)
    for first in range(0, len(stores), block):
        some = stores[first : first + block]
        writer.add(some)
    writer.close()
    merged = MergedStore(path)
    for one, other, table in zip(stores, merged.stores, merged.tables(0, len(stores)), strict=True):
        assert one.metadata == other.metadata
        assert one.configuration == other.configuration
        assert one.advances.tobytes() == other.advances.tobytes() == table.tobytes()
        np.testing.assert_array_equal(one.initialize, other.initialize)
        named = [(other.section_names[section["name"]], *section.tolist()[1:]) for section in other.sections]
        assert named == [(one.section_names[section["name"]], *section.tolist()[1:]) for section in one.sections]
        assert content_of(one) == content_of(other)
    merged.check()
    merged.close()


def test_reading_by_rank(tmp_path: Path) -> None:
    fill(tmp_path, ranks=70, windows=30)
    ((ranks,),) = read_runs([tmp_path])
    whole = aligned_columns(ranks)
    assert whole is not None
    merge_stores(tmp_path)
    ((group,),) = read_runs([tmp_path])
    columns = aligned_columns([group[3], group[66], group[10]], ["wait_ns"])
    assert columns is not None
    assert columns.window.tolist() == list(range(1, 31))
    assert list(columns.values) == ["wait_ns"]
    np.testing.assert_array_equal(columns.values["wait_ns"], whole.values["wait_ns"][[3, 66, 10]])
    everything = aligned_columns(group)
    assert everything is not None
    for name, values in whole.values.items():
        np.testing.assert_array_equal(everything.values[name], values)
    np.testing.assert_array_equal(everything.window, whole.window)
    copy = pickle.loads(pickle.dumps(group[5]))
    np.testing.assert_array_equal(copy.advances, ranks[5].advances)
    np.testing.assert_array_equal(dataclasses.replace(group[5], metadata={}).advances, ranks[5].advances)


def test_reading_is_lazy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, ranks=3)
    merge_stores(tmp_path)
    asked: list[str] = []
    real = h5py.Dataset.__getitem__

    def logged(dataset: h5py.Dataset, *arguments: object, **more: object) -> object:
        asked.append(str(dataset.name))
        return real(dataset, *arguments, **more)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", logged)
    ((group,),) = read_runs([tmp_path])
    assert not [name for name in asked if name.startswith("/advances")]
    asked.clear()
    aligned_columns(group, ["wait_ns"])
    assert set(asked) == {f"/advances/{name}" for name in ("window", "iteration", "window_complete", "wait_ns")}


def test_what_was_measured_beside_the_stores_is_merged_too(tmp_path: Path) -> None:
    fill(tmp_path, ranks=3)

    def complete(stores: Sequence[RankStore]) -> Sequence[RankStore]:
        done = []
        for store in stores:
            advances = store.advances.copy()
            advances["wait_ns"] = 7
            done.append(store.having({"timing_source": "x"}, advances=advances))
        return done

    assert len(merge_stores(tmp_path, complete=complete)) == 1
    assert len(find_stores([tmp_path])) == 1
    for store in read_stores([tmp_path]):
        assert store.metadata["timing_source"] == "x"
        assert (store.advances["wait_ns"] == 7).all()


def test_sections_keep_their_names_where_ranks_began_with_others(tmp_path: Path) -> None:
    for rank, names in enumerate((["solve", "output"], ["output", "solve"])):
        writer = StoreWriter(tmp_path, metadata("A", rank, 2), PARALLEL)
        sections = np.array([(0, 1, 7, 1), (1, 1, 9, 1)], dtype=SECTION_DTYPE)
        writer.append(rows([row(1, 0.01, 0.02, 0.001)]), sections, names)
        writer.close(finished=True, ended_unix_ns=metadata("A")["started_unix_ns"] + 10**9)
    merge_stores(tmp_path)
    for store, first in zip(by_rank(tmp_path), ("solve", "output"), strict=True):
        began = {store.section_names[each["name"]]: each["begin_ns"] for each in store.sections}
        assert began == ({"solve": 7, "output": 9} if first == "solve" else {"output": 7, "solve": 9})


def test_guesses_are_merged_and_a_file_merged_without_them_is_read(tmp_path: Path) -> None:
    planted = [(w, ("hold", "reduced")[(w > 2) ^ (w == 4)], 1e-6 * w, 0.1 * w) for w in range(1, 6)]
    calls = [row(w, 0.01, 0.02, 0.001) for w in range(1, 6)]
    for rank, guesses in enumerate((planted, [], planted[2:])):
        write_store(tmp_path, calls, rank=rank, size=3, guesses=guesses, guess="auto")
    before = contents(tmp_path)
    (path,) = merge_stores(tmp_path)
    assert contents(tmp_path) == before
    ranks = by_rank(tmp_path)
    assert [len(store.guesses) for store in ranks] == [5, 0, 3]
    last = ranks[2]
    assert [last.guess_names[each["name"]] for each in last.guesses] == ["reduced", "hold", "reduced"]
    assert last.guesses["cost_ns"].tolist() == [3000, 4000, 5000]
    (tmp_path / "earlier").mkdir()
    earlier = shutil.copy(path, tmp_path / "earlier")
    with h5py.File(earlier, "a") as file:
        for name in ("guesses", "guess_names", "guess_starts"):
            del file[name]
    assert [(len(store.guesses), store.guess_names) for store in MergedStore(earlier).stores] == [(0, ())] * 3


def test_parts_can_be_kept_and_are_not_counted_twice(tmp_path: Path) -> None:
    fill(tmp_path, ranks=3)
    before, names = contents(tmp_path), files(tmp_path)
    merge_stores(tmp_path, remove=False)
    assert files(tmp_path) == sorted([*names, "A-3.merged.h5"])
    assert contents(tmp_path) == before
    assert len(load_runs([tmp_path])) == 1
    assert [path.name for path in merge_stores(tmp_path)] == ["A-3.merged.h5"]
    assert files(tmp_path) == ["A-3.merged.h5"]
    assert contents(tmp_path) == before


def test_a_rank_with_more_windows_than_its_merged_copy_is_kept(tmp_path: Path) -> None:
    """As where the directory was copied and merged while the run went on."""
    table = [row(window, 0.1 + 0.001 * window, 0.2, 0.1) for window in range(1, 31)]
    write_store(tmp_path / "copy", table[:20])
    (merged,) = merge_stores(tmp_path / "copy")
    whole = write_store(tmp_path / "store", table)
    merged.rename(tmp_path / "store" / merged.name)
    merge_stores(tmp_path / "store")
    (store,) = read_stores([tmp_path / "store"])
    assert len(store.advances) == 30
    assert not whole.exists()


def test_a_second_run_in_the_same_directory_gets_its_own_file(tmp_path: Path) -> None:
    fill(tmp_path)
    merge_stores(tmp_path)
    fill(tmp_path, started_unix_ns=metadata()["started_unix_ns"] + 10**12)
    assert [path.name for path in merge_stores(tmp_path)] == ["A-4.2.merged.h5"]
    assert len(read_stores([tmp_path])) == 8
    assert len(load_runs([tmp_path])) == 2


def test_ranks_that_come_later_are_joined_with_those_merged(tmp_path: Path) -> None:
    fill(tmp_path, ranks=4)
    aside = [path for path in find_stores([tmp_path]) if path.name.startswith(("A-1-", "A-2-"))]
    for path in aside:
        path.rename(tmp_path / f"{path.name}.aside")
    merge_stores(tmp_path)
    for path in aside:
        path.parent.mkdir(exist_ok=True)
        (tmp_path / f"{path.name}.aside").rename(path)
    merge_stores(tmp_path)
    assert files(tmp_path) == ["A-4.2.merged.h5", "A-4.merged.h5"]
    ((group,),) = read_runs([tmp_path])
    assert [store.metadata["rank"] for store in group] == [0, 1, 2, 3]
    assert aligned_columns(group) is not None


def test_nothing_above_the_directory_given_is_touched(tmp_path: Path) -> None:
    """A directory named like those that earlier versions made: it was taken for one of them."""
    for name in ("01", "28", "A-2"):
        runs = tmp_path / f"in {name}"
        fill(runs / "made", ranks=2)
        (runs / name).mkdir()
        for path in find_stores([runs / "made"]):
            path.rename(runs / name / path.name)
        assert [path.parent for path in merge_stores(runs / name)] == [runs / name]
        assert files(runs) == [f"{name}/A-2.merged.h5"]


def test_spools_and_hdf5_files_of_one_participant_are_merged(tmp_path: Path) -> None:
    fill(tmp_path, ranks=2)
    for rank, ended in ((2, True), (3, False)):
        writer = StoreWriter(tmp_path, metadata(rank=rank, size=4), PARALLEL, keep_spool=True)
        writer.append(rows(row(w, 0.1, 0.2, 0.0) for w in range(1, 21)))
        if ended:
            writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"] + 10**10)
        writer._spool.close()
    before = contents(tmp_path)
    with pytest.raises(StoreError, match="host None did not close it"):
        merge_stores(tmp_path)
    merge_stores(tmp_path, force=True)
    assert files(tmp_path) == ["A-2.merged.h5", "A-4.merged.h5"]
    assert contents(tmp_path) == before


def test_each_store_directory_is_merged_on_its_own(tmp_path: Path) -> None:
    for name in ("fluid/store", "solid/store"):
        fill(tmp_path / name, name[:1].upper(), 2)
    (tmp_path / "fluid" / "solution.h5").write_bytes(b"not ours")
    merge_stores(tmp_path)
    assert files(tmp_path) == ["fluid/solution.h5", "fluid/store/F-2.merged.h5", "solid/store/S-2.merged.h5"]


def test_a_participant_that_still_writes_is_refused_and_others_are_merged(tmp_path: Path) -> None:
    fill(tmp_path, "A", 2)
    fill(tmp_path, "B", 2)
    own = {"hostname": platform.node(), "pid": os.getpid(), "started_unix_ns": time.time_ns()}
    writer = StoreWriter(tmp_path, metadata("B", 0, 3, **own), PARALLEL)
    with pytest.raises(StoreError, match=rf"participant 'B' to have ended, found that process {os.getpid()} still"):
        merge_stores(tmp_path)
    part = writer.path.relative_to(tmp_path).as_posix()
    assert files(tmp_path) == sorted(["A-2.merged.h5", "B-2.merged.h5", part])
    writer.append(rows([row(1, 0.1, 0.2, 0.0)]))
    writer.close(finished=True, ended_unix_ns=time.time_ns())
    assert [path.name for path in merge_stores(tmp_path)] == ["B-3.merged.h5"]
    assert len(read_stores([tmp_path])) == 5


def test_a_dead_process_and_a_reused_number_do_not_write(tmp_path: Path) -> None:
    for rank, (pid, started) in enumerate([(_dead_pid(), 0), (os.getpid(), -(10**18))]):
        data = metadata(rank=rank, size=2, hostname=platform.node(), pid=pid)
        data["started_unix_ns"] += started
        StoreWriter(tmp_path, data, PARALLEL)._spool.close()
    assert len(merge_stores(tmp_path)) == 2


def test_on_another_host_silence_tells(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path, metadata(hostname="elsewhere", pid=1), PARALLEL)
    table = rows([row(1, 0.1, 0.2, 0.0), row(2, 0.1, 0.2, 0.0)])
    table["begin_ns"] = 0, 100 * 10**9
    writer.append(table)
    writer._spool.close()
    with pytest.raises(StoreError, match=r"host elsewhere did not close it and wrote to it \d+ s ago; merge when"):
        merge_stores(tmp_path)
    for seconds, merged in ((4000, 0), (13000, 1)):
        os.utime(writer.path, times=(time.time(), time.time() - seconds))
        if not merged:
            with pytest.raises(StoreError, match="did not close"):
                merge_stores(tmp_path)
    assert len(merge_stores(tmp_path)) == 1


def test_force_merges_what_looks_alive(tmp_path: Path) -> None:
    StoreWriter(tmp_path, metadata(hostname="elsewhere", pid=1), PARALLEL)._spool.close()
    assert len(merge_stores(tmp_path, force=True)) == 1


def test_a_part_that_changes_meanwhile_is_neither_merged_nor_removed(tmp_path: Path) -> None:
    fill(tmp_path, ranks=2)
    names = files(tmp_path)

    def touch(stores: Sequence[RankStore]) -> Sequence[RankStore]:
        os.utime(stores[1].path, times=(1, 1))
        return stores

    with pytest.raises(StoreError, match="found it changed while it was merged"):
        merge_stores(tmp_path, complete=touch)
    assert files(tmp_path) == names


def test_two_merges_at_once_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, ranks=2)
    refusals: list[str] = []

    def again(stores: Sequence[RankStore]) -> Sequence[RankStore]:
        try:
            merge_stores(tmp_path)
        except StoreError as error:
            refusals.append(str(error))
        return stores

    assert len(merge_stores(tmp_path, complete=again)) == 1
    assert len(refusals) == 1
    assert "found another at work" in refusals[0]


def test_a_merged_file_that_does_not_hold_its_parts_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, ranks=3)
    names, before = files(tmp_path), contents(tmp_path)
    real = MergedStore.tables

    def damaged(store: MergedStore, first: int, last: int) -> list[np.ndarray]:
        tables = real(store, first, last)
        tables[-1]["solve_ns"][3] += 1
        return tables

    monkeypatch.setattr(MergedStore, "tables", damaged)
    with pytest.raises(StoreError, match=r"found another content \(A-2-3.h5\); the rank files are kept"):
        merge_stores(tmp_path)
    monkeypatch.undo()
    assert files(tmp_path) == names
    merge_stores(tmp_path, remove=False)
    # A rank whose rows in a merged file are others stays.
    monkeypatch.setattr(MergedStore, "tables", damaged)
    with pytest.raises(StoreError, match="the rank files are kept"):
        merge_stores(tmp_path)
    monkeypatch.undo()
    assert files(tmp_path) == ["A-3.merged.h5", "A-3/A-2-3.h5"]
    assert contents(tmp_path) == before


def test_a_byte_that_the_disk_changes_keeps_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDF5's checksum tells, when the draft is read back and whenever it is read later."""
    fill(tmp_path, ranks=3)
    names = files(tmp_path)
    real = MergedWriter.close

    def spoil(path: Path) -> None:
        with h5py.File(path) as file:
            chunk = file["advances/solve_ns"].id.get_chunk_info(0)
        with path.open("r+b") as raw:
            raw.seek(chunk.byte_offset + chunk.size // 2)
            (byte,) = raw.read(1)
            raw.seek(-1, os.SEEK_CUR)
            raw.write(bytes([byte ^ 1]))

    def close(writer: MergedWriter) -> None:
        real(writer)
        spoil(writer.path)

    monkeypatch.setattr(MergedWriter, "close", close)
    with pytest.raises(StoreError, match="the rank files are kept: look at the disk"):
        merge_stores(tmp_path)
    monkeypatch.undo()
    assert files(tmp_path) == names
    (path,) = merge_stores(tmp_path)
    spoil(path)
    with pytest.raises(StoreError, match=f"{path.name}: expected rows with the checksums they were written with"):
        print(read_stores([tmp_path])[0].advances)


def test_a_directory_that_cannot_be_written_to_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, ranks=2)
    names = files(tmp_path)

    class Full(DraftFile):
        def write(self, data: memoryview) -> int:
            if self.tell() > 2000:
                self.failure = self.failure or OSError(28, os.strerror(28))
            return super().write(data)

    monkeypatch.setattr("precice_lb.store.combine.DraftFile", Full)
    with pytest.raises(StoreError, match="No space left on device; no rank file was removed"):
        merge_stores(tmp_path)
    monkeypatch.undo()
    assert files(tmp_path) == names


def test_what_cannot_be_merged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="expected a directory with store files"):
        merge_stores(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="found none"):
        merge_stores(tmp_path)
    fill(tmp_path, ranks=2)
    damaged = find_stores([tmp_path])[0]
    damaged.write_bytes(damaged.read_bytes()[:1000])
    names = files(tmp_path)
    with pytest.raises(StoreError, match=f"{damaged}: expected a store"):
        merge_stores(tmp_path)
    assert files(tmp_path) == names


@pytest.mark.parametrize("kind", ["text", "truncated", "version", "part"])
def test_what_is_no_merged_store_is_refused_with_its_name(tmp_path: Path, kind: str) -> None:
    fill(tmp_path, ranks=2)
    (path,) = merge_stores(tmp_path)
    expected = "expected a merged store"
    if kind == "text":
        path.write_text("nothing")
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:-500])
    elif kind == "version":
        with h5py.File(path, "a") as file:
            file.attrs["format_version"] += 1
        expected = "found 'precice-lb-merged' and 3"
    else:
        shutil.copy(write_store(tmp_path / "other", []), path)
        expected = "found 'precice-lb-store' and 1"
    with pytest.raises(StoreError) as caught:
        read_runs([path])
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_merged_file_is_not_the_store_of_a_rank(tmp_path: Path) -> None:
    fill(tmp_path, ranks=2)
    (path,) = merge_stores(tmp_path)
    with pytest.raises(StoreError, match="found 'precice-lb-merged'"):
        read_store(path)


# Runs a merge and kills itself before the n-th line that it executes in code that changes files. With -1 it runs to its
# end and tells when each line was executed for the first and for the last time.
_KILLED = """
import os, signal, sys
from pathlib import Path
from precice_lb.store.merge import merge_stores
import precice_lb.store.merge as module

room = str(Path(module.__file__).parent)
target = Path(sys.argv[1])
seen, first, last = 0, {}, {}

def trace(frame, event, argument):
    global seen
    path, name = os.path.split(frame.f_code.co_filename)
    if path != room or name not in ("merge.py", "files.py", "combine.py"):
        return None
    if event == "line":
        seen += 1
        first.setdefault((name, frame.f_lineno), seen)
        last[name, frame.f_lineno] = seen
        if seen == deadline:
            os.kill(os.getpid(), signal.SIGKILL)
    return trace

for line in sys.stdin:
    deadline = int(line)
    child = os.fork()
    if child == 0:
        sys.settrace(trace)
        merge_stores(target)
        sys.settrace(None)
        print(*sorted({*first.values(), *last.values()}), flush=True)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    print("killed" if os.WIFSIGNALED(status) else "ended", flush=True)
"""


def test_a_merge_killed_at_any_step_loses_nothing(tmp_path: Path) -> None:
    """Kill before every line of code, the first and the last time it runs (some of them unless counts are full)."""
    source, target = tmp_path / "source", tmp_path / "target"
    fill(source, "A", 2, windows=3)
    fill(source, "B", 1, windows=3)
    expected = contents(source)
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def attempt(deadline: int) -> list[str]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{deadline}\n")
        process.stdin.flush()
        answers = [process.stdout.readline().strip()]
        if answers[-1] not in ("killed", "ended"):
            answers.append(process.stdout.readline().strip())
        return answers

    shutil.copytree(source, target)
    lines, ended = attempt(-1)
    assert ended == "ended"
    assert files(target) == ["A-2.merged.h5", "B-1.merged.h5"]
    deadlines = [int(number) for number in lines.split()]
    assert len(deadlines) > 100
    half = set()
    for deadline in deadlines[:: 1 if FULL_COUNTS else len(deadlines) // 10]:
        shutil.rmtree(target)
        shutil.copytree(source, target)
        assert attempt(deadline) == ["killed"]
        assert contents(target) == expected
        half.add(len(find_stores([target])))
        merge_stores(target)
        assert files(target) == ["A-2.merged.h5", "B-1.merged.h5"]
        assert contents(target) == expected
    assert len(half) > 1
    process.stdin.close()
    process.stdout.close()
    assert process.wait() == 0


def test_merges_killed_again_and_again_lose_nothing(tmp_path: Path) -> None:
    """Kill a real process at random times, again and again, until a merge gets to its end."""
    fill(tmp_path, "A", 30, windows=50)
    expected = contents(tmp_path)
    generator = np.random.default_rng(1)
    command = f"from precice_lb.store.merge import merge_stores; print(); merge_stores({str(tmp_path)!r})"
    killed = 0
    while len(find_stores([tmp_path])) > 1 and killed < (50 if FULL_COUNTS else 4):
        process = subprocess.Popen(
            [sys.executable, "-uc", command],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(generator.uniform(0.0, 0.03 * (1 + killed)))
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()
        killed += 1
        assert contents(tmp_path) == expected
    merge_stores(tmp_path)
    assert files(tmp_path) == ["A-30.merged.h5"]
    assert contents(tmp_path) == expected


def test_many_merged_files_need_few_open_ones(tmp_path: Path) -> None:
    for number in range(35):
        fill(tmp_path / f"{number}", ranks=2, pid=number)
    merge_stores(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    stores = read_stores([tmp_path])
    assert len(stores) == 70
    tables = [store.advances for store in stores]
    assert len(os.listdir("/proc/self/fd")) - before <= 32
    assert len({table.tobytes() for table in tables}) == 2


def test_keys_of_a_later_version_are_kept_and_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cores of a rank, added within format 1, differ between ranks: an earlier reader knows no such key."""
    for rank, cpus in enumerate(("0-1", "2,4")):
        write_store(tmp_path, [row(1, 0.1, 0.1, 0.0)], "A", rank, 2, cpus=cpus)
        write_store(tmp_path, [row(1, 0.1, 0.1, 0.0)], "B", rank, 2, cpus="8-15")

    def found() -> list[str | None]:
        return [store.metadata.get("cpus") for run in read_runs([tmp_path]) for group in run for store in group]

    def earlier() -> list[str | None]:
        with monkeypatch.context() as before:
            before.delitem(METADATA, "cpus")
            return found()

    assert found() == ["0-1", "2,4", "8-15", "8-15"]
    assert earlier() == [None] * 4
    assert len(merge_stores(tmp_path)) == 2
    assert found() == ["0-1", "2,4", "8-15", "8-15"]
    assert earlier() == [None] * 4
