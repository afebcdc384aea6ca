"""A chain that runs: what each segment takes over, how it is prepared and collected, what chain.json says."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from calibrate_helpers import changed, finished_runs, quiet, run_study
from segment_helpers import CHAIN, assert_state, page, planned, run_with, write_chain, write_copies
from store_helpers import row

from precice_lb.campaign import Event, read_study, run_campaign
from precice_lb.case import read_configuration
from precice_lb.chain import Decision, DecisionProblem, Segment
from precice_lb.dataset import load_runs
from precice_lb.exceptions import CalibrationError

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpiexec")]

SPLITS = ({"Left": 2, "Right": 2}, {"Left": 3, "Right": 1})
# These are planted in a test of their own.
PLANTED_ELSEWHERE = ("standard_errors", "border_seconds", "change_seconds")
# What is written when: who, which segment, from when on, on how many ranks, and what its state says.
TRACE = """\
import os, sys
what, name, *rest = sys.argv[1:]
file = f"state-{name}.npy"
lived = open(file).read().splitlines()[-1] if os.path.exists(file) else "nothing"
with open(os.environ["TRACE"], "a") as trace:
    trace.write(f"{what} {name} {' '.join(rest)} after {lived}\\n")
"""


def test_segments_with_changing_ranks_are_one_run(tmp_path: Path) -> None:
    chain = CHAIN.replace("total = 12", "total = 10").replace('carry = ["state-*.npy"]', "")
    study = read_study(write_chain(tmp_path, chain=chain))
    (tmp_path / "case" / "elsewhere").symlink_to(tmp_path)
    directory = tmp_path / "chain"
    events: list[Event] = []
    assert run_with(planned(*SPLITS), study, directory, report=events.append) == directory / "chain.json"
    assert_state(directory / "runs" / "003-Left3-Right1", 10)
    assert_state(directory / "runs" / "001-Left1-Right3", 4)

    written = page(directory)
    # What was planted: 0.6 s and 0.3 s of work, divided by the ranks; who computes longer sets the window.
    segments = []
    for number, split in enumerate(({"Left": 1, "Right": 3}, *SPLITS)):
        seconds = {"Left": 0.6 / split["Left"], "Right": 0.3 / split["Right"]}
        longest = max(seconds.values())
        segments.append(
            {
                "segment": number + 1,
                "run": f"{number + 1:03d}-Left{split['Left']}-Right{split['Right']}",
                "start_window": 4 * number,
                "split": split,
                "windows": (4, 4, 2)[number],
                "window_seconds": pytest.approx(longest, abs=1e-3),
                "seconds": pytest.approx(seconds, abs=1e-3),
                "latest": pytest.approx(seconds, abs=1e-3),
                "wait_share": pytest.approx({name: 1 - s / longest for name, s in seconds.items()}, abs=1e-3),
                **dict.fromkeys(PLANTED_ELSEWHERE, mock.ANY),
                "kind": "move" if number else "start",
                "decision": f"planned for segment {number + 1}" if number else "start as chain.start says",
            }
        )
    assert written == {
        "format": "precice-lb-chain",
        "format_version": 1,
        "study": str(study.path),
        "total_windows": 10,
        "windows_done": 10,
        "segments": segments,
        "next": None,
        "problem": None,
        "unit": "ranks",
    }
    lines = [str(event) for event in events]
    assert lines[0] == (
        f"chain in {directory}: 10 windows; at the start of each segment Right reads Heat as zero, "
        "Left reads Flux as zero (docs/how-to/restart.md)"
    )
    assert lines[1] == "segment 1 of 3: Left 1, Right 3 ranks, windows 1 to 4 of 10 (start as chain.start says)"
    assert lines[-1] == "the chain has come to its end: 10 windows"
    assert len((directory / "campaign.log").read_text().splitlines()) == len(lines) == 8
    # Called again, it is at its end.
    run_with(planned(), study, directory)
    assert page(directory) == written
    with pytest.raises(CalibrationError, match="holds a campaign of another study"):
        run_campaign(study, directory, report=quiet)


def test_the_last_segment_has_what_is_left_without_measurements_and_warm_up_is_at_most_half(tmp_path: Path) -> None:
    chain = CHAIN.replace("windows = 4", "windows = 5").replace("total = 12", "total = 8").replace("state-*.npy", "*")
    study = read_study(write_chain(tmp_path, chain=chain))
    seen: list[tuple[Sequence[Segment], DecisionProblem]] = []

    def decide(segments: Sequence[Segment], question: DecisionProblem) -> Decision:
        seen.append((segments, question))
        return Decision(SPLITS[0], "learn", "")

    run_with(decide, study, tmp_path / "chain")
    runs = sorted((tmp_path / "chain" / "runs").glob("*"))
    patched = [read_configuration(run / "case" / "precice-config.xml").coupling_schemes[0] for run in runs]
    assert [scheme.max_time_windows for scheme in patched] == [5, 3]
    (last,) = load_runs([runs[1] / "stores"])
    assert (last.warmup_stated, len(last.participants["Left"].windows)) == (1, 3)

    assert_state(runs[1], 8)
    sizes = {re.split(r"[-.]", file.name)[2] for file in runs[1].glob("case/**/precice-profiling/*")}
    assert sizes == {"2"}

    ((segments, question),) = seen
    assert (question.windows_left, question.segment_windows, question.limits.budget) == (3, 3, 4)
    assert {name: counts.tolist() for name, counts in question.limits.counts.items()} == {
        "Left": [1, 2, 3],
        "Right": [1, 2, 3],
    }
    assert (list(question.failed), dict(question.earlier)) == ([], {})
    assert segments[0].split == {"Left": 1, "Right": 3}
    assert (segments[0].windows, segments[0].latest["Left"]) == (5, pytest.approx(0.6, abs=1e-3))
    assert question.schedule.window_seconds(dict(segments[0].seconds)) == pytest.approx(0.6, abs=1e-3)


def rows_of_uneven_windows(name: str, size: int) -> list[Any]:
    """Rows of two windows of warm-up and 22 more, of two coupling iterations each, in units of 1 ms.

    Left computes for 2.0 and 2.4 in turn, Right for 1.0, and for 1.02 in the last eight windows, which is too little
    more to be found as the end of a warm-up. Of each iteration 0.1 is transfer. On two ranks all takes 100 000 times
    as long.
    """
    compute = [2.0, 2.4] * 11 if name == "Left" else [1.0] * 14 + [1.02] * 8
    unit = 100.0 if size == 2 else 1e-3
    return [
        row(window, unit * (seconds / 2 - 0.1), unit * 0.1, unit * 0.1, iteration=iteration, complete=iteration == 2)
        for window, seconds in enumerate([9.0, 9.0, *compute], start=1)
        for iteration in (1, 2)
    ]


def test_a_segment_tells_what_its_border_took_and_how_much_its_windows_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time passes where a command writes so many seconds into a file.
    passed = tmp_path / "passed"
    passed.touch()
    clock = SimpleNamespace(monotonic=lambda: math.fsum(map(float, passed.read_text().split())))
    monkeypatch.setattr("precice_lb.chain.segments.time", clock)
    path = write_copies(
        tmp_path,
        chain=CHAIN.replace("windows = 4", "windows = 24").replace("total = 12", "total = 48"),
        rows_of=rows_of_uneven_windows,
        left=f"""prepare = ["sh -c 'echo {{segment}}00 >> {passed}'"]\ncollect = ["sh -c 'echo 1 >> {passed}'"]""",
        right=f"""prepare = ["sh -c 'echo 10 >> {passed}'"]""",
    )

    run_with(planned({"Left": 2, "Right": 2}), read_study(path), tmp_path / "chain")

    first, second = page(tmp_path / "chain")["segments"]
    # Left's preparation, Right's, and Left's collection.
    assert first["change_seconds"] == 100 + 10 + 1
    assert second["change_seconds"] == 200 + 10 + 1
    # Left took longer than Right: two windows of 9 ms, and 22 of 2.2 ms in the mean.
    run_seconds = finished_runs(tmp_path / "chain")[0].seconds
    assert first["border_seconds"] == pytest.approx(run_seconds - 0.0664 + 111, abs=2e-3)
    # The windows that were made beforehand take longer than the copying run.
    assert second["border_seconds"] == 211
    assert first["seconds"] == pytest.approx({"Left": 2.2e-3, "Right": 1.0e-3})
    assert first["latest"] == pytest.approx({"Left": 2.2e-3, "Right": 1.02e-3})
    assert first["window_seconds"] == pytest.approx(2.2e-3)
    assert first["wait_share"] == pytest.approx({"Left": 0.2 / 2.2, "Right": 22 * 0.2 / (14 * 1.0 + 8 * 1.02)})
    # A median absolute deviation of 0.2 ms makes a standard deviation for normal noise (/ 0.6745), larger for few
    # windows (22 / 21.2); the standard error of a median of 22 is 1.2533 times that of their mean.
    error_of_left = 1.2533 * (0.2e-3 / 0.6745) * (22 / 21.2) / math.sqrt(22)
    assert first["standard_errors"]["Left"] == pytest.approx(error_of_left, rel=1e-3)


def test_every_segment_is_prepared_after_its_state_is_laid_in_and_collected_at_its_end(tmp_path: Path) -> None:
    left = """\
