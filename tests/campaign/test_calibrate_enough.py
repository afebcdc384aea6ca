"""Runs that end once they have measured enough: what was planted is known, noise goes on, decisions stay."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from calibrate_helpers import (
    COUPLED,
    DRIVER,
    alive,
    changed,
    launcher_of,
    recording,
    run_study,
    state_of,
    write_study,
)
from clock_helpers import Clock
from store_helpers import PARALLEL, metadata, row, rows, write_store

from precice_lb import recommend_split
from precice_lb.campaign import CalibrationDesign, CampaignResult, Proposal, read_study
from precice_lb.campaign.enough import Enough, look
from precice_lb.campaign.runs import CampaignRuns
from precice_lb.dataset import remarks
from precice_lb.models.posterior import counted_noise
from precice_lb.store import StoreWriter, note_stop, read_store

EMBEDDED = '[case.environment]\nPRECICE_LB_BACKEND = "embedded"\nNOISE = "{noise}"'
# A window takes up to so many times as long as planted, in an order that shows no drift.
NOISY = COUPLED.replace("work / comm.size)", "work / comm.size * (1 + float(os.environ['NOISE']) * (lived * 5 % 7)))")


def study(directory: Path, noise: float, windows: int, runs: str = "") -> Path:
    splits = "splits = [{Left=1, Right=3}, {Left=3, Right=1}]"
    directory.mkdir()
    path = write_study(directory, solver=NOISY, runs=f"{splits}\n{runs}", extra=EMBEDDED.format(noise=noise))
    return recording(changed(path, ("windows = 7", f"windows = {windows}")), Left=0.18, Right=0.06)


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
def test_a_quiet_run_ends_early_a_noisy_one_goes_on_and_the_decision_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Sleeping ranks are late on a busy machine, by a part of what is planted as noise.
    monkeypatch.setattr("precice_lb.campaign.design.NEEDED_PART", 3)
    # So many windows that a campaign on a busy machine, which looks late, still ends the quiet runs early.
    quiet = run_study(study(tmp_path / "quiet", 0, 600))
    noisy = run_study(study(tmp_path / "noisy", 0.5, 10))
    assert len(quiet.finished) == 2
    for run in quiet.finished:
        assert run.windows is not None
        assert 8 <= run.windows < 600
        assert run.ended.startswith("more would tell no more; standard errors Left ")
    assert [run.windows for run in noisy.finished] == [10] * 2
    assert all(run.ended.startswith("no more to run; standard errors") for run in noisy.finished)
    assert remarks(quiet.coupled_runs()) == ()
    splits = [recommend_split(state.measurements(), 4).split for state in (quiet, noisy)]
    assert splits == [{"Left": 3, "Right": 1}] * 2
    assert alive(tmp_path / "quiet" / "campaign") == []


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
def test_a_killed_campaign_goes_on_also_one_of_an_earlier_version(tmp_path: Path) -> None:
    path = study(tmp_path / "case", 0, 600)
    directory = tmp_path / "campaign"
    driver = f"import precice_lb.campaign.design\nprecice_lb.campaign.design.NEEDED_PART = 3\n{DRIVER}"
    campaign = subprocess.Popen([sys.executable, "-c", driver, path, directory])
    while len(list(directory.glob("runs/002*/*.log"))) < 2:
        assert campaign.poll() is None
        time.sleep(0.01)
    campaign.kill()
    campaign.wait()
    (before,) = state_of(directory).finished
    assert before.ended.startswith("more would tell no more")
    state = json.loads((directory / "campaign.json").read_text())
    for run in state["runs"]:
        for key in ("needed", "windows", "ended"):
            del run[key]
    (directory / "campaign.json").write_text(json.dumps(state))
    subprocess.run([sys.executable, "-c", driver, path, directory], check=True)
    first, second, third = state_of(directory).runs
    assert first == replace(before, needed={}, windows=None, ended="")
    assert (second.outcome, third.outcome) == ("interrupted", "finished")
    assert third.windows is not None
    assert third.windows < 600
    assert alive(directory) == []


def written(directory: Path, left: list[float], right: list[float]) -> Path:
    """Stores of a run whose windows take a second more than these, in which each waits for its partner."""
    for name, own in (("A", left), ("B", right)):
        table = [row(number, seconds, 0.5, 0.5) for number, seconds in enumerate(own, 1)]
        write_store(directory, table, name, finished=False, warmup_windows=2)
    return directory


def test_a_run_ends_at_the_least_windows_whose_errors_are_small_enough(tmp_path: Path) -> None:
    stores = written(tmp_path / "one", [9.0, 9.0, *[1.0] * 6], [9.0, 9.0, *[1.0, 1.04] * 3])
    seen = look(stores, "AB")
    assert seen is not None
    assert (seen.windows, seen.steady, seen.drifting) == (8, 6, [])
    # B computes for 1.5 s and 1.54 s in turn: a median absolute deviation of 0.02 s, / 0.6745 for normal noise, is
    # larger for few windows (6 / 5.2); the standard error of a median of six is 1.2533 times that of their mean.
    error_of_b = 1.2533 * (0.02 / 0.6745) * (6 / 5.2) / math.sqrt(6) / 1.52
    assert seen.errors == pytest.approx({"A": 0.0, "B": error_of_b}, rel=1e-3)
    assert seen.suffices({"A": 0.01, "B": seen.errors["B"]})
    assert not seen.suffices({"A": 0.01, "B": seen.errors["B"] * 0.99})
    assert not seen._replace(steady=5).suffices({"A": 0.01, "B": 1.0})
    assert not seen._replace(drifting=["A"]).suffices({"A": 0.01, "B": 1.0})
    # Who has recorded nothing yet is waited for.
    assert look(stores, "ABC") is None
    assert look(tmp_path / "none", "AB") is None
    ask = Enough(stores, {"A": 0.01, "B": 0.01})
    assert ask() == ""
    ends = Enough(stores, {"A": 0.01, "B": 0.1})
    assert (ends(), ends()) == (f"more would tell no more; {seen.words}", "")


def test_windows_are_those_that_all_have_recorded(tmp_path: Path) -> None:
    seen = look(written(tmp_path, [1.0] * 12, [1.0] * 9), "AB")
    assert seen is not None
    assert (seen.windows, seen.steady) == (9, 7)


def test_a_load_that_changes_with_time_is_named(tmp_path: Path) -> None:
    growing = [1.0 + 0.02 * window for window in range(30)]
    seen = look(written(tmp_path, growing, [1.0] * 30), "AB")
    assert seen is not None
    assert seen.drifting == ["A"]


def test_errors_and_changes_of_a_negligible_participant_do_not_matter(tmp_path: Path) -> None:
    # A computes for a millionth of a second, then twice as long, then four times, and waits for the rest of a second.
    # Not in the last window, because what it waits in all of them would count as the transfer of data.
    tiny = [2.0 ** (window // 10) * 1e-6 for window in range(30)]
    waits = [1.0] * 29 + [0.0]
    rows_of_a = [row(number, *times) for number, times in enumerate(zip(tiny, waits, waits, strict=True), 1)]
    rows_of_b = [row(number, 1.0, 0.0, 0.0) for number in range(1, 31)]
    for name, table in (("A", rows_of_a), ("B", rows_of_b)):
        write_store(tmp_path, table, name, finished=False, warmup_windows=2)
    seen = look(tmp_path, "AB")
    assert seen is not None
    assert (seen.errors, seen.drifting) == ({"A": 0.0, "B": 0.0}, [])


@pytest.mark.parametrize(
    ("look_seconds", "too_early", "late_enough"),
    [
        # 5 % of a core are 0.1 s in 2 s.
        (0.1, 2.0, 2.2),
        (0.001, 0.25, 0.35),
    ],
)
def test_looks_at_a_run_take_at_most_5_percent_of_a_core_and_are_03_seconds_apart(
    look_seconds: float, too_early: float, late_enough: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looked_at = Clock(), list[float]()

    def slow_look(stores: Path, names: Collection[str]) -> None:
        looked_at.append(clock.now)
        clock.now += look_seconds

    # All of the time that passes is spent on looking.
    monkeypatch.setattr("precice_lb.campaign.enough.look", slow_look)
    monkeypatch.setattr(
        "precice_lb.campaign.enough.time",
        SimpleNamespace(monotonic=clock.monotonic, process_time=clock.monotonic),
    )
    ask = Enough(tmp_path, {"A": 0.01})
    for now in (0.0, too_early, late_enough):
        clock.now = now
        assert ask() == ""

    assert looked_at == [0.0, late_enough]


def test_what_is_small_enough_is_a_third_of_the_noise_that_counts() -> None:
    # Readings of noise 0.01 and 0.02 count 10,000 and 2,500 times: 6,250 in the mean.
    levels = np.array([0.5, 0.5, 0, 0, 0, 0, 0])
    assert counted_noise(levels) == pytest.approx(6250**-0.5, rel=1e-12)
    design = CalibrationDesign(["A", "B"], 8)
    assert design.needed() == dict.fromkeys("AB", counted_noise() / 3)
    design.tell({"A": 4, "B": 4}, {"A": 1.0, "B": 2.0})
    models = design.recommendation().models
    assert design.needed() == {name: counted_noise(models[name].levels_) / 3 for name in "AB"}


def test_a_spool_that_was_cut_at_any_byte_says_why_its_run_was_stopped(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path, metadata(), PARALLEL)
    ends = []
    for window in (1, 2):
        writer.append(rows([row(window, 1.0, 0.5, 0.5)]))
        ends.append(writer.path.stat().st_size)
    writer.close_spool()
    whole = writer.path.read_bytes()
    for end in range(ends[0], ends[1] + 1):
        writer.path.write_bytes(whole[:end])
        note_stop(writer.path, "enough")
        store = read_store(writer.path)
        assert len(store.advances) == (2 if end == ends[1] else 1)
        assert (store.metadata["stopped"], store.metadata["finished"]) == ("enough", False)
        assert store.metadata["ended_unix_ns"] > store.metadata["started_unix_ns"]


@pytest.mark.usefixtures("mpiexec")
def test_ranks_that_cannot_be_stopped_for_sure_or_shall_run_all_windows_run_to_their_end(tmp_path: Path) -> None:
    template, mpi = launcher_of("template", participant="go {command}"), launcher_of("mpiexec", oversubscribe=True)
    proposal, whole = Proposal({"Left": 1, "Right": 3}, "", needed={"Left": 1.0}), "all_windows = true"
    for launcher, keys, needed in ((template, "", {}), (mpi, whole, {}), (mpi, "", proposal.needed)):
        path = study(tmp_path / f"{launcher.name} {keys}", 0, 7, keys)
        assert CampaignRuns(read_study(path), launcher, CampaignResult({})).record(proposal).needed == needed
