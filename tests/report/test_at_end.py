"""The recommendation at the end of a run: written once, by the participant that ends last."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from report_helpers import compute_seconds, configuration, refused, write_campaign, write_run
from store_helpers import START, metadata, row, rows, write_store

from precice_lb.cli import main
from precice_lb.exceptions import StoreError
from precice_lb.report.at_end import SUMMARY_NAME, write_at_end
from precice_lb.store import INITIALIZE, StoreWriter

MINUTE = 60 * 10**9
EARLIER = [{"Inner": 2, "Outer": 2}, {"Inner": 4, "Outer": 3}, {"Inner": 6, "Outer": 4}]
LAST = {"Inner": 5, "Outer": 5}
FILES = {"recommendation.json"}


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A case with earlier runs, and a last one in which both participants have their own directory."""
    directory = tmp_path / "case"
    write_campaign(directory / "earlier", EARLIER)
    return directory


def write_last(case: Path, split: dict[str, int] = LAST, start: int = START + 10 * MINUTE) -> tuple[Path, Path]:
    """Stores of the last run, one directory per participant as where each has its own working directory."""
    scratch = case.parent / "scratch"
    targets = []
    for path in write_run(scratch, split, start=start):
        who = path.name.split("-")[0]
        target = case / who.lower() / "precice-lb-store" / path.parent.name / path.name
        while target.exists():
            target = target.with_name("again-" + target.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        targets.append(target)
    return case / "inner" / "precice-lb-store", case / "outer" / "precice-lb-store"


def written(case: Path) -> set[str]:
    return {path.name for path in case.iterdir() if path.is_file() and path.name != ".precice-lb-at-end.lock"}


def open_store(directory: Path, participant: str, rank: int = 0, size: int = 1) -> StoreWriter:
    """A store of one rank that is not closed yet."""
    data = metadata(participant, rank, size, configuration=configuration(), started_unix_ns=START + 10 * MINUTE)
    writer = StoreWriter(directory, data, configuration())
    own = compute_seconds(participant, 1)
    longest = compute_seconds("Inner", 1)
    writer.append(initialize=np.array([(500, 1000, 0, 0)], dtype=INITIALIZE.dtype))
    writer.append(rows(row(w, own, longest - own + 1e-4, longest - own + 1e-4) for w in range(1, 5)))
    return writer


def close(writer: StoreWriter, *, finished: bool = True) -> None:
    writer.close(finished=finished, ended_unix_ns=START + 10 * MINUTE + 5 * 10**9)


def test_the_recommendation_is_for_the_parameters_of_the_run_that_ended(tmp_path: Path) -> None:
    case = tmp_path / "case"
    write_campaign(case / "coarse", EARLIER, parameters={"level": 3, "kind": "coarse"})
    for path in write_run(case / "last", LAST, start=START + 10 * MINUTE, parameters={"level": 4, "kind": "coarse"}):
        store = path.parent.parent
    assert write_at_end(case, store, "Inner")
    values = json.loads((case / "recommendation.json").read_text())
    assert values["parameters"] == {"level": 4.0, "kind": "coarse"}
    assert len(values["measurements"]["samples"]["Inner"]) == 4


def test_two_that_end_at_once_write_one_complete_result(case: Path) -> None:
    stores = write_last(case)
    commands = [
        [sys.executable, "-m", "precice_lb", "at-end", case, "--store", store, "--participant", who]
        for who, store in zip(("Inner", "Outer"), stores, strict=True)
    ]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands
    ]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert [err for _, err in outputs] == ["", ""]
    assert sorted(out.count("wrote ") for out, _ in outputs) == [0, 1]
    assert written(case) == FILES
    values = json.loads((case / "recommendation.json").read_text())
    assert sum(values["split"].values()) == sum(LAST.values())
    assert values["split"]["Inner"] > values["split"]["Outer"]
    assert "parallel-explicit" in values["schedule"]


def test_who_ends_before_the_others_leaves_silently(case: Path) -> None:
    stores = case / "stores"
    first, second = open_store(stores, "Inner"), open_store(stores, "Outer")
    close(first)
    assert write_at_end(case, stores, "Inner") == []
    assert written(case) == set()
    close(second)
    assert {path.name for path in write_at_end(case, stores, "Outer")} == FILES


def test_a_participant_of_which_a_rank_is_still_running_is_not_at_its_end(case: Path) -> None:
    stores = case / "stores"
    close(open_store(stores, "Outer", 0, 2))
    late = open_store(stores, "Outer", 1, 2)
    close(open_store(stores, "Inner"))

    assert write_at_end(case, stores, "Inner") == []

    assert written(case) == set()
    close(late)
    assert {path.name for path in write_at_end(case, stores, "Outer")} == FILES


def test_a_participant_whose_store_is_being_created_is_not_at_its_end(case: Path) -> None:
    stores = case / "stores"
    close(open_store(stores, "Outer"))
    # It is found before the one of Outer.
    unfinished = stores / "Inner-1" / "Inner-0-1.h5"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"")

    assert write_at_end(case, stores, "Outer") == []
    assert written(case) == set()


