"""The store: what is written is read, whatever kills the writer, and foreign files are refused."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
from calibrate_helpers import refusals
from conftest import FULL_COUNTS
from hypothesis import given
from hypothesis import strategies as st
from report_helpers import configuration
from store_helpers import PARALLEL, START, metadata, row, rows, write_store

from precice_lb.exceptions import StoreError
from precice_lb.guess import GUESSES, PREFIX
from precice_lb.store import (
    ADVANCES,
    COUNTS,
    INITIALIZE,
    MPI,
    SECTIONS,
    TABLES,
    StoreWriter,
    Tail,
    case_fingerprint,
    find_stores,
    read_runs,
    read_store,
)
from precice_lb.store.columns import CPU
from precice_lb.store.schema import (
    USER_KEYS,
    decode,
    encode,
    is_store_name,
    store_directory,
    store_filename,
    validate,
    xml_tags,
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    more = {"degrees_of_freedom": {"A": 1e6}, "parameters": {"order": [1, 2]}, "run": "r", "warmup_windows": 3}
    calls = [row(1, 0.1, 0.2, 0.05), row(2, 0.3, 0.4, None)]
    path = write_store(tmp_path, calls, **more)
    store = read_store(path)
    assert path.relative_to(tmp_path).as_posix() == store_filename("A", 0, 1)
    assert store.advances.tolist() == calls
    assert store.advances["wait_ns"].tolist() == [50_000_000, -1]
    assert store.initialize["initialize_ns"].tolist() == [1000]
    assert store.configuration == PARALLEL
    assert {key: store.metadata[key] for key in (*more, "finished")} == {**more, "finished": True}
    assert store.interval_unix_ns[1] - store.interval_unix_ns[0] == 10_000_000_000
    with h5py.File(path) as file:
        units = json.loads(file["advances"].attrs["units"])
    assert units == {column.name: column.unit for column in ADVANCES.columns}
    assert all(column.unit and column.description for table in TABLES.values() for column in table.columns)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    paths = [write_store(tmp_path, calls) for calls in ([row(1, 0.1, 0.2, 0.0)], [row(1, 0.3, 0.4, 0.0)], [])]
    assert [path.name for path in paths] == ["A-0-1.h5", "A-0-1.2.h5", "A-0-1.3.h5"]
    assert [read_store(path).metadata["attempt"] for path in paths] == [1, 2, 3]
    assert read_store(paths[0]).advances["solve_ns"].tolist() == [100_000_000]
    # Two writers at once take two names.
    writers = [StoreWriter(tmp_path, metadata(), PARALLEL) for _ in range(2)]
    for writer in writers:
        writer.close(finished=False, ended_unix_ns=START)
    assert len(find_stores([tmp_path, writers[0].path])) == 5
    assert sorted(path.name for path in tmp_path.rglob(".*")) == []


def test_a_spool_cut_at_any_byte_is_read_up_to_the_last_complete_block(tmp_path: Path) -> None:
    """Every byte of a spool with all blocks: every 293rd, and those around their ends, if counts are not full."""
    writer = StoreWriter(tmp_path, metadata(), PARALLEL, keep_spool=True)
    sizes = [writer.path.stat().st_size]
    writer.append(initialize=np.array([(500, 1000, 0, 0)], dtype=INITIALIZE.dtype))
    steps = range(129)
    planted = {
        "advances": rows(row(k + 1, k * 1e-6, 0, 0) for k in steps),
        "sections": np.array([(k % 40, k + 1, k + 1, 1) for k in steps], SECTIONS.dtype),
        "guesses": np.array([(k + 1, k % 20, 1000 + k, 0.5 + k) for k in steps], GUESSES.dtype),
        "counts": np.array([(k + 1, k % 30, k / 7) for k in steps], COUNTS.dtype),
        "mpi": np.array([(k + 1, 10 * k) for k in steps], MPI.dtype),
        "cpu": np.array([(k + 1, 20 * k) for k in steps], CPU.dtype),
    }
    names = {
        table: [f"{table} {number}" for number in range(count)]
        for table, count in (("sections", 40), ("guesses", 20), ("counts", 30))
    }
    total = 0
    for count in (1, 1, 2, 4, 8, 16, 32, 1, 64):
        these = {table: values[total : total + count] for table, values in planted.items()}
        total += count
        writer.append(these.pop("advances"), {table: texts[:total] for table, texts in names.items()}, **these)
        sizes.append(writer.path.stat().st_size)
    writer.close(finished=True, ended_unix_ns=START)
    with writer.path.open("rb") as file:
        # Each block is what numpy reads.
        assert json.loads(np.load(file)["head"][0])["configuration"] == PARALLEL
        assert np.load(file)["initialize"].dtype == INITIALIZE.dtype
    whole = writer.path.read_bytes()
    flushed = dict(zip(sizes, (0, 1, 2, 4, 8, 16, 32, 64, 65, 129), strict=True))
    cut = tmp_path / "cut.spool"
    around = {size + step for size in (*sizes, len(whole)) for step in (-1, 0, 1)}
    for size in {*range(sizes[0], len(whole) + 1, 1 if FULL_COUNTS else 293), *around} & {
        *range(sizes[0], len(whole) + 1)
    }:
        cut.write_bytes(whole[:size])
        store = read_store(cut)
        count = max(number for end, number in flushed.items() if end <= size)
        assert len(store.advances) == count
        for table, values in planted.items():
            np.testing.assert_array_equal(store.rows(table), values[: len(store.rows(table))])
            # Rows of ``advance`` are the last of a flush.
            assert len(store.rows(table)) >= count
        for table, texts in names.items():
            known = store.names(table)
            assert known == tuple(texts[: len(known)])
            assert len(known) > max(store.rows(table)["name"], default=-1)
        assert store.metadata["finished"] is (size == len(whole))
    for size in range(0, sizes[0], 1 if FULL_COUNTS else 31):
        cut.write_bytes(whole[:size])
        with pytest.raises(StoreError, match=f"{cut.name}: expected a spool with a head, found none"):
            read_store(cut)


@pytest.mark.parametrize("keep", [False, True])
def test_the_spool_and_the_hdf5_file_hold_the_same(tmp_path: Path, keep: bool) -> None:
    more = {"degrees_of_freedom": {"A": 1e6}, "run": "r", "cpus": "0-1", "clock_resolution": 1e-9}
    writer = StoreWriter(tmp_path, metadata(**more), PARALLEL, keep_spool=keep)
    (spool,) = find_stores([tmp_path])
    lazy = read_runs([spool])[0][0][0]
    planted = {
        "sections": np.array([(0, 1, 2, 3)], SECTIONS.dtype),
        "guesses": np.array([(1, 1, 7, np.nan)], GUESSES.dtype),
        "advances": rows([row(1, 0.1, 0.2, None)]),
    }
    names = {"sections": ["\N{GREEK SMALL LETTER PSI}"], "guesses": ["hold", "reduced"]}
    writer.append(names=names, **planted)
    content = spool.read_bytes()
    writer.close(finished=True, ended_unix_ns=START + 5)
    assert [path.suffix for path in find_stores([tmp_path])] == [".spool" if keep else ".h5"]
    for store in (read_store(writer.path), read_runs([tmp_path])[0][0][0]):
        assert store.metadata == writer.metadata
        assert {name: list(store.names(name)) for name in names} == names
        for name, values in planted.items():
            assert store.rows(name).tobytes() == values.tobytes()
    # What was found as a spool is read where it is by now.
    assert len(read_store(spool).advances) == len(lazy.advances) == 1
    # The process was killed between giving the one its name and removing the other: the rank counts once.
    spool.write_bytes(content if not keep else spool.read_bytes())
    assert len(find_stores([tmp_path])) == 2 - keep
    ((group,),) = read_runs([tmp_path])
    assert [store.metadata["finished"] for store in group] == [True]


def test_a_long_run_takes_no_memory_to_complete(tmp_path: Path) -> None:
    writer, table = StoreWriter(tmp_path, metadata(), PARALLEL), np.zeros(1000, ADVANCES.dtype)
    for begin in range(1, 100_001, 1000):
        table["window"] = np.arange(begin, begin + 1000)
        writer.append(table)
    size = writer.path.stat().st_size
    # What is loaded once, whatever the length.
    StoreWriter(tmp_path, metadata("B"), PARALLEL).close(finished=True, ended_unix_ns=START)
    tracemalloc.start()
    try:
        writer.close(finished=True, ended_unix_ns=START)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 10
    assert writer.path.suffix == ".h5"
    assert read_store(writer.path).advances["window"].tolist() == list(range(1, 100_001))


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
    for attempt in range(1, 51 if FULL_COUNTS else 3):
        command = [sys.executable, "-c", _WRITER, str(tmp_path)]
        processes = [
            subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True, env=environment)
            for rank in range(4)
        ]
        outputs = [process.stdout for process in processes if process.stdout is not None]
        paths = [output.readline().strip() for output in outputs]
        # Each of them has written its first eight windows.
        assert [output.readline() for output in outputs] == ["8\n"] * 4
        for process in processes:
            time.sleep(generator.uniform(0.0, 0.05))
            process.send_signal(signal.SIGKILL)
        for process, output, path in zip(processes, outputs, paths, strict=True):
            # A line that the kill cut short has no end.
            reported = [8, *(int(line) for line in output.read().split("\n")[:-1])]
            output.close()
            assert process.wait() == -signal.SIGKILL
            store = read_store(path)
            assert store.metadata["attempt"] == attempt
            assert store.metadata["finished"] is False
            assert len(store.advances) >= max(reported)
            np.testing.assert_array_equal(store.advances["window"], np.arange(1, len(store.advances) + 1))
            assert len(store.rows("sections")) >= max(reported)
            for name, window in store.rows("sections")[["name", "window"]]:
                assert store.names("sections")[name] == str(window // 100)


def test_whether_a_rank_still_writes_is_told_by_its_process_or_elsewhere_by_silence(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here, begun = platform.node(), time.time_ns()
    places = [(here, os.getpid(), begun), (here, os.getpid(), START), (here, ended.pid, begun), ("elsewhere", 1, begun)]
    paths = [
        StoreWriter(tmp_path, metadata("A", rank, 4, hostname=host, pid=pid, started_unix_ns=start), PARALLEL).path
        for rank, (host, pid, start) in enumerate(places)
    ]

    def states() -> list[str]:
        tails = [Tail(path) for path in paths]
        for tail in tails:
            tail.read()
        return [tail.state for tail in tails]

    # The second is a process of that number which began long after the rank.
    assert states() == ["running", "stopped", "stopped", "running"]
    os.utime(paths[3], times=(time.time(), time.time() - 4000))
    assert states()[3] == "stopped"


def test_metadata_that_the_registry_does_not_know_are_refused(tmp_path: Path) -> None:
    for block in refusals("metadata-refused.txt"):
        wrong, message = block.split("\n")
        data = {key: value for key, value in (metadata() | json.loads(wrong)).items() if value is not None}
        with pytest.raises(StoreError, match=f"^{re.escape(message)}$"):
            StoreWriter(tmp_path, data, "")
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


def test_file_names_are_safe_and_a_directory_is_of_ranks_by_the_name_that_its_files_ask_for(tmp_path: Path) -> None:
    one, other = (store_filename("\N{GREEK SMALL LETTER PSI}" * 500 + end, 0, 1).split("/")[1] for end in "ab")
    assert store_filename("Fluid/../x", 0, 1).count("/") == 1
    assert ".." not in store_filename("..", 0, 1)
    assert max(len(one), len(other)) < 250
    assert one != other
    assert store_filename("Fluid", 7, 64, 2) == "Fluid-64/Fluid-7-64.2.h5"
    assert all(map(is_store_name, (one, "Fluid-7-64.2.spool")))
    for parent, above in (("Fluid-64", True), ("01", False), ("Fluid-6", False), ("Solid-64", False)):
        name = "Fluid-7-64.2.spool"
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
    ("old", "new", "is_same"),
    [
        ('<max-time value="1"/>', '<max-time value="9"/><max-time-windows value="5"/>', True),
        ('exchange-directory=".." network="lo"', 'exchange-directory="/x"', True),
        ('<log enabled="true"><sink type="stream"/></log>', "<!-- quiet -->", True),
        ('<watch-point mesh="M" name="w" coordinate="0;0"/>', '<export:vtu directory="o"/>', True),
        ('<data:scalar name="p"/>', '\n\n<profiling mode="all"/> <data:scalar   name="p" ></data:scalar>', True),
        ('acceptor="A" connector="B"', 'connector="B" acceptor="A"', True),
        ("serial-explicit", "parallel-explicit", False),
        ('value="0.1"', 'value="0.2"', False),
        ('name="M"', 'name="N"', False),
        # No XML any more: the text counts.
        ("</precice-configuration>", "", False),
    ],
)
def test_the_fingerprint_ignores_what_calibration_changes(old: str, new: str, is_same: bool) -> None:
    assert old in BASE
    assert (case_fingerprint(BASE.replace(old, new)) == case_fingerprint(BASE)) is is_same


def test_text_that_ends_too_early_for_xml_is_hashed_as_it_stands() -> None:
    text = "<precice-configuration><log/>"
    assert xml_tags(text) is None
    assert case_fingerprint(text) == hashlib.sha256(text.encode()).hexdigest()
    assert xml_tags('<a:b c="d"/>') == [("a:b", {"c": "d"}), ("a:b", None)]


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
