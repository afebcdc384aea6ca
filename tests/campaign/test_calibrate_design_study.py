"""The design that a study asks for, on campaigns whose runs leave real stores without any process being started."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from calibrate_helpers import CONFIGURATION, changed, state_of, write_case, write_study
from emulation import CostLaw
from store_helpers import row, write_store

from precice_lb.campaign import CampaignResult, Study, read_study
from precice_lb.campaign.design import Proposal
from precice_lb.campaign.design_study import StudyDesign
from precice_lb.campaign.result import measured_runs, measurements_of
from precice_lb.campaign.state import CampaignState, RunRecord
from precice_lb.dataset import Measurements
from precice_lb.exceptions import StudyError
from precice_lb.recommend import recommend
from precice_lb.schedule import Schedule

LAWS = {"Left": CostLaw(0.005, 1.8, 0.09, 0.006), "Right": CostLaw(0.005, 0.6, 0.05, 0.006)}


def study_of(directory: Path, runs: str = "", extra: str = "") -> Study:
    write_case(directory)
    return read_study(changed(write_study(directory, runs=runs, extra=extra), ("ranks = 4", "ranks = 32")))


def write_run(
    stores: Path, split: dict[str, int], seed: int, *, warmup: int = 0, size: float = 1.0, **more: object
) -> None:
    """Leave the stores of a run: twelve windows of the law's seconds with noise, ``warmup`` of them slower."""
    rng = np.random.default_rng(seed)
    own = {
        name: size * float(LAWS[name].seconds(p)) * np.exp(0.01 * rng.standard_normal(12)) for name, p in split.items()
    }
    for seconds in own.values():
        seconds[:warmup] *= 3
    wall = np.max(list(own.values()), axis=0) + 1e-4
    for name, seconds in own.items():
        table = [row(w + 1, seconds[w], wall[w] - seconds[w], wall[w] - seconds[w]) for w in range(12)]
        for rank in range(split[name]):
            configured = {"configuration": CONFIGURATION, "warmup_windows": 2, "run": f"run{seed}", **more}
            write_store(stores, table, name, rank, split[name], **configured)


def record_of(number: int, proposal: Proposal) -> RunRecord:
    return RunRecord(
        number=number,
        name=f"{number:03d}",
        split=dict(proposal.split),
        directory=f"runs/{number:03d}",
        token="t",
        started="2026-01-01T00:00:00+00:00",
        reason=proposal.reason,
        mesh=proposal.mesh,
        outcome="finished",
        seconds=3.0,
    )


def play(study: Study, directory: Path, most: int = 20) -> tuple[list[Proposal], StudyDesign]:
    """Ask, leave a run's stores and enter it into the state, until nothing is asked for any more."""
    directory.mkdir(exist_ok=True)
    state = CampaignState.load(directory) or CampaignState(study.identity())
    asked: list[Proposal] = []
    while len(asked) < most:
        # A new one each time: all it knows is in the directory, as after a kill.
        design = StudyDesign(study, directory)
        proposal = design.ask([run.split for run in state.finished])
        if proposal is None:
            return asked, design
        record = record_of(len(state.runs) + 1, proposal)
        parameters = dict(study.case.parameter)
        if proposal.mesh is not None:
            parameters |= study.runs.meshes[proposal.mesh].parameter
        stores = directory / record.directory / "stores"
        size = parameters.get("elements", 1e6) / 1e6
        write_run(stores, proposal.split, record.number, size=size, parameters=parameters)
        state.runs.append(record)
        state.save(directory)
        asked.append(proposal)
    return asked, design


def lost(study: Study, measurements: Measurements) -> float:
    """True regret of the split that is recommended."""
    schedule = Schedule.from_config(study.configuration_path)
    split = recommend(measurements, 32, schedule=schedule, parameters=study.case.parameter or None).split
    best = min(max(LAWS["Left"].seconds(p), LAWS["Right"].seconds(32 - p)) for p in range(1, 32))
    return float(max(LAWS[name].seconds(p) for name, p in split.items()) / best - 1)


def test_a_campaign_measures_few_runs_and_finds_the_best_split(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    asked, design = play(study, tmp_path / "campaign")
    assert 2 <= len(asked) <= study.runs.maximum == design.total == 5
    assert asked[0].reason == "the even split, since nothing is measured yet"
    assert all("expected regret" in proposal.reason for proposal in asked[1:])
    assert design.conclusion
    state = state_of(tmp_path / "campaign")
    measurements = CampaignResult(tmp_path / "campaign", tuple(state.runs)).measurements()
    assert all(len(rows) == len(asked) for rows in measurements.samples.values())
    assert lost(study, measurements) <= 0.02


def test_a_run_that_lacks_a_rank_is_left_out_and_said(tmp_path: Path) -> None:
    play(study_of(tmp_path), tmp_path / "campaign")
    state = state_of(tmp_path / "campaign")
    result = CampaignResult(tmp_path / "campaign", tuple(state.runs))
    before = result.measurements()
    stores = sorted((result.stores[0]).rglob("Left-*.h5"))
    assert len(stores) > 1
    stores[-1].unlink()
    after = result.measurements()
    assert len(after.samples["Left"]) == len(before.samples["Left"]) - 1
    assert any("is not used" in text and "the slowest may be missing" in text for text in after.remarks)
    assert recommend(after, 32).split


def test_runs_that_failed_are_counted_and_not_asked_for_again(tmp_path: Path) -> None:
    study = study_of(tmp_path, "maximum = 3\ntarget_regret = 0")
    directory = tmp_path / "campaign"
    asked, _ = play(study, directory, 2)
    state = state_of(directory)
    design = StudyDesign(study, directory)
    finished = [run.split for run in state.finished]
    third = design.ask(finished)
    assert third is not None
    assert design.ask([*finished, third.split]) is None
    assert design.conclusion == "3 runs made, as many as runs.maximum allows"
    more = study.model_copy(update={"runs": study.runs.model_copy(update={"maximum": 9})})
    # Even where another run of the same split ended well: a repetition that fails must not be asked for for ever.
    for failed in ([third.split], [asked[1].split]):
        again = StudyDesign(more, directory).ask([*finished, *failed])
        assert again is None or again.split not in failed


def test_runs_made_before_count_as_measurements(tmp_path: Path) -> None:
    write_run(tmp_path / "production", {"Left": 16, "Right": 16}, 77)
    study = study_of(tmp_path, 'existing = ["production"]\ntarget_regret = 0')
    asked, _ = play(study, tmp_path / "campaign", 1)
    assert "expected regret" in asked[0].reason
    assert asked[0].split["Left"] != 16
    with pytest.raises(StudyError, match=r"runs.existing\[1\]: no such directory"):
        study_of(tmp_path / "b", 'existing = ["nowhere"]')


def test_warmup_is_found_in_each_run(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"Left": 2, "Right": 2}, 1, warmup=5)
    write_run(tmp_path / "b", {"Left": 4, "Right": 4}, 2)
    runs, _ = measured_runs([tmp_path / "a", tmp_path / "b"])
    for run, ranks in zip(runs, (2, 4), strict=True):
        for name, rows in measurements_of([run]).samples.items():
            assert rows[0, 1] == pytest.approx(float(LAWS[name].seconds(ranks)), rel=0.02)


