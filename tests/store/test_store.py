"""The store: what is written is read, whatever kills the writer, and foreign files are refused."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import FULL_COUNTS
from hypothesis import given
from hypothesis import strategies as st
from report_helpers import configuration, refused
from store_helpers import PARALLEL, metadata, row, rows, write_store

from precice_lb.dataset.windows import Ranks
from precice_lb.exceptions import StoreError
from precice_lb.export import export_merged
from precice_lb.guess.columns import GUESSES, PREFIX
from precice_lb.store import rank_file
from precice_lb.store.columns import ADVANCES, COUNTS, CPU, INITIALIZE, MPI, SECTIONS, TABLES
from precice_lb.store.reader import find_stores, read_runs, read_store
from precice_lb.store.schema import (
    METADATA,
    USER_KEYS,
    case_fingerprint,
    decode,
    encode,
    is_store_name,
    store_directory,
    store_filename,
    validate,
)
from precice_lb.store.spool import StoreWriter


def test_what_was_written_is_read(tmp_path: Path) -> None:
    more = {"degrees_of_freedom": {"A": 1e6}, "parameters": {"order": [1, 2]}, "run": "r", "warmup_windows": 3}
    path = write_store(tmp_path, [row(1, 0.1, 0.2, 0.05), row(2, 0.3, 0.4, None)], **more)
    store = read_store(path)
    assert path.relative_to(tmp_path).as_posix() == store_filename("A", 0, 1)
    np.testing.assert_array_equal(store.advances, rows([row(1, 0.1, 0.2, 0.05), row(2, 0.3, 0.4, None)]))
    assert store.advances["wait_ns"].tolist() == [50_000_000, -1]
    assert store.initialize["initialize_ns"].tolist() == [1000]
    assert store.configuration == PARALLEL
    assert store.metadata["finished"] is True
    assert {key: store.metadata[key] for key in more} == more
    assert store.interval_unix_ns[1] - store.interval_unix_ns[0] == 10_000_000_000
    with h5py.File(path) as file:
        units = json.loads(file["advances"].attrs["units"])
        assert units["wait_ns"] == "ns"
        assert set(units) == set(ADVANCES.dtype.names)
    columns = [column for table in TABLES.values() for column in table.columns]
    assert len(columns) > 40
    assert all(column.unit and column.description for column in columns)


def test_many_appends_over_several_chunks(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path, metadata(), PARALLEL)
    table = rows(row(window, window * 1e-6, 0, 0) for window in range(1, 3001))
    for start in range(0, 3000, 700):
        writer.append(table[start : start + 700])
        np.testing.assert_array_equal(read_store(writer.path).advances, table[: start + 700])
    writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"])
    np.testing.assert_array_equal(read_store(writer.path).advances, table)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    first = write_store(tmp_path, [row(1, 0.1, 0.2, 0.0)])
    second = write_store(tmp_path, [row(1, 0.3, 0.4, 0.0)])
    third = write_store(tmp_path, [])
    assert [path.name for path in (first, second, third)] == ["A-0-1.h5", "A-0-1.2.h5", "A-0-1.3.h5"]
    assert [read_store(path).metadata["attempt"] for path in (first, second, third)] == [1, 2, 3]
    assert read_store(first).advances["solve_ns"].tolist() == [100_000_000]
    assert sorted(path.name for path in tmp_path.rglob(".*")) == []


def test_two_writers_at_once_take_two_names(tmp_path: Path) -> None:
    one, two = StoreWriter(tmp_path, metadata(), PARALLEL), StoreWriter(tmp_path, metadata(), PARALLEL)
    assert one.path != two.path
    for writer in (one, two):
        writer.close(finished=False, ended_unix_ns=metadata()["started_unix_ns"])
    assert len(find_stores([tmp_path, one.path])) == 2


def test_a_spool_cut_at_any_byte_is_read_up_to_the_last_complete_block(tmp_path: Path) -> None:
    """Every byte of a spool with all kinds of blocks (every 17th unless counts are full)."""
    writer = StoreWriter(tmp_path, metadata(), PARALLEL, keep_spool=True)
    sizes = [writer.path.stat().st_size]
    writer.append(initialize=np.array([(500, 1000, 0, 0)], dtype=INITIALIZE.dtype))
    table = rows(row(window, window * 1e-6, 0, 0) for window in range(1, 130))
    names = [f"section {index}" for index in range(40)]
    sections = np.array([(k % 40, k + 1, k + 1, 1) for k in range(129)], dtype=SECTIONS.dtype)
    predictors = [f"predictor {index}" for index in range(20)]
    guesses = np.array([(k + 1, k % 20, 1000 + k, 0.5 + k) for k in range(129)], dtype=GUESSES.dtype)
    features = [f"feature {index}" for index in range(30)]
    counts = np.array([(k + 1, k % 30, k / 7) for k in range(129)], dtype=COUNTS.dtype)
    mpi = np.array([(k + 1, 10 * k) for k in range(129)], dtype=MPI.dtype)
    cpu = np.array([(k + 1, 20 * k) for k in range(129)], dtype=CPU.dtype)
    total = 0
    for count in (1, 1, 2, 4, 8, 16, 32, 1, 64):
        these = slice(total, total + count)
        known, counted = predictors[: total + count], features[: total + count]
        writer.append(
            table[these],
            {"sections": names[: total + count], "guesses": known, "counts": counted},
            sections=sections[these],
            guesses=guesses[these],
            counts=counts[these],
            mpi=mpi[these],
            cpu=cpu[these],
        )
        total += count
        sizes.append(writer.path.stat().st_size)
    writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"])
    whole = writer.path.read_bytes()
    flushed = dict(zip(sizes, (0, 1, 2, 4, 8, 16, 32, 64, 65, 129), strict=True))
    cut = tmp_path / "cut.spool"
    for size in {*range(sizes[0], len(whole) + 1, 1 if FULL_COUNTS else 17), *sizes, len(whole)}:
        cut.write_bytes(whole[:size])
        store = read_store(cut)
        assert len(store.advances) == max(rows for end, rows in flushed.items() if end <= size)
        np.testing.assert_array_equal(store.advances, table[: len(store.advances)])
        assert len(store.rows("sections")) >= len(store.advances)
        np.testing.assert_array_equal(store.rows("sections"), sections[: len(store.rows("sections"))])
        assert store.names("sections") == tuple(names[: len(store.names("sections"))])
        assert len(store.names("sections")) > max(store.rows("sections")["name"], default=-1)
        assert len(store.rows("guesses")) >= len(store.advances)
        np.testing.assert_array_equal(store.rows("guesses"), guesses[: len(store.rows("guesses"))])
        assert store.names("guesses") == tuple(predictors[: len(store.names("guesses"))])
        assert len(store.names("guesses")) > max(store.rows("guesses")["name"], default=-1)
        assert min(len(store.rows("counts")), len(store.rows("mpi")), len(store.rows("cpu"))) >= len(store.advances)
        np.testing.assert_array_equal(store.rows("counts"), counts[: len(store.rows("counts"))])
        np.testing.assert_array_equal(store.rows("mpi"), mpi[: len(store.rows("mpi"))])
        np.testing.assert_array_equal(store.rows("cpu"), cpu[: len(store.rows("cpu"))])
        assert store.names("counts") == tuple(features[: len(store.names("counts"))])
        assert len(store.names("counts")) > max(store.rows("counts")["name"], default=-1)
        assert store.metadata["finished"] is (size == len(whole))
    for size in range(0, sizes[0], 1 if FULL_COUNTS else 17):
        cut.write_bytes(whole[:size])
        with pytest.raises(StoreError, match=f"{cut.name}: expected a spool with a head, found none"):
            read_store(cut)


def test_a_spool_is_what_numpy_reads(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path, metadata(), PARALLEL, keep_spool=True)
    writer.append(rows([row(1, 0.1, 0.2, 0.0)]))
    with writer.path.open("rb") as file:
        head, advances = np.load(file), np.load(file)
        assert file.read() == b""
    assert json.loads(head["head"][0])["configuration"] == PARALLEL
    assert advances.dtype == ADVANCES.dtype


@pytest.mark.parametrize("keep", [False, True])
def test_the_spool_and_the_hdf5_file_hold_the_same(tmp_path: Path, keep: bool) -> None:
    more = {"degrees_of_freedom": {"A": 1e6}, "run": "r", "cpus": "0-1", "clock_resolution": 1e-9}
    writer = StoreWriter(tmp_path, metadata(**more), PARALLEL, keep_spool=keep)
    names, sections = ["\N{GREEK SMALL LETTER PSI}"], np.array([(0, 1, 2, 3)], SECTIONS.dtype)
    guesses = np.array([(1, 1, 7, np.nan)], GUESSES.dtype)
    texts = {"sections": names, "guesses": ["hold", "reduced"]}
    writer.append(rows([row(1, 0.1, 0.2, None)]), texts, sections=sections, guesses=guesses)
    writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"] + 5)
    assert [path.suffix for path in find_stores([tmp_path])] == [".spool" if keep else ".h5"]
    for store in (read_store(writer.path), read_runs([tmp_path])[0][0][0]):
        assert store.metadata == writer.metadata
        assert store.names("sections") == ("\N{GREEK SMALL LETTER PSI}",)
        assert store.rows("sections").tolist() == [(0, 1, 2, 3)]
        assert store.names("guesses") == ("hold", "reduced")
        assert store.rows("guesses").tobytes() == guesses.tobytes()
        assert store.advances.tolist() == [row(1, 0.1, 0.2, None)]


def test_a_long_run_takes_no_memory_to_complete(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path, metadata(), PARALLEL)
    table = np.zeros(1000, ADVANCES.dtype)
    for part in range(100):
        table["window"] = np.arange(1000 * part + 1, 1000 * part + 1001)
        writer.append(table)
    size = writer.path.stat().st_size
    # What is loaded once, whatever the length.
    StoreWriter(tmp_path, metadata("B"), PARALLEL).close(finished=True, ended_unix_ns=metadata()["started_unix_ns"])
    tracemalloc.start()
    try:
        writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 10
    assert writer.path.suffix == ".h5"
    assert read_store(writer.path).advances["window"].tolist() == list(range(1, 100_001))


def test_a_spool_that_became_an_hdf5_store_meanwhile_is_read_there(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path, metadata(), PARALLEL)
    (found,) = find_stores([tmp_path])
    lazy = read_runs([found])[0][0][0]
    writer.append(rows([row(1, 0.1, 0.2, 0.0)]))
    writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"])
    assert not found.exists()
    assert len(read_store(found).advances) == len(lazy.advances) == 1


def test_a_spool_beside_the_hdf5_file_made_of_it_counts_once(tmp_path: Path) -> None:
    """The process was killed between giving the one its name and removing the other."""
    writer = StoreWriter(tmp_path, metadata(), PARALLEL)
    writer.append(rows([row(1, 0.1, 0.2, 0.0)]))
    spool = writer.path
    content = spool.read_bytes()
    writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"])
    spool.write_bytes(content)
    assert len(find_stores([tmp_path])) == 2
    ((group,),) = read_runs([tmp_path])
    assert [store.metadata["finished"] for store in group] == [True]


def test_rows_of_killed_ranks_are_read_once_to_group_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(8):
        writer = StoreWriter(tmp_path, metadata(rank=rank, size=8), PARALLEL)
        writer.append(rows(row(window, 0.1, 0.2, 0.0) for window in range(1, 4)))
        writer._spool.close()
    read: list[Path] = []
    real = rank_file.read_spool
    monkeypatch.setattr(rank_file, "read_spool", lambda path, *rest: read.append(path) or real(path, *rest))
    ((group,),) = read_runs([tmp_path])
    assert len(group) == len(read) == 8
    assert [store.interval_unix_ns[1] for store in group] == [group[0].interval_unix_ns[1]] * 8
    assert len(read) == 8


_WRITER = """
import sys
import numpy as np
from precice_lb.store.columns import SECTIONS
from precice_lb.store.spool import StoreWriter
from store_helpers import PARALLEL, metadata, row, rows
writer = StoreWriter(sys.argv[1], metadata(rank=int(sys.argv[2]), size=4), PARALLEL)
print(writer.path, flush=True)
window = 0
while True:
    numbers = range(window + 1, window + 9)
    sections = np.array([(k // 100, k, k, 1) for k in numbers], dtype=SECTIONS.dtype)
    names = {"sections": [str(k) for k in range((window + 8) // 100 + 1)]}
    writer.append(rows(row(k, 1e-6, 0, 0) for k in numbers), names, sections=sections)
    window += 8
    print(window, flush=True)
"""


def test_killed_writers_leave_every_flushed_row(tmp_path: Path) -> None:
    """Kill four ranks at random times, over and over: 200 kills where counts are full."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    generator = np.random.default_rng(1)
    for attempt in range(1, 51 if FULL_COUNTS else 4):
        command = [sys.executable, "-c", _WRITER, str(tmp_path)]
        processes = [
            subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True, env=environment)
            for rank in range(4)
        ]
        outputs = [process.stdout for process in processes if process.stdout is not None]
        paths = [output.readline().strip() for output in outputs]
        for process in processes:
            time.sleep(generator.uniform(0.0, 0.05))
            process.send_signal(signal.SIGKILL)
        for process, output, path in zip(processes, outputs, paths, strict=True):
            # A line that the kill cut short has no end.
            reported = [int(line) for line in output.read().split("\n")[:-1]]
            output.close()
            assert process.wait() == -signal.SIGKILL
            store = read_store(path)
            assert store.metadata["attempt"] == attempt
            assert store.metadata["finished"] is False
            assert len(store.advances) >= max(reported, default=0)
            np.testing.assert_array_equal(store.advances["window"], np.arange(1, len(store.advances) + 1))
            assert len(store.rows("sections")) >= max(reported, default=0)
            for name, window in store.rows("sections")[["name", "window"]]:
                assert store.names("sections")[name] == str(window // 100)


def test_a_failing_disk_raises_and_leaves_what_was_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = StoreWriter(tmp_path, metadata(), PARALLEL)
    writer.append(rows([row(1, 0.1, 0.2, 0.0)]))

    pwrite, left = os.pwrite, [100]

    def full(descriptor: int, data: memoryview, offset: int) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = pwrite(descriptor, data[: left[0]], offset)
        left[0] -= done
        return done

    monkeypatch.setattr("precice_lb.store.spool.os.pwrite", full)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            writer.append(rows(row(window, 0.1, 0.2, 0.0) for window in range(2, 10)))
        assert read_store(writer.path).advances["window"].tolist() == [1]
    with pytest.raises(OSError, match="No space left"):
        writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"])
    assert read_store(writer.path).advances["window"].tolist() == [1]
    assert read_store(writer.path).metadata["finished"] is False


def test_what_a_failed_write_left_is_overwritten_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = StoreWriter(tmp_path, metadata(), PARALLEL)
    writer.append(rows([row(1, 0.1, 0.2, 0.0)]))
    pwrite = os.pwrite

    def half(descriptor: int, data: memoryview, offset: int) -> int:
        if len(data) < 60:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(descriptor, data[: len(data) // 2], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        with pytest.raises(OSError, match="No space left"):
            writer.append(rows([row(2, 0.1, 0.2, 0.0)]))
    writer.append(rows([row(3, 0.1, 0.2, 0.0)]))
    assert read_store(writer.path).advances["window"].tolist() == [1, 3]
    writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"])
    assert read_store(find_stores([tmp_path])[0]).metadata["finished"] is True


def test_metadata_that_the_registry_does_not_know_are_refused(tmp_path: Path) -> None:
    for wrong, words in (
        ({"colour": "red"}, "colour: expected one of"),
        ({"rank": "zero"}, "rank: expected a value of type integer, found 'zero'"),
        ({"rank": True}, "rank: expected a value of type integer"),
        ({"rank": -1}, "rank: expected at least 0, found -1"),
        ({"degrees_of_freedom": {"A": -3}}, "positive numbers"),
        ({"parameters": {"a": float("nan")}}, "JSON"),
        ({"case": "short"}, "64 hexadecimal digits"),
        ({"run": ""}, "not empty"),
        ({"cpus": "0-9999999"}, "cores such as 0-3,8"),
        ({"pid": 2**63}, "pid: expected a number up to"),
    ):
        with pytest.raises(StoreError, match=words):
            StoreWriter(tmp_path, metadata() | wrong, PARALLEL)
    incomplete = metadata()
    del incomplete["case"]
    with pytest.raises(StoreError, match="metadata case: expected a value, found none"):
        StoreWriter(tmp_path, incomplete, PARALLEL)
    with pytest.raises(StoreError, match="rank: expected one of run, warmup_windows"):
        validate({"rank": 1}, keys=USER_KEYS)
    assert list(tmp_path.iterdir()) == []


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "run": st.text(min_size=1, max_size=5),
            "warmup_windows": st.integers(0, 10**9),
            "degrees_of_freedom": st.dictionaries(st.text(max_size=5), st.floats(1e-3, 1e12)),
            "parameters": st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=3) | st.booleans()),
        },
    )
)
def test_metadata_survive_encoding(values: dict[str, object]) -> None:
    validate(values, keys=USER_KEYS)
    assert {name: decode(name, encode(name, value)) for name, value in values.items()} == values


def test_registry_keys_are_described() -> None:
    for name, key in METADATA.items():
        assert name == key.name
        assert key.description


@pytest.mark.parametrize(
    "kind", ["text", "empty", "foreign", "version", "columns", "truncated", "attribute", "name", "missing"]
)
def test_what_is_no_store_is_refused_with_its_name(tmp_path: Path, kind: str) -> None:
    path = write_store(tmp_path, [row(1, 0.1, 0.2, 0.0)])
    expected = "store written by precice_lb"
    if kind == "text":
        path.write_text("participant,ranks\n")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:1000])
    elif kind == "name":
        path.write_bytes(path.read_bytes().replace(b"window_complete", b"window_\xffomplete"))
    elif kind == "foreign":
        path.unlink()
        h5py.File(path, "w").close()
        expected = "format='precice-lb-store', found None"
    else:
        with h5py.File(path, "a") as file:
            if kind == "version":
                file.attrs["format_version"] = 99
                expected = "expected format version 1, found 99"
            elif kind == "columns":
                del file["advances"]
                file["advances"] = np.zeros(3)
                expected = "expected columns"
            elif kind == "attribute":
                file.attrs["rank"] = "zero"
                expected = "metadata rank: expected a value of type integer"
            else:
                del file.attrs["participant"]
                expected = "metadata participant: expected a value, found none"
    with pytest.raises(StoreError) as caught:
        read_store(path)
    assert str(path) in str(caught.value)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sources_without_stores_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="found nothing there"):
        find_stores([tmp_path / "nowhere"])
    with pytest.raises(StoreError, match="found none"):
        find_stores([tmp_path])


