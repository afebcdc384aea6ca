"""Versions of participants and kinds of nodes in studies: refused, chosen, designed over, run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibrate_helpers import COUPLED, check_refused, quiet, recording, refusals, write_case, write_study
from clock_helpers import study_environment

from precice_lb.campaign import RunPlan, load_campaign, read_study, run_campaign
from precice_lb.campaign.launchers.slurm import StepLauncher, resource_options
from precice_lb.campaign.prepare import tasks_of
from precice_lb.cli.case import Asked, measured_by, recommend_case
from precice_lb.exceptions import StudyError

VERSIONS = """
[[participants.versions]]
name = "cpu"
command = "python solver.py Left"
{cpu}

[[participants.versions]]
name = "gpu"
command = "python solver.py Left"
{gpu}
"""
KINDS = """
[[machine.kinds]]
name = "cpu"
nodes = 3
cores_per_node = 4
{cpu}

[[machine.kinds]]
name = "gpu"
nodes = 1
cores_per_node = 4
gpus_per_node = 2
{gpu}

[[machine.kinds]]
name = "nobodys"
nodes = 1
cores_per_node = 64
"""


def write(directory: Path, *, cpu: str = "", gpu: str = "", kinds: str = "", **words: str) -> Path:
    """Write a study of `write_case`'s case whose Left has two versions."""
    path = write_study(directory, case='network = "lo"', **words)
    text = path.read_text()
    first, rest = text.split('command = "python solver.py Left"\n')
    middle, last = rest.split("[[participants]]")
    text = f"{first}{middle}{VERSIONS.format(cpu=cpu, gpu=gpu)}\n[[participants]]{last}"
    path.write_text(text.replace("[launcher]", f"{kinds}\n[launcher]"))
    return path


SLURM = 'name = "slurm"\n'


@pytest.mark.parametrize("block", refusals("versions-refused.txt"))
def test_what_cannot_be_had_is_refused_before_anything_runs(tmp_path: Path, block: str) -> None:
    write_case(tmp_path)
    kinds = KINDS.format(cpu='options = ["--partition=a"]', gpu="")
    check_refused(write(tmp_path, gpu='gpus_per_rank = 1\nkind = "gpu"', kinds=kinds, launcher=SLURM), block)


def test_the_identity_has_what_runs_depend_on_and_nothing_else(tmp_path: Path) -> None:
    write_case(tmp_path)
    kinds = KINDS.format(cpu="", gpu="")

    def participants(launcher: str = SLURM, **words: str) -> Any:
        path = write(tmp_path, launcher=launcher, **{"kinds": kinds, **words})
        return read_study(path).identity()["participants"]

    first = participants()
    assert first["Left"]["versions"] == [
        {"name": name, "command": "python solver.py Left", "kind": ["cpu", 4, 0]} for name in ("cpu", "gpu")
    ]
    assert first["Right"]["kind"] == ["cpu", 4, 0]
    same = [
        {"gpu": 'options = ["--account=x"]'},
        {"kinds": KINDS.format(cpu='options = ["--partition=a"]', gpu="").replace("nodes = 3", "nodes = 2")},
        {"right": 'kind = "cpu"'},
    ]
    assert all(participants(**words) == first for words in same)
    other = [
        {"gpu": 'kind = "gpu"'},
        {"right": 'kind = "gpu"'},
        {"kinds": kinds.replace("cores_per_node = 4", "cores_per_node = 2")},
        {"gpu": 'environment = { DEVICE = "1" }'},
        {"gpu": "ranks_per_node = 1"},
    ]
    assert all(participants(**words) != first for words in other)


