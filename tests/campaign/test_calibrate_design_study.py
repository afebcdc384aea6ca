"""The design that a study asks for, on campaigns whose runs leave real stores without any process being started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibrate_helpers import CONFIGURATION, changed, run_of, write_study
from emulation import CostLaw
from store_helpers import row, write_store

from precice_lb.campaign import CampaignResult, Proposal, Study, StudyDesign, existing_runs, read_study
from precice_lb.dataset import Measurements
from precice_lb.exceptions import StudyError
from precice_lb.recommend import recommend_split
from precice_lb.schedule import Schedule

LAWS = {"Left": CostLaw(0.005, 1.8, 0.09, 0.006), "Right": CostLaw(0.005, 0.6, 0.05, 0.006)}


def study_of(directory: Path, runs: str = "") -> Study:
    return read_study(changed(write_study(directory, runs=runs), ("ranks = 4", "ranks = 16")))


def write_run(stores: Path, split: dict[str, int], seed: int, **metadata: Any) -> None:
    """Leave the stores of a run: twelve windows of the law's seconds with noise."""
    rng = np.random.default_rng(seed)
    compute = {name: float(LAWS[name].seconds(p)) * np.exp(0.01 * rng.standard_normal(12)) for name, p in split.items()}
    wall = np.max(list(compute.values()), axis=0) + 1e-4
    for name, seconds in compute.items():
        table = [row(w + 1, seconds[w], wall[w] - seconds[w], wall[w] - seconds[w]) for w in range(12)]
        for rank in range(split[name]):
            more = {"configuration": CONFIGURATION, "warmup_windows": 2, "run": f"run{seed}", **metadata}
            write_store(stores, table, name, rank, split[name], **more)


def begun(study: Study, directory: Path) -> CampaignResult:
    """The state of a campaign as a process finds it that goes on with it."""
    return CampaignResult.load(directory) or CampaignResult(study.identity(), directory=directory)


def play(study: Study, directory: Path, most: int = 20) -> tuple[list[Proposal], StudyDesign]:
    """Ask, leave a run's stores and enter it into the state, until nothing is asked for any more."""
    directory.mkdir(exist_ok=True)
    asked: list[Proposal] = []
    while True:
        # A new one each time: all it knows is in the directory, as after a kill.
        state = begun(study, directory)
        design = StudyDesign(study, state)
        proposal = design.ask() if len(asked) < most else None
        if proposal is None:
            return asked, design
        record = run_of(len(state.runs) + 1, proposal.split)
        write_run(directory / record.directory / "stores", proposal.split, record.number)
        state.runs.append(record)
        state.save()
        asked.append(proposal)


def lost(study: Study, measurements: Measurements) -> float:
    """True regret of the split that is recommended."""
    schedule = Schedule.from_config(study.configuration_path)
    split = recommend_split(measurements, 16, coupling=schedule).split
    best = min(max(LAWS["Left"].seconds(p), LAWS["Right"].seconds(16 - p)) for p in range(1, 16))
    return float(max(LAWS[name].seconds(p) for name, p in split.items()) / best - 1)


def test_a_campaign_measures_few_runs_and_finds_the_best_split(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    asked, design = play(study, tmp_path / "campaign")
    assert 2 <= len(asked) <= study.runs.maximum == design.total == 5
    assert asked[0].reason == "the even split, since nothing is measured yet"
    assert all("expected regret" in proposal.reason for proposal in asked[1:])
    assert design.conclusion
    result = begun(study, tmp_path / "campaign")
    before = result.measurements()
    assert all(len(rows) == len(asked) for rows in before.samples.values())
    assert lost(study, before) <= 0.02
    # A run that lacks a rank is left out, and that is said.
    sorted((result.stores[0]).rglob("Left-*.h5"))[-1].unlink()
    after = result.measurements()
    assert len(after.samples["Left"]) == len(before.samples["Left"]) - 1
    assert any("is not used" in text and "the slowest may be missing" in text for text in after.remarks)


def test_no_split_out_of_the_bounds_of_a_study_is_measured(tmp_path: Path) -> None:
    bounds = {"left": "ranks = [4, 5, 6, 7]", "right": "ranks = [1, 2, 3]"}
    study = read_study(changed(write_study(tmp_path, **bounds), ("ranks = 4\n", "ranks = 16\n")))
    assert study.bounds == {"Left": (4, 7), "Right": (1, 3)}
    asked, _ = play(study, tmp_path / "campaign")
    # Beyond the bounds, more ranks of either would be faster.
    assert {"Left": 7, "Right": 3} in [proposal.split for proposal in asked]
    assert all(4 <= one.split["Left"] <= 7 and one.split["Right"] <= 3 for one in asked)


def test_runs_that_failed_are_counted_and_not_asked_for_again(tmp_path: Path) -> None:
    study = study_of(tmp_path, "maximum = 3\ntarget_regret = 0")
    asked, design = play(study, tmp_path / "campaign", 2)
    third = design.ask()
    assert third is not None
    assert design.ask([run_of(3, third.split, "failed")]) is None
    assert design.conclusion == "3 runs made, as many as runs.maximum allows"
    more = study.changed({"runs": study.runs.model_copy(update={"maximum": 9})})
    # Even where another run of the same split ended well: a repetition that fails must not be asked for for ever.
    for failed in (third.split, asked[1].split):
        again = StudyDesign(more, begun(more, tmp_path / "campaign")).ask([run_of(3, failed, "failed")])
        assert again is not None
        assert again.split != failed


def test_runs_made_before_count_as_measurements(tmp_path: Path) -> None:
    write_run(tmp_path / "production", {"Left": 8, "Right": 8}, 77)
    study = study_of(tmp_path, 'existing = ["production"]\ntarget_regret = 0')
    asked, _ = play(study, tmp_path / "campaign", 1)
    assert "expected regret" in asked[0].reason
    assert asked[0].split["Left"] != 8
    with pytest.raises(StudyError, match=r"runs.existing\[1\]: no such directory"):
        study_of(tmp_path / "b", 'existing = ["nowhere"]')


def test_runs_made_before_of_another_case_do_not_count(tmp_path: Path) -> None:
    for cells in (1.0, 2.0):
        write_run(tmp_path / f"{cells:g}", {"Left": 8, "Right": 8}, 77, parameters={"cells": cells})
    study = study_of(tmp_path, 'existing = ["1", "2"]')
    assert len(existing_runs(study)) == 2
    study = study.changed({"case": study.case.model_copy(update={"parameter": {"cells": 2.0}})})
    assert [run.participants["Left"].metadata["parameters"] for run in existing_runs(study)] == [{"cells": 2.0}]


def test_stores_that_cannot_be_read_do_not_stop_a_campaign(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    state = begun(study, tmp_path / "campaign")
    for number in (1, 2):
        proposal = StudyDesign(study, state).ask()
        assert proposal is not None
        assert proposal.split not in [run.split for run in state.runs]
        state.runs.append(run_of(number, proposal.split))
        state.stores[-1].mkdir(parents=True)
        (state.stores[-1] / "Left-0-1.h5").write_bytes(b"")
    proposal = StudyDesign(study, state).ask()
    assert proposal is not None
    assert "; 2 finished runs cannot be learned from: " in proposal.reason