def test_stores_that_cannot_be_read_do_not_stop_a_campaign(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    directory = tmp_path / "campaign"
    directory.mkdir()
    state = CampaignState(study.identity())
    for number in (1, 2):
        proposal = StudyDesign(study, directory).ask([run.split for run in state.finished])
        assert proposal is not None
        record = record_of(number, proposal)
        (directory / record.directory / "stores").mkdir(parents=True)
        (directory / record.directory / "stores" / "Left-0-1.h5").write_bytes(b"")
        state.runs.append(record)
        state.save(directory)
    splits = [run.split for run in state.finished]
    assert splits[0] != splits[1]
    proposal = StudyDesign(study, directory).ask(splits)
    assert proposal is not None
    assert "; 2 of 2 finished runs cannot be learned from: " in proposal.reason


def test_small_meshes_come_first_and_the_case_itself_corrects_them(tmp_path: Path) -> None:
    small = "[[runs.meshes]]\nparameters = { elements = 1e5 }\nenvironment = { MESH = 'coarse' }\n"
    extra = f"[case.parameter]\nelements = 1e6\n{small}"
    study = study_of(tmp_path, "maximum = 5\ntarget_regret = 0.01", extra)
    asked, _ = play(study, tmp_path / "campaign")
    assert [proposal.mesh for proposal in asked[:3]] == [0, 0, None]
    assert asked[0].reason == "small mesh, elements = 100000, 1 of 2"
    assert asked[0].split != asked[1].split
    assert all(proposal.mesh is None for proposal in asked[2:])
    state = state_of(tmp_path / "campaign")
    measurements = CampaignResult(tmp_path / "campaign", tuple(state.runs)).measurements()
    for name in LAWS:
        sizes = measurements.parameters[name]["elements"]
        per_element = measurements.samples[name][:, 1] / sizes
        law = LAWS[name].seconds(measurements.samples[name][:, 0]) / 1e6
        assert sorted(set(sizes)) == [1e5, 1e6]
        assert per_element == pytest.approx(law, rel=0.03)
    assert lost(study, measurements) <= 0.03


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            "[[runs.meshes]]\nparameters = { elements = 10 }",
            r"meshes\[1\].parameter: 'elements' is not in case.parameter",
        ),
        (
            "[case.parameter]\na = 1\n[[runs.meshes]]\nparameters = { a = 1 }",
            "expected values other than those of the case itself",
        ),
        ("[case.parameter]\na = 1\n[[runs.meshes]]\nparameters = { a = 2 }\nruns = 5", "expected more than the 5 runs"),
        (
            "[case.parameter]\na = 1\n[[runs.meshes]]\nparameters = { a = 2 }\nenvironment = { PRECICE_LB_DIR = 'x' }",
            "the campaign itself sets this variable",
        ),
    ],
)
def test_meshes_that_make_no_sense_are_refused(tmp_path: Path, extra: str, message: str) -> None:
    write_case(tmp_path)
    with pytest.raises(StudyError, match=message):
        read_study(write_study(tmp_path, extra=extra))


def test_splits_that_a_study_names_are_asked_for_once_each_in_order(tmp_path: Path) -> None:
    design = StudyDesign(study_of(tmp_path, "splits = [{ Left = 1, Right = 3 }, { Left = 2, Right = 2 }]"), tmp_path)
    first = design.ask([])
    assert first is not None
    assert (first.split, first.reason) == ({"Left": 1, "Right": 3}, "split of the study, 1 of 2")
    second = design.ask([{"Right": 3, "Left": 1}])
    assert second is not None
    assert second.split == {"Left": 2, "Right": 2}
    assert design.ask([{"Left": 2, "Right": 2}, {"Right": 3, "Left": 1}]) is None
    assert design.conclusion is None


def test_a_campaign_begins_on_whole_nodes_where_the_study_says_what_these_are(tmp_path: Path) -> None:
    write_case(tmp_path)
    path = changed(write_study(tmp_path, machine="cores_per_node = 4"), ("ranks = 4\n", "ranks = 20\n"))
    proposal = StudyDesign(read_study(path), tmp_path).ask([])
    assert proposal is not None
    assert proposal.split == {"Left": 8, "Right": 8}
