"""Energy: what Slurm says is read as it prints it, planted watts are found again, and the least joules are chosen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from report_helpers import START, write_run
from test_recommend import CASE

from precice_lb.calibrate import load_campaign
from precice_lb.calibrate.energy import energy_of, note_energy, read_sacct
from precice_lb.calibrate.schedulers.slurm import SlurmScheduler
from precice_lb.calibrate.state import CampaignState, RunRecord, Settings
from precice_lb.cli import main
from precice_lb.exceptions import DataError
from precice_lb.recommend import recommend_split
from precice_lb.recommend.energy import MeasuredEnergy, joules_per_window, watts_of
from precice_lb.split import tradeoff_curve

SACCT = """\
4711|352100|61
4712+0|100000|50
4712+1|700000|50
4713||12
4714|0|12
4715|18446744073709551614|12
4716+0|5000|10
4716+1||10
4717|4294967294|12
4718|1000|0
4719|1000|Unknown
"""
NAMES = ("Fluid", "Solid")


def test_what_sacct_prints_is_read_and_what_is_missing_left_out() -> None:
    assert read_sacct(SACCT) == {"4711": [(352100.0, 61.0)], "4712": [(100000.0, 50.0), (700000.0, 50.0)]}
    assert read_sacct("") == read_sacct("Slurm accounting storage is disabled\n") == {}


def test_who_consumed_what() -> None:
    split = {"Fluid": 6, "Solid": 2}
    assert energy_of([(80.0, 10.0)], split) == [MeasuredEnergy(split, 80.0, 10.0)]
    assert energy_of([(80.0, 10.0), (20.0, 10.0)], split) == [
        MeasuredEnergy({"Fluid": 6}, 80.0, 10.0),
        MeasuredEnergy({"Solid": 2}, 20.0, 10.0),
    ]
    assert energy_of([], split) == energy_of([(1.0, 1.0)] * 3, split) == []


def planted(watts: dict[str, float], splits: list[dict[str, int]]) -> list[MeasuredEnergy]:
    """Jobs of different lengths in which cores drew so many watts."""
    return [
        MeasuredEnergy(split, seconds * sum(watts[name] * count for name, count in split.items()), seconds)
        for seconds, split in enumerate(splits, start=30)
    ]


def test_planted_watts_are_found_again() -> None:
    watts = {"Fluid": 12.0, "Solid": 3.0}
    jobs = [{"Fluid": 8, "Solid": 8}, {"Fluid": 12, "Solid": 4}, {"Fluid": 4, "Solid": 12}]
    assert watts_of(planted(watts, jobs), NAMES) == pytest.approx(watts)
    components = [{"Fluid": 8}, {"Solid": 8}]
    assert watts_of(planted(watts, components), NAMES) == pytest.approx(watts)
    # One job, or one ratio: both participants' cores count alike.
    for few in (jobs[:1], [{"Fluid": 4, "Solid": 4}, {"Fluid": 8, "Solid": 8}]):
        assert watts_of(planted(watts, few), NAMES) == pytest.approx({"Fluid": 7.5, "Solid": 7.5})
    assert joules_per_window(watts, {"Fluid": 2, "Solid": 4}, 0.5) == 18.0


def test_the_least_energy_of_all_budgets_is_chosen() -> None:
    watts = {"Fluid": 40.0, "Solid": 2.0}
    energy = planted(watts, [{"Fluid": 96, "Solid": 96}, {"Fluid": 48, "Solid": 144}])
    found = recommend_split(CASE, 300, prefer="energy", energy=energy, learner="interpolation")
    times = {name: np.asarray(found.models[name].predict(np.arange(1.0, 300.0)[:, None])) for name in CASE}
    low = {name: int(rows[:, 0].min()) for name, rows in CASE.items()}
    high = {name: min(int(rows[:, 0].max()), 299) for name, rows in CASE.items()}
    # The best split of each budget, and of those the one of least energy.
    curve = tradeoff_curve(times, 300, minimum_ranks=low, maximum_ranks=high)
    least = min(joules_per_window(watts, point.split, point.window_seconds) for point in curve.points)
    assert found.plan is not None
    assert found.plan.prefer == "energy"
    assert found.plan.watts == pytest.approx(watts)
    assert found.plan.joules_per_window == pytest.approx(
        joules_per_window(watts, found.split, found.window_seconds), rel=1e-6
    )
    # Curves for show have fewer budgets than all.
    assert least * (1 - 1e-6) <= found.plan.joules_per_window <= 1.05 * least
    assert sum(found.split.values()) < sum(recommend_split(CASE, 300, prefer="time").split.values())
    assert found.to_dict()["plan"]["joules_per_window"] == pytest.approx(found.plan.joules_per_window)


@pytest.mark.parametrize("energy", [[], [MeasuredEnergy({"Fluid": 4}, 100.0, 1.0)]])
def test_without_measured_energy_nothing_is_guessed(energy: list[MeasuredEnergy]) -> None:
    with pytest.raises(DataError, match=r"prefer energy: expected runs of all .* found none of .*Solid; prefer time"):
        recommend_split(CASE, 300, prefer="energy", energy=energy)


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A campaign of five runs whose jobs are not yet accounted for."""
    directory = tmp_path / "campaign"
    splits = [{"Inner": n, "Outer": 12 - n} for n in (3, 5, 7, 8, 9)]
    runs = []
    for number, split in enumerate(splits, start=1):
        name = f"00{number}"
        write_run(directory / "runs" / name / "stores", split, start=START + number * 60 * 10**9, run=name)
        runs.append(RunRecord(number, name, split, f"runs/{name}", "", "", outcome="finished", job=str(4710 + number)))
    CampaignState({}, runs, Settings(12, {"Inner": 1, "Outer": 1}, {}, {}, [])).save(directory)
    return directory


def test_a_campaign_keeps_what_its_jobs_consumed(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["recommend", str(campaign), "--prefer", "energy", "--format", "json"]
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("prefer energy: expected runs") == 1
    state = CampaignState.load(campaign)
    assert state is not None
    names = ("Inner", "Outer")
    # As the study writes it; the components of its job are in the participants' order.
    state.runs[0].split = dict(reversed(state.runs[0].split.items()))
    lines = [f"{run.job}|{600 * sum(run.split.values())}|60" for run in state.runs[1:-1]]
    lines += [f"4711+{at}|{600 * state.runs[0].split[name]}|60" for at, name in enumerate(names)]
    # The last one is not accounted for.
    (tmp_path / "said").write_text("\n".join([*lines, "4715||60\n"]))
    for name in ("sbatch", "squeue", "scancel", "sacct"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/asked\ncat {tmp_path}/said\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    note_energy(state, None, names)
    assert not any(run.energy for run in state.runs)
    note_energy(state, SlurmScheduler(), names)
    asked = (tmp_path / "asked").read_text()
    assert "--jobs=4711,4712,4713,4714,4715 --format=JobID,ConsumedEnergyRaw,ElapsedRaw" in asked
    state.save(campaign)
    result = load_campaign(campaign)
    assert result is not None
    parts = [{"Inner": 3}, {"Outer": 9}]
    assert [each.split for each in result.energy] == [*parts, *(run.split for run in state.runs[1:-1])]
    assert [each.joules for each in result.energy[:2]] == [1800, 5400]
    assert main(arguments) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert plan["watts"] == {"Inner": pytest.approx(10.0), "Outer": pytest.approx(10.0)}
    assert main(arguments[:-2]) == 0
    assert "for the least energy:" in " ".join(capsys.readouterr().out.split())
