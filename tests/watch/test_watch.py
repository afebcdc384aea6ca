"""Watching simulations: live, killed, truncated, on both backends; what rebalancing would bring; exit codes."""

from __future__ import annotations

import fcntl
import importlib
import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from chain_helpers import chain_of
from emulation import CostLaw
from precice_xml_helpers import configuration, scheme
from profiling_helpers import followed
from record_helpers import configuration as pair
from record_helpers import run_pair
from report_helpers import refused, write_run
from store_helpers import PARALLEL, START, metadata, row, rows, write_store

from precice_lb.chain import CHAIN_FILE
from precice_lb.cli import main
from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling import enrich, import_profiling
from precice_lb.ingest.profiling.enrich import ProfileTail, WaitsTail
from precice_lb.ingest.profiling.files import read_header
from precice_lb.ingest.profiling.find import profiled_participant
from precice_lb.layout import Layout
from precice_lb.recommend import load_sources
from precice_lb.report import Paragraph
from precice_lb.store import INITIALIZE, RankFile, StoreWriter, Tail, find_stores, read_store
from precice_lb.watch import Observer, Snapshot, watch_blocks, watch_run
from precice_lb.watch.snapshot import Rebalance, rebalance

pytestmark = pytest.mark.usefixtures("own_priority")

# The name in the package is the command.
watch_command = importlib.import_module("precice_lb.watch.command")

PLANTED, GROWTH = 14, 0.06


def test_a_planted_drift_is_seen_within_ten_windows_and_a_kill_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    solver = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    text = pair("parallel-explicit", 150)
    more = {"hostname": platform.node(), "pid": solver.pid, "started_unix_ns": time.time_ns(), "configuration": text}
    inner, outer = (StoreWriter(tmp_path, metadata(name, **more), text) for name in ("Inner", "Outer"))
    observer, generator = Observer(tmp_path, restart_cost=1.0), np.random.default_rng(4)
    for window in range(1, PLANTED + 11):
        load = 0.3 * (1 + GROWTH * max(window - (PLANTED - 1), 0)) * (1 + 0.02 * generator.standard_normal())
        inner.append(rows([row(window, load, 0.01, 0.0)]))
        outer.append(rows([row(window, 0.15, load - 0.14, load - 0.15)]))
        seen = observer.poll()
        assert seen is not None
        assert seen.windows == window
        if any(part.is_drifting for part in seen.participants):
            break
    assert PLANTED < seen.windows <= PLANTED + 10
    assert seen.is_running
    assert [part.is_drifting for part in seen.participants] == [True, False]
    assert seen.participants[0].change > 0.05
    # Inner works twice as long as its partner, and more and more so.
    assert seen.participants[1].wait_share == pytest.approx(0.5, abs=0.2)
    assert seen.windows_left == 150 - seen.windows
    assert main(["watch", str(tmp_path), "--every", "0.2", "--threshold", "drift=0.05"]) == 3
    assert "The load of Inner has grown" in capsys.readouterr().out
    solver.kill()
    solver.communicate()
    assert main(["watch", str(tmp_path)]) == 0
    assert "Inner stopped before the coupling ended" in " ".join(capsys.readouterr().out.split())
    assert main(["watch", str(tmp_path), "--once", "--format", "json", "--threshold", "waiting=0.1"]) == 3
    values = json.loads(capsys.readouterr().out)
    assert [part["state"] for part in values["participants"]] == ["stopped", "stopped"]
    assert values["format"] == "precice-lb-watch"
    assert 0.1 < values["measures"]["waiting"] < 0.5
    assert main(["watch", str(tmp_path), "--once", "--threshold", "waiting=0.99"]) == 0


# ---- reading what is new


def grow(directory: Path, steps: list[int], ranks: int = 2) -> Iterator[int]:
    """Write two participants step by step; yields the windows that all ranks have."""
    generator = np.random.default_rng(3)
    writers = {
        (name, rank): StoreWriter(directory, metadata(name, rank, ranks, warmup_windows=2), PARALLEL)
        for name in "AB"
        for rank in range(ranks)
    }
    for writer in writers.values():
        writer.append(initialize=np.array([(500, 1000, 0, 0)], dtype=INITIALIZE.dtype))
    done = 0
    for step in steps:
        for (name, rank), writer in writers.items():
            # One rank is ahead of the others.
            ahead = 1 if (name, rank) == ("A", 1) else 0
            window = range(done + 1 + (ahead if done else 0), done + step + 1 + ahead)
            solve = (0.3 if name == "A" else 0.1) * (1 + 0.02 * generator.standard_normal(len(window)))
            writer.append(rows(row(w, s, 0.42 - s, 0.4 - s + 0.001 * rank) for w, s in zip(window, solve, strict=True)))
        done += step
        yield done
    for writer in writers.values():
        writer.close(finished=True, ended_unix_ns=START + 10**11)
    yield done


