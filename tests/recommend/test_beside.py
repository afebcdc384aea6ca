"""What participants on one node cost each other: planted slow-downs are found, and samples taken to a placement."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibrate_helpers import CONFIGURATION, write_case, write_study
from report_helpers import START, configuration
from store_helpers import row, write_store

from precice_lb.calibrate import read_study, run_campaign
from precice_lb.calibrate.state import CampaignState, RunRecord, Settings
from precice_lb.cli import main
from precice_lb.dataset import CoupledRun, load_runs, measurements_from_runs
from precice_lb.exceptions import StudyError
from precice_lb.precice_xml import parse_configuration
from precice_lb.precice_xml.turns import take_turns
from precice_lb.recommend.beside import placed, share_beside, slow_downs
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints

SLOWER = {"Inner": 1.5, "Outer": 1.2}
SPLITS = [{"Inner": 1, "Outer": 3}, {"Inner": 3, "Outer": 1}, {"Inner": 2, "Outer": 2}]
SHARED = Constraints(cores_per_node=8)
OWN = Constraints(cores_per_node=8, whole_nodes=True)


def alone(name: str, ranks: int) -> float:
    return {"Inner": 0.1 + 3.0 / ranks, "Outer": 0.1 + 2.0 / ranks}[name]


def beside(split: Mapping[str, int]) -> dict[str, float]:
    """Seconds of two that begin together, each slower for as long as the other computes too."""
    slow = {name: alone(name, ranks) * SLOWER[name] for name, ranks in split.items()}
    first, last = sorted(slow, key=lambda name: slow[name])
    # What the later one has not done by then, it does alone.
    return {first: slow[first], last: slow[first] + alone(last, split[last]) - slow[first] / SLOWER[last]}


def write(
    directory: Path, split: Mapping[str, int], how: str, number: int = 0, noise: float = 0.0, **more: Any
) -> None:
    """Write the stores of a run: participants beside each other on one node, on nodes of their own, or in turns."""
    own = beside(split) if how == "beside" else {name: alone(name, ranks) for name, ranks in split.items()}
    window = sum(own.values()) if how == "turns" else max(own.values())
    random = np.random.default_rng(number)
    text = configuration("serial" if how == "turns" else "parallel")
    for name, ranks in split.items():
        node = name if how == "own" else "node"
        for rank in range(ranks):
            rows = []
            for at in range(1, 9):
                seconds = own[name] * (1 + noise * random.standard_normal())
                wait = max(window - seconds, 0.0) + 1e-4
                rows.append(row(at, seconds - 2e-4, wait + 2e-4, wait, 1e-4))
            write_store(
                directory, rows, name, rank, ranks, configuration=text, started_unix_ns=START + number * 60 * 10**9,
                run=directory.name, hostname=node, cpus="0-7", **more,
            )  # fmt: skip


def runs_of(directory: Path, how: str, **more: Any) -> list[CoupledRun]:
    for number, split in enumerate(SPLITS):
        write(directory / how / str(number), split, how, number, **more)
    return load_runs([directory / how], warmup=1)


def test_stores_tell_who_computed_beside_whom(tmp_path: Path) -> None:
    for how in ("own", "turns"):
        assert {share_beside(run, name) for run in runs_of(tmp_path, how) for name in SLOWER} == {0.0}
    for run in runs_of(tmp_path, "beside"):
        seconds = beside({name: part.ranks for name, part in run.participants.items()})
        least = min(seconds.values())
        for name in SLOWER:
            assert share_beside(run, name) == pytest.approx(least / seconds[name], rel=1e-3)
    for number, split in enumerate(SPLITS):
        write(tmp_path / "emulated" / str(number), split, "beside", emulated_load=True)
    assert all(math.isnan(share_beside(run, "Inner")) for run in load_runs([tmp_path / "emulated"], warmup=1))


@pytest.mark.parametrize("how", ["own", "turns"])
def test_planted_slow_downs_are_found(tmp_path: Path, how: str) -> None:
    exact = [*runs_of(tmp_path, "beside"), *runs_of(tmp_path, how)]
    assert slow_downs(exact) == pytest.approx(SLOWER, rel=1e-3)
    noisy = [*runs_of(tmp_path / "noisy", "beside", noise=0.03), *runs_of(tmp_path / "noisy", how, noise=0.03)]
    assert slow_downs(noisy) == pytest.approx(SLOWER, rel=0.05)
    # Without both kinds of runs nothing is known.
    assert slow_downs(exact[:3]) == slow_downs(exact[3:]) == {}


@pytest.mark.parametrize(("measured", "constraints"), [("beside", OWN), ("own", SHARED), ("beside", SHARED)])
def test_samples_are_taken_to_the_placement_of_the_split(
    tmp_path: Path, measured: str, constraints: Constraints
) -> None:
    runs, turns = runs_of(tmp_path, measured), runs_of(tmp_path, "turns" if measured == "beside" else "beside")
    found = placed(measurements_from_runs(runs), runs, turns, constraints)
    for name, rows in found.samples.items():
        expected = [alone(name, int(ranks)) * (1.0 if constraints is OWN else SLOWER[name]) for ranks in rows[:, 0]]
        np.testing.assert_allclose(rows[:, 1], expected, rtol=1e-2)
        assert f"{name} takes {SLOWER[name]:.2f} times as long as alone" in " ".join(found.remarks)
    assert found.runs == ()


def test_where_it_makes_no_difference_measurements_stay(tmp_path: Path) -> None:
    runs, turns = runs_of(tmp_path, "own"), runs_of(tmp_path, "turns")
    measurements = measurements_from_runs(runs)
    assert placed(measurements, runs, [], Constraints()) is measurements
    assert placed(measurements, runs, turns, OWN).remarks == measurements.remarks
    known = placed(measurements, runs, runs_of(tmp_path, "beside"), OWN)
    assert known.runs == measurements.runs
    assert len(known.remarks) == 2


def test_without_nodes_a_slow_down_is_said_and_not_used(tmp_path: Path) -> None:
    runs, turns = runs_of(tmp_path, "beside"), runs_of(tmp_path, "turns")
    measurements = measurements_from_runs(runs)
    found = placed(measurements, runs, turns, Constraints())
    assert "Inner takes 1.50 times as long as alone and Outer takes 1.20 times" in found.remarks[-1]
    assert "nodes are not stated" in found.remarks[-1]
    assert found.samples is measurements.samples


@pytest.mark.parametrize(("measured", "constraints", "said"), [
    ("own", SHARED, "may share nodes with others; no runs say how much slower"),
    ("beside", OWN, "gets nodes of its own, and was measured beside others"),
])  # fmt: skip
def test_without_such_runs_none_is_assumed_and_said(
    tmp_path: Path, measured: str, constraints: Constraints, said: str
) -> None:
    runs = runs_of(tmp_path, measured)
    measurements = measurements_from_runs(runs)
    found = placed(measurements, runs, [], constraints)
    assert sum(said in remark for remark in found.remarks) == 2
    for name, rows in found.samples.items():
        np.testing.assert_array_equal(rows, measurements.samples[name])


def test_a_campaign_s_runs_in_turns_reach_the_recommendation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = []
    for in_turns in (False, True):
        for split in SPLITS:
            name = f"00{len(records)}"
            write(tmp_path / "runs" / name / "stores", split, "turns" if in_turns else "beside", len(records))
            records.append(
                RunRecord(len(records) + 1, name, split, f"runs/{name}", "", "", outcome="finished", in_turns=in_turns)
            )
    CampaignState({}, records, Settings(4, {"Inner": 1, "Outer": 1}, {}, {}, [])).save(tmp_path)
    machine = ["--nodes", "2", "--cores-per-node", "2", "--whole-nodes", "--learner", "interpolation"]
    assert main(["recommend", str(tmp_path), *machine, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["split"] == {"Inner": 2, "Outer": 2}
    # Runs in turns are no samples.
    assert all(len(rows) == 3 for rows in found["measurements"]["samples"].values())
    assert found["window_seconds"] == pytest.approx(alone("Inner", 2), rel=1e-2)
    assert sum("times as long as alone" in warning for warning in found["warnings"]) == 2


def test_configurations_are_made_serial(tmp_path: Path) -> None:
    source, target = tmp_path / "precice-config.xml", tmp_path / "turns.xml"
    initial = CONFIGURATION.replace('to="Right" />', 'to="Right" initialize="true" />').replace(
        'to="Left" />', 'to="Left" initialize="true" />'
    )
    source.write_text(initial)
    take_turns(source, target)
    text = target.read_text()
    assert text == initial.replace("parallel-explicit", "serial-explicit").replace(
        'to="Right" initialize="true"', 'to="Right" initialize="false"'
    )
    assert "<!-- kept as it is -->" in text
    schedule = Schedule.from_config(parse_configuration(text))
    assert float(schedule.window_seconds({"Left": 1.0, "Right": 2.0})) == 3.0


def test_a_campaign_measures_each_split_in_turns_too(tmp_path: Path) -> None:
    write_case(tmp_path)
    study = read_study(write_study(tmp_path, runs="beside = true\nsplits = [{Left=1, Right=2}]"))
    result = run_campaign(study, tmp_path / "campaign", report=lambda event: None)
    assert [(run.outcome, run.in_turns, run.split) for run in result.runs] == [
        ("finished", in_turns, {"Left": 1, "Right": 2}) for in_turns in (False, True)
    ]
    assert [run.in_turns for run in result.finished] == [False]
    for run in result.runs:
        text = (tmp_path / "campaign" / run.directory / "case" / "precice-config.xml").read_text()
        assert ("<coupling-scheme:serial-explicit>" in text) is run.in_turns
        assert ("<coupling-scheme:parallel-explicit>" in text) is not run.in_turns
    # Called again, nothing is missing.
    assert run_campaign(study, tmp_path / "campaign", report=lambda event: None).runs == result.runs
    # After a kill before the run in turns, that alone is.
    state = CampaignState.load(tmp_path / "campaign")
    assert state is not None
    del state.runs[1:]
    state.save(tmp_path / "campaign")
    shutil.rmtree(tmp_path / "campaign" / result.runs[1].directory)
    again = run_campaign(study, tmp_path / "campaign", report=lambda event: None).runs
    assert [(run.outcome, run.in_turns) for run in again] == [("finished", False), ("finished", True)]


@pytest.mark.parametrize("kind", ["serial-explicit", "parallel-implicit"])
def test_other_couplings_are_refused_before_anything_runs(tmp_path: Path, kind: str) -> None:
    case = write_case(tmp_path)
    limits = '<max-iterations value="3" /><relative-convergence-measure data="Flux" mesh="B-Mesh" limit="1e-3" />'
    text = CONFIGURATION.replace("parallel-explicit", kind)
    if kind == "parallel-implicit":
        text = text.replace("</coupling-scheme", f"{limits}</coupling-scheme")
    (case / "precice-config.xml").write_text(text)
    with pytest.raises(
        StudyError, match=f"runs.beside: .*expected one .*parallel-explicit.*found coupling-scheme:{kind}"
    ):
        read_study(write_study(tmp_path, runs="beside = true"))