def test_a_participant_that_broke_off_stops_the_recommendation(case: Path) -> None:
    stores = case / "stores"
    close(open_store(stores, "Outer"), finished=False)
    close(open_store(stores, "Inner"))

    assert write_at_end(case, stores, "Inner") == []
    assert written(case) == set()


def test_ranks_that_close_late_are_waited_for(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = case / "stores"
    close(open_store(stores, "Outer"))
    late = open_store(stores, "Inner")
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        """The rank closes its store while it is waited for."""
        pauses.append(seconds)
        if len(pauses) == 3:
            close(late)

    monkeypatch.setattr("precice_lb.report.at_end.time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    assert {path.name for path in write_at_end(case, stores, "Inner")} == FILES
    assert len(pauses) == 3


def test_ranks_that_never_close_are_an_error_that_counts_them(case: Path) -> None:
    stores = case / "stores"
    close(open_store(stores, "Inner", 0, 2))
    writer = open_store(stores, "Inner", 1, 2)
    with pytest.raises(StoreError, match=r"expected 2 ranks of participant 'Inner' to close their stores .* found 1"):
        write_at_end(case, stores, "Inner", timeout=0.2)
    with pytest.raises(StoreError, match="expected any ranks of participant 'Nobody'"):
        write_at_end(case, stores, "Nobody", timeout=0.2)
    close(writer)


def test_the_same_run_is_written_once_and_the_next_one_anew(case: Path) -> None:
    store, _ = write_last(case)
    assert write_at_end(case, store, "Inner")
    assert write_at_end(case, store, "Inner") == []
    store, _ = write_last(case, {"Inner": 6, "Outer": 8}, START + 20 * MINUTE)
    assert write_at_end(case, store, "Inner")
    assert sum(json.loads((case / "recommendation.json").read_text())["split"].values()) == 14


def test_a_recommendation_that_was_removed_is_written_again(case: Path) -> None:
    store, _ = write_last(case)
    assert write_at_end(case, store, "Inner")
    (case / "recommendation.json").unlink()

    assert write_at_end(case, store, "Inner") == [case / "recommendation.json"]


def test_a_summary_of_an_earlier_run_is_replaced_after_a_recommendation(case: Path) -> None:
    """The recommendation of the second run must not count as its summary, of which an older one is there."""
    store, _ = write_last(case)
    write_at_end(case, store, "Inner", SUMMARY_NAME)
    earlier = (case / SUMMARY_NAME).read_text()
    store, _ = write_last(case, {"Inner": 6, "Outer": 8}, START + 20 * MINUTE)
    write_at_end(case, store, "Inner")

    assert write_at_end(case, store, "Inner", SUMMARY_NAME)

    assert "Outer, 5 ranks" in earlier
    assert "Outer, 8 ranks" in (case / SUMMARY_NAME).read_text()


def test_the_recommendation_is_for_as_many_cores_as_the_run_had(tmp_path: Path) -> None:
    """Each of ten ranks has two threads."""
    case = tmp_path / "case"
    write_campaign(case / "earlier", EARLIER, threads=2)
    write_run(case / "last", LAST, start=START + 10 * MINUTE, threads=2)

    assert write_at_end(case, case / "last", "Inner")

    assert json.loads((case / "recommendation.json").read_text())["total_ranks"] == 20


def test_runs_of_another_case_below_are_left_out(case: Path) -> None:
    write_campaign(case / "other", EARLIER[:2], text=configuration(window=0.7))
    store, _ = write_last(case)

    assert write_at_end(case, store, "Inner")

    samples = json.loads((case / "recommendation.json").read_text())["measurements"]["samples"]
    # Three earlier runs of the case, and the last one; not the two of the case with larger time windows.
    assert sorted(sample["ranks"] for sample in samples["Inner"]) == [2, 4, 5, 6]


def test_a_summary_is_of_the_run_that_ended_alone(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, other = write_last(case)
    assert main(["summary", str(store), str(other)]) == 0
    shown = capsys.readouterr().out
    command = ["at-end", str(case), "--store", str(store), "--participant", "Inner", "--write", "summary"]
    assert main(command) == 0
    assert capsys.readouterr().out == f"wrote {case / 'summary.txt'}\nwrote {case / 'summary.json'}\n"
    assert (case / "summary.txt").read_text() == shown
    assert [
        sum(p["ranks"] for p in run["participants"].values()) for run in json.loads((case / "summary.json").read_text())
    ] == [sum(LAST.values())]
    assert written(case) == {"summary.txt", "summary.json"}
    assert write_at_end(case, store, "Inner")


def test_too_little_to_recommend_from_is_one_line_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_without_waits = [row(w, 0.1, 0.2, None, None) for w in (1, 2, 3)]
    for who in ("Inner", "Outer"):
        write_store(tmp_path / "stores", rows_without_waits, who, backend="libprecice", configuration=configuration())
    refused(capsys, "at-end", tmp_path, "--store", tmp_path / "stores", "--participant", "Inner")
    assert "recommendation.json" not in written(tmp_path)