def test_looking_again_and_again_gives_what_reading_the_whole_run_gives(tmp_path: Path) -> None:
    observer: Observer | None = None
    for done in grow(tmp_path, [1, 1, 2, 60, 200, 5]):
        observer = observer or Observer(tmp_path)
        seen = observer.poll()
        assert seen is not None
        assert seen.windows == done
    run = load_runs([tmp_path])[0]
    assert [part.state for part in seen.participants] == ["ended", "ended"]
    assert_as_read(seen, run)
    for part in seen.participants:
        expected, steady = run.participants[part.participant], run.steady(part.participant)
        share = expected.wait_seconds[steady].sum() / expected.window_seconds[steady].sum()
        assert part.wait_share_so_far == pytest.approx(float(share))
        assert not part.is_drifting


def assert_as_read(seen: Snapshot, run: CoupledRun) -> None:
    """The latest windows took what reading the whole run says."""
    for part in seen.participants:
        expected = run.participants[part.participant]
        latest = expected.windows > expected.windows[-1] - seen.latest
        assert part.compute_seconds == pytest.approx(float(np.median(expected.compute_seconds[latest])))
        assert part.wait_seconds == pytest.approx(float(np.median(expected.wait_seconds[latest])))


def test_nothing_is_locked_and_no_lock_is_waited_for(tmp_path: Path) -> None:
    path = write_store(tmp_path, [row(w, 0.1, 0.2, 0.1) for w in range(1, 5)])
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert len(Tail(path).read()) == 4
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert watch_run(tmp_path).windows == 4
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert sorted(tmp_path.rglob("*")) == [path.parent, path]