def test_file_names_are_safe() -> None:
    assert store_filename("Fluid/../x", 0, 1).count("/") == 1
    assert ".." not in store_filename("..", 0, 1)
    one, other = (store_filename("\N{GREEK SMALL LETTER PSI}" * 500 + end, 0, 1).split("/")[1] for end in "ab")
    assert max(len(one), len(other)) < 250
    assert one != other
    assert is_store_name(one)
    assert store_filename("Fluid", 7, 64, 2) == "Fluid-64/Fluid-7-64.2.h5"
    assert is_store_name("Fluid-7-64.2.spool")


def test_a_directory_is_of_ranks_only_by_the_name_that_its_files_ask_for(tmp_path: Path) -> None:
    for parent, above in (("Fluid-64", True), ("28", True), ("01", False), ("Fluid-6", False), ("Solid-64", False)):
        name = "A-1-2.h5" if parent == "28" else "Fluid-7-64.2.spool"
        assert store_directory(tmp_path / parent / name) == (tmp_path if above else tmp_path / parent)
    assert store_directory(tmp_path / "28" / "A-2.merged.h5") == tmp_path / "28"


BASE = """<?xml version="1.0"?>
<precice-configuration>
  <log enabled="true"><sink type="stream"/></log>
  <data:scalar name="p"/>
  <participant name="A"><provide-mesh name="M"/><watch-point mesh="M" name="w" coordinate="0;0"/></participant>
  <m2n:sockets acceptor="A" connector="B" exchange-directory=".." network="lo"/>
  <coupling-scheme:serial-explicit><max-time value="1"/>
  <time-window-size value="0.1"/></coupling-scheme:serial-explicit>
</precice-configuration>
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('<max-time value="1"/>', '<max-time value="9"/><max-time-windows value="5"/>'),
        ('exchange-directory=".." network="lo"', 'exchange-directory="/x"'),
        ('<log enabled="true"><sink type="stream"/></log>', "<!-- quiet -->"),
        ('<watch-point mesh="M" name="w" coordinate="0;0"/>', '<export:vtu directory="o"/>'),
        ('<data:scalar name="p"/>', '\n\n<profiling mode="all"/> <data:scalar   name="p" ></data:scalar>'),
        ('acceptor="A" connector="B"', 'connector="B" acceptor="A"'),
    ],
)
def test_the_fingerprint_ignores_what_calibration_changes(old: str, new: str) -> None:
    assert old in BASE
    assert case_fingerprint(BASE.replace(old, new)) == case_fingerprint(BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [("serial-explicit", "parallel-explicit"), ('value="0.1"', 'value="0.2"'), ('name="M"', 'name="N"')],
)
def test_the_fingerprint_sees_another_case(old: str, new: str) -> None:
    assert case_fingerprint(BASE.replace(old, new)) != case_fingerprint(BASE)


def test_the_fingerprint_ignores_the_fields_of_first_guesses() -> None:
    def beside(element: re.Match[str]) -> str:
        return f"{element[0]}\n{element[1]}{PREFIX}{element[2]}/>"

    text = configuration()
    patched = re.sub(
        r'(<(?:data:scalar|use-data|write-data|read-data|exchange) (?:name|data)=")([^>]*)/>', beside, text
    )
    assert patched.count(PREFIX) == 12
    assert case_fingerprint(patched) == case_fingerprint(text)
    # Fields of other names make another case.
    assert case_fingerprint(patched.replace(PREFIX, "Other-")) != case_fingerprint(text)


def test_the_fingerprint_of_what_is_not_xml_is_that_of_the_text() -> None:
    assert case_fingerprint("<a>") != case_fingerprint("<a><b>")


def test_nobody_is_asked_to_delete_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profiling.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE events (participant TEXT)")
    database.close()
    said = refused(capsys, "summary", path)
    assert f"{path}: expected a database of precice-profiling" in said
    said += refused(capsys, "export", path)
    assert "leave it out, or import it first" in said
    assert "remove" not in said


def test_profiling_sections_are_kept(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path, metadata(), PARALLEL)
    names = [f"solver step {index}" for index in range(40)] + ["é" * 200]
    sections = np.array([(index % 41, 1 + index // 41, 1 + index, 7) for index in range(1000)], dtype=SECTIONS.dtype)
    writer.append(rows([row(1, 0.1, 0.2, 0.0)]), {"sections": names[:10]}, sections=sections[:10])
    assert read_store(writer.path).names("sections") == tuple(names[:10])
    writer.append(rows([]), {"sections": names}, sections=sections[10:])
    np.testing.assert_array_equal(read_store(writer.path).rows("sections"), sections)
    writer.close(finished=True, ended_unix_ns=metadata()["started_unix_ns"])
    store = read_store(writer.path)
    np.testing.assert_array_equal(store.rows("sections"), sections)
    assert store.names("sections")[:40] == tuple(names[:40])
    assert store.names("sections")[40].startswith("é" * 55)
    assert len(store.advances) == 1


def test_rows_count_that_all_ranks_have(tmp_path: Path) -> None:
    for rank, count in enumerate((6, 4, 5)):
        calls = [
            row(1 + i // 2, 0.1 * rank, 0.01 * i, None, iteration=1 + i % 2, complete=i % 2 == 1) for i in range(count)
        ]
        write_store(tmp_path, calls, rank=rank, size=3)
    ((group,),) = read_runs([tmp_path])
    ranks = Ranks(group)
    assert (ranks.windows.tolist(), ranks.calls) == ([1, 2], {0: 6, 1: 4, 2: 5})
    assert ranks.numbers.tolist() == [1, 2, 1, 2]
    for rank, store in enumerate(group):
        seconds = ranks.seconds(store.advances)
        assert seconds["solve"].tolist() == pytest.approx([0.1 * rank] * 4)
        assert seconds["advance"].tolist() == pytest.approx([0.0, 0.01, 0.02, 0.03])
        assert np.isnan(seconds["wait"]).all()
    write_store(tmp_path / "other", [row(1, 0.1, 0.1, 0.0), row(3, 0.1, 0.1, 0.0)], rank=3, size=4)
    other = read_store(find_stores([tmp_path / "other"])[0])
    assert Ranks([*group, other]).windows.tolist() == []


def test_stores_of_the_first_version_are_read_and_exported(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[1] / "data" / "store-1", tmp_path / "store")

    def check(directory: Path) -> None:
        ((group,),) = read_runs([directory])
        assert [store.metadata["rank"] for store in group] == [0, 1]
        assert [store.metadata["finished"] for store in group] == [True, False]
        for rank, store in enumerate(group):
            expected = [(k, 1, k * 1000, 100 + k, 50, 5, -1 if rank else 10, 0.5, True) for k in range(1, 9)]
            assert store.advances.tolist() == expected
            assert store.initialize.tolist() == [(500, 1000, 10, 20)]
            assert len(store.rows("sections")) == len(store.rows("guesses")) == len(store.names("guesses")) == 0
            assert len(store.rows("counts")) == len(store.names("counts")) == len(store.rows("mpi")) == 0
            assert store.metadata["degrees_of_freedom"] == {"A": 1e6}
            assert store.metadata["warmup_windows"] == 2

    check(tmp_path)
    assert len(export_merged([tmp_path], tmp_path / "merged", force=True)) == 1
    check(tmp_path / "merged")