def test_a_version_has_what_it_names_beside_what_the_participant_does(tmp_path: Path) -> None:
    write_case(tmp_path)
    path = write(
        tmp_path,
        left='options = ["--comment=left"]\nenvironment = {A = "1"}',
        gpu='gpus_per_rank = 1\nkind = "gpu"\nenvironment = {B = "{ranks}"}',
        kinds=KINDS.format(cpu='options = ["--partition=cpu"]', gpu='options = ["--partition=gpu"]'),
        launcher=SLURM,
    )
    study = read_study(path)
    assert study.combinations == [{"Left": "cpu"}, {"Left": "gpu"}]
    one, split = study.started({"Left:gpu": 2, "Right": 1})
    assert split == {"Left": 2, "Right": 1}
    left, right = tasks_of(one, split, tmp_path, tmp_path)
    assert dict(left.variables) == {"A": "1", "B": "2", "PRECICE_LB_VERSION": "gpu"}
    assert (left.ranks_per_node, right.ranks_per_node) == (2, 4)
    assert resource_options((left, right), ()) == [
        ["--partition=gpu", "--comment=left", "--gpus-per-task=1", "--nodes=1", "--ntasks-per-node=2",
         "--cpus-per-task=1"],
        ["--partition=cpu", "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=1"],
    ]  # fmt: skip
    assert isinstance(one.launcher, StepLauncher)
    assert "--gpus-per-task=1" in one.launcher.command(RunPlan("run", tmp_path, (left, right)), left)
    # What counts for the split and the recommendation.
    budget, constraints = study.asked().demands().constraints()
    assert (budget, constraints.of("gpus_per_rank", "Left", "gpu"), constraints.kind_of("Left", "gpu").nodes) == (
        5,
        1,
        1,
    )
    assert one.bounds["Left"] == (1, 2)
    one.require_split({"Left": 2, "Right": 2})
    with pytest.raises(StudyError, match=r"machine.kinds: .* at least 4 nodes of kind 'cpu', found 3"):
        study.changed({"machine": replace(study.machine, ranks=16)}).chosen({"Left": "cpu"}).require_split(
            {"Left": 8, "Right": 5}
        )


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"Left": 1, "Right": 1}, "a version of 'Left', one of cpu, gpu, found none: write Left:cpu=1"),
        ({"Left:gpux": 1, "Right": 1}, "expected a version of 'Left', of which there are cpu, gpu, found 'gpux'"),
        ({"Left:gpu": 1, "Left:cpu": 1}, "expected each participant once, found Left:gpu, Left:cpu"),
        ({"Left:gpu": 1, "Right:gpu": 1}, "expected a version of 'Right', of which there are none, found 'gpu'"),
    ],
)
def test_a_split_names_the_version_that_is_to_run(tmp_path: Path, split: dict[str, int], message: str) -> None:
    write_case(tmp_path)
    with pytest.raises(StudyError, match=message):
        read_study(write(tmp_path)).started(split)


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
def test_a_campaign_measures_both_versions_and_recommends_the_one_that_is_planted_faster(tmp_path: Path) -> None:
    write_case(tmp_path, COUPLED)
    path = write(tmp_path, runs="maximum = 4", extra=study_environment(), gpu='environment = {CELLS = "0.1"}')
    study = read_study(recording(path, Left=0.6, Right=0.3))
    result = run_campaign(study, tmp_path / "campaign", report=quiet)
    ran = [run.versions["Left"] for run in result.finished]
    assert sorted(ran) == ["cpu", "cpu", "gpu", "gpu"], result.runs
    assert {run.directory.split("-")[1][:7] for run in result.finished} == {"Leftcpu", "Leftgpu"}
    loaded = load_campaign(tmp_path / "campaign")
    assert loaded is not None
    measured = loaded.measurements()
    rows = measured.samples["Left"]
    work = np.where(measured.frames["Left"].version == "gpu", 0.06, 0.6)
    np.testing.assert_allclose(rows[:, 1], work / rows[:, 0], atol=2e-4)
    assert "Right" not in measured.versions
    recommendation = recommend_case(measured_by(loaded), Asked())
    assert recommendation.versions == {"Left": "gpu"}
    assert recommendation.split == {"Left": 1, "Right": 3}
    assert recommendation.window_seconds == pytest.approx(0.1, rel=0.1)
    # Nothing is left to do, and the campaign goes on as if nothing had happened.
    again = run_campaign(study, tmp_path / "campaign", report=quiet)
    assert len(again.runs) == 4