def test_files_that_are_cut_or_foreign_never_stop_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in grow(tmp_path / "whole", [30]):
        pass
    paths = find_stores([tmp_path / "whole"])
    content = paths[0].read_bytes()
    for size in (0, 10, 600, len(content) // 2, len(content) - 9):
        paths[0].write_bytes(content[:size])
        assert main(["watch", str(tmp_path / "whole"), "--once"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "1 of 2" in text
        assert paths[0].name in text.replace(" ", "")
    for path in paths:
        path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    refused(capsys, "watch", tmp_path / "whole", "--once")
    assert Observer(tmp_path / "whole").poll() is None


# ---- preCICE's profiling files


@pytest.mark.parametrize("run", ["all-implicit", "fundamental", "synchronize"])
def test_profiling_files_are_followed_while_they_grow(tmp_path: Path, run: str) -> None:
    folder = followed(tmp_path / "case", run)
    for path in import_profiling([folder.parent], tmp_path / "store").stores:
        expected = read_store(path)
        data = expected.metadata
        file = folder / f"{data['participant']}-{data['rank']}-{data['size']}.txt"
        header, content = read_header(file), file.read_bytes()
        recorded = {key: value for key, value in data.items() if key not in ("timing_source", "receives_data")}
        bare = expected.advances.copy()
        bare["wait_ns"] = bare["mapping_ns"] = -1
        waits = WaitsTail(RankFile(path, recorded, expected.configuration))
        alone, joined, done = ProfileTail(header, profiled_participant(header, [folder.parent])), [], 0
        for cut in [header.offset, *range(header.offset + 100, len(content), 333), len(content)]:
            file.write_bytes(content[:cut])
            known = alone.rows.tobytes()
            alone.update()
            assert alone.rows.tobytes().startswith(known)
            assert alone.problem == ""
            # The recorder writes in steps of its own.
            upto = min(done + 2, len(bare)) if cut < len(content) else len(bare)
            joined.append(waits.filled(bare[done:upto], is_last=cut == len(content)))
            done = upto
        assert alone.rows.tobytes() == expected.advances.tobytes()
        assert alone.store.metadata["finished"] is True
        np.testing.assert_array_equal(alone.store.initialize, expected.initialize)
        for column in ("window", "wait_ns", "mapping_ns"):
            np.testing.assert_array_equal(np.concatenate(joined)[column], expected.advances[column])
        assert waits.metadata["timing_source"].startswith("precice-profiling")
    seen, recorded_run = watch_run(tmp_path / "case"), load_runs([tmp_path / "store"])[0]
    last = {name: part.windows[-1] for name, part in recorded_run.participants.items()}
    assert {part.participant: part.windows for part in seen.participants} == last


@pytest.mark.precice
def test_waits_on_libprecice_come_from_its_profiling_files(tmp_path: Path) -> None:
    run_pair(tmp_path, "parallel-explicit", windows=40, backend="libprecice")
    seen = watch_run(tmp_path, warmup=1)
    # Which is found later otherwise, and with it the least wait, a few microseconds of each window's compute time.
    run = load_runs([tmp_path / "precice-lb-store"], warmup=1, complete=enrich)[0]
    assert_as_read(seen, run)
    assert not any(part.problems for part in seen.participants)


# ---- what rebalancing brings


LAWS = {"A": CostLaw(0.01, 4.0, 0.0, 0.0), "B": CostLaw(0.01, 1.0, 0.0, 0.0)}


def rebalanced(directory: Path, version: str = "cpu", growth: float = 1.0) -> tuple[Rebalance, float, float]:
    """What is said of 16 ranks each where B has more work, the best window of 32 ranks, and the present one.

    Measured are the laws, on CPUs, and A on GPUs, where more ranks bring next to nothing.
    """
    counts = (2, 4, 8, 16, 32)
    lines = [f"{name},cpu,{p},{float(law.seconds(p))}" for name, law in LAWS.items() for p in counts]
    lines += [f"A,gpu,{p},{0.2 + 0.01 / p}" for p in counts]
    table = directory / "campaign.csv"
    table.write_text("\n".join(["participant,version,ranks,seconds", *lines]) + "\n")
    windows = [
        {"A": float(LAWS["A"].seconds(ranks)), "B": growth * float(LAWS["B"].seconds(32 - ranks))}
        for ranks in range(1, 32)
    ]
    better = rebalance(
        pair("parallel-explicit"), {"A": Layout(16), "B": Layout(16)}, windows[15], {"A": 1.0, "B": 1.0},
        measurements=load_sources([table]), restart_seconds=60.0, versions={"A": version, "B": "cpu"},
    )  # fmt: skip
    return better, min(max(seconds.values()) for seconds in windows), max(windows[15].values())


def test_a_restart_pays_when_the_law_says_so_also_for_a_load_that_has_grown(tmp_path: Path) -> None:
    splits = []
    for growth in (1.0, 4.0):
        better, best, present = rebalanced(tmp_path, growth=growth)
        assert better.window_seconds == pytest.approx(best, rel=0.05)
        assert better.present_seconds == pytest.approx(present, rel=0.05)
        splits.append(better)
    first, second = splits
    saved = first.present_seconds - first.window_seconds
    assert first.windows_to_pay == pytest.approx(60.0 / saved, abs=1)
    assert first.gain == pytest.approx(1 - first.window_seconds / first.present_seconds)
    assert first.split["A"] > 22
    # With four times the work B is as slow as A: the present split is all but the best.
    assert abs(second.split["A"] - 16) <= 1
    assert second.gain < 0.1 < first.gain
    assert second.windows_to_pay > 3 * first.windows_to_pay
    with pytest.raises(DataError, match="measurements of A fpga, which runs, found those of cpu, gpu; measure it"):
        rebalanced(tmp_path, "fpga")


@pytest.mark.parametrize("factor", [1.5, 0.6])
def test_a_load_that_changed_lately_is_told_with_its_sign(factor: float, tmp_path: Path) -> None:
    noise = 0.1 * (1 + 0.01 * np.random.default_rng(3).standard_normal(48))
    noise[-8:] *= factor
    write_store(tmp_path, [row(w, seconds, 0.1, 0.1) for w, seconds in enumerate(noise, start=1)])
    (part,) = watch_run(tmp_path).participants
    assert part.is_drifting
    # Of the solver's work, beside the transfer.
    before, latest = (float(np.median(noise[at])) + 0.1 for at in (slice(1, 40), slice(40, None)))
    assert part.shift.change == pytest.approx(latest / before - 1, rel=0.05)
    assert np.sign(part.shift.z_score) == np.sign(factor - 1)


def test_the_first_end_of_the_coupling_counts_and_the_stated_cost_of_a_restart(tmp_path: Path) -> None:
    body = '    <max-time-windows value="40" />\n'
    # By windows or up to the time 10 in windows of 0.1.
    for place, end, left in (("windows", body, 10), ("time", "", 70)):
        text = configuration("AB", [scheme("parallel-explicit", "AB", body=end)])
        for name, wait in (("A", 0.02), ("B", 0.12)):
            table = [row(w, 0.2 - wait, wait, wait, iteration=i, complete=i == 2) for w in range(1, 31) for i in (1, 2)]
            write_store(tmp_path / place, table, name, configuration=text)
        seen = watch_run(tmp_path / place, restart_cost=123.0)
        assert (seen.windows, seen.windows_left) == (30, left)
        assert seen.rebalance is not None
        assert seen.rebalance.restart_seconds == 123.0
        # The transfer is part of the work of each iteration.
        assert_as_read(seen, load_runs([tmp_path / place])[0])


def test_what_is_not_known_is_said_and_texts_of_files_stay_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["<script>alert(1)</script>", "[bold]x[/bold]\n\x1b[31m", "名" * 20, "x" * 200]
    table = [row(w, 0.1, 0.2, None, None) for w in range(1, 21)]
    for name in names:
        write_store(tmp_path, table, name, run="[red]\nrun", backend="libprecice")
    assert main(["watch", str(tmp_path), "--once"]) == 0
    assert "<script>" in (text := capsys.readouterr().out)
    assert "\x1b" not in text
    assert main(["watch", str(tmp_path), "--once", "--format", "json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert [part["participant"] for part in seen["participants"]] == sorted(names)
    assert (seen["waiting"], seen["rebalance"]) == (None, None)
    texts = [block.text for block in watch_blocks(watch_run(tmp_path)) if isinstance(block, Paragraph)]
    assert any("profiling file" in text for text in texts)


@pytest.mark.parametrize(
    ("options", "ends", "polls"),
    [([], " within 60 s (--wait); ", 12), (["--wait", "7"], " within 7 s (--wait); ", 2), (["--once"], "; ", 0)],
)
def test_an_empty_directory_is_waited_for_and_a_missing_one_refused(
    options: list[str], ends: str, polls: int, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append)
    monkeypatch.setattr(watch_command, "time", clock)
    expected = f"{tmp_path}: expected a run with at least one store file or profiling file in it, found none{ends}"
    assert main(["watch", str(tmp_path), *options]) == 2
    assert f"{expected}record one" in capsys.readouterr().err
    assert len(pauses) == polls
    assert "expected a directory" in refused(capsys, "watch", tmp_path / "missing", *options)


# ---- chains of jobs

SPLITS = [{"Inner": 2, "Outer": 4}, {"Inner": 3, "Outer": 3}]


@pytest.mark.parametrize("problem", [None, "segment 2 failed"])
def test_watching_goes_on_between_segments_and_ends_with_the_chain(
    problem: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_segment(number: int) -> None:
        stores = tmp_path / "runs" / f"{number:03d}" / "stores"
        write_run(stores, SPLITS[number - 1], start=START + number * 60 * 10**9, windows=10, run=f"{number:03d}")

    def watched(*options: str) -> str:
        assert main(["watch", str(tmp_path), *options]) == 0
        return capsys.readouterr().out

    write_segment(1)
    assert "chain" not in json.loads(watched("--once", "--format", "json"))
    (tmp_path / CHAIN_FILE).write_text("{")
    # A chain that cannot be read costs the view nothing else.
    assert "the record of a chain" in watched("--every", "0.1")
    chain_of(SPLITS[:1], total=20, following=SPLITS[1]).save(tmp_path)
    assert watched("--once").startswith("Job chain: segment 2, from window 11 of 20 on\n")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        """What happens between two polls: at first nothing, though the first segment has ended."""
        pauses.append(seconds)
        if len(pauses) == 2 and problem is None:
            write_segment(2)
            chain_of(SPLITS, total=20).save(tmp_path)
        elif len(pauses) == 2:
            chain_of(SPLITS[:1], total=20, problem=problem).save(tmp_path)

    monkeypatch.setattr(watch_command.time, "sleep", pause)
    end = "at its end: 2 segments, 20 of 20 windows" if problem is None else "stopped: 1 segment, 10"
    assert watched().startswith(f"Job chain {end}")
    assert len(pauses) == 2