prepare = ["python trace.py prepare Left {segment} {start_time} {ranks}"]
collect = ["python trace.py collect Left {segment} {start_time} {ranks}", "python trace.py again Left {segment}"]
templates = ["dict.in"]
"""
    path = write_copies(
        tmp_path,
        chain=f"[case.environment]\nTRACE = '{tmp_path}/trace'\n{CHAIN}",
        left=left,
        right='collect = ["python trace.py collect Right {segment}"]',
    )
    (tmp_path / "case" / "trace.py").write_text(TRACE)
    (tmp_path / "case" / "dict.in").write_text("segment {segment} from {start_time} on {ranks}")
    changed(tmp_path / "case" / "precice-config.xml", ('size value="1"', 'size value="0.1"'))
    study = read_study(path)
    run_with(planned(*SPLITS), study, tmp_path / "chain")
    after = ("1 0 1", "2 0.4 2", "3 0.8 3")
    assert (tmp_path / "trace").read_text().splitlines() == [
        "prepare Left 1 0 1 after nothing",
        *(f"{what} Left 1{place} after {after[0]}" for what, place in (("collect", " 0 1"), ("again", ""))),
        "collect Right 1 after 1 0 3",
        f"prepare Left 2 0.4 2 after {after[0]}",
        *(f"{what} Left 2{place} after {after[1]}" for what, place in (("collect", " 0.4 2"), ("again", ""))),
        "collect Right 2 after 2 0.4 2",
        f"prepare Left 3 0.8 3 after {after[1]}",
        *(f"{what} Left 3{place} after {after[2]}" for what, place in (("collect", " 0.8 3"), ("again", ""))),
        "collect Right 3 after 3 0.8 1",
    ]
    filled = [path.read_text() for path in sorted(tmp_path.glob("chain/runs/*/case/dict"))]
    assert filled == [f"segment {n} from {t} on {n}" for n, t in ((1, "0"), (2, "0.4"), (3, "0.8"))]
    # The same study calibrates: its runs are like a first segment, and nothing is collected.
    (tmp_path / "trace").unlink()
    changed(path, ("windows = 7", "windows = 4\nsplits = [{Left=1, Right=1}]"))
    run_study(path)
    assert (tmp_path / "trace").read_text().splitlines() == ["prepare Left 1 0 1 after nothing"]


def test_a_chain_without_a_start_begins_at_the_even_split(tmp_path: Path) -> None:
    chain = CHAIN.replace("start = {Left = 1, Right = 3}\n", "").replace("total = 12", "total = 4")

    run_with(planned(), read_study(write_copies(tmp_path, chain=chain)), tmp_path / "chain")

    (run,) = finished_runs(tmp_path / "chain")
    assert dict(run.split) == {"Left": 2, "Right": 2}
    assert page(tmp_path / "chain")["unit"] == "ranks"


def test_a_chain_of_participants_with_threads_counts_cores(tmp_path: Path) -> None:
    chain = CHAIN.replace("total = 12", "total = 4").replace("Left = 1", "Left = 2").replace("Right = 3", "Right = 2")

    study = read_study(write_copies(tmp_path, chain=chain, left="threads = 2"))
    run_with(planned(), study, tmp_path / "chain")

    written = page(tmp_path / "chain")
    assert (written["unit"], written["segments"][0]["split"]) == ("cores", {"Left": 2, "Right": 2})


def run_and_note_questions(study: Path, directory: Path) -> list[DecisionProblem]:
    """Run a chain that stays at its first split; return what it was asked to decide on."""
    asked: list[DecisionProblem] = []

    def decide(segments: Sequence[Segment], question: DecisionProblem) -> Decision:
        asked.append(question)
        return Decision(dict(segments[-1].split), "stay", "stay")

    run_with(decide, read_study(study), directory)
    return asked


def test_the_next_split_is_decided_on_with_earlier_runs_of_the_case(tmp_path: Path) -> None:
    path = write_copies(tmp_path, runs="splits = [{Left=1, Right=1}, {Left=3, Right=1}]")
    run_study(path)
    changed(path, ("splits = [", "existing = ['campaign']\nsplits = ["))

    asked = run_and_note_questions(path, tmp_path / "chain")

    # The first of three segments has the split of the study.
    assert len(asked) == 2
    assert sorted(asked[0].earlier["Left"][:, 0]) == [1, 3]
    # Each computes for 1 s; of the waiting, 0.5 s in all windows of both are the transfer of data.
    assert asked[0].earlier["Left"][:, 1] == pytest.approx([1.5, 1.5])


@pytest.mark.slow("a chain of real runs")
def test_a_chain_learns_from_calibration_runs_of_its_case(tmp_path: Path) -> None:
    path = write_chain(tmp_path, runs="splits = [{Left=1, Right=1}, {Left=3, Right=1}]")
    study = path.read_text()
    path.write_text(study.replace("[chain]", "[case.parameter]\ncells = 10\n\n[chain]"))
    run_campaign(read_study(path), tmp_path / "small", report=quiet)
    path.write_text(study.replace("[chain]", "[case.parameter]\ncells = 20\n\n[chain]"))
    run_study(path)
    path.write_text(path.read_text().replace("splits = [", "existing = ['small', 'campaign']\nsplits = ["))
    asked = run_and_note_questions(path, tmp_path / "chain")
    # The first of three segments has the split of the study.
    assert len(asked) == 2
    for question in asked:
        for name, work in (("Left", 0.6), ("Right", 0.3)):
            ranks, seconds, errors = question.earlier[name].T
            assert sorted(ranks) == ([1, 3] if name == "Left" else [1, 1])
            np.testing.assert_allclose(seconds, work / ranks, atol=1e-3)
            assert (errors < 0.01).all()
