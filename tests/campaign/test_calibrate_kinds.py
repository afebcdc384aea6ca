"""Studies on kinds of nodes: ranks with threads on them, splits that they have room for, versions chosen once."""

from __future__ import annotations

from pathlib import Path

import pytest
from calibrate_helpers import changed, write_case, write_study

from precice_lb.campaign import CampaignResult, Study, read_study
from precice_lb.campaign.design_study import StudyDesign
from precice_lb.campaign.launchers.slurm import resource_options
from precice_lb.campaign.prepare import tasks_of
from precice_lb.exceptions import StudyError

CPU = """
[[machine.kinds]]
name = "cpu"
nodes = 4
cores_per_node = 48
options = ["--partition=cpu"]
"""
SMALL = """
[[machine.kinds]]
name = "small"
nodes = 1
cores_per_node = 36
"""
GPU = """
[[machine.kinds]]
name = "gpu"
nodes = 2
cores_per_node = 48
gpus_per_node = 4
options = ["--partition=gpu"]
"""
VERSIONS = """
[[participants.versions]]
name = "cpu"
command = "python solver.py Right"

[[participants.versions]]
name = "gpu"
command = "python solver.py Right"
kind = "gpu"
gpus_per_rank = 1
prepare = ["python solver.py decompose"]
options = ["--comment=gpu"]
"""


def study_of(
    directory: Path, kinds: str, *, cores: int, right: str = "", runs: str = "", versions: str = "", extra: str = ""
) -> Study:
    """A study of Left on the first kind of nodes, and of Right as told, on Slurm."""
    if not (directory / "case").is_dir():
        write_case(directory)
    words = {"right": right + versions, "runs": runs, "extra": extra, "case": 'network = "lo"'}
    path = write_study(directory, launcher='name = "slurm"', **words)
    if versions:
        path.write_text(path.read_text().replace('command = "python solver.py Right"\n', "", 1))
    return read_study(changed(path, ("[machine]\nranks = 4", f"[machine]\nranks = {cores}\n{kinds}")))


@pytest.mark.parametrize(
    ("right", "cores", "placed", "step"),
    [
        ("threads = 8", 96, "--nodes=2 --ntasks-per-node=6 --cpus-per-task=8", 6),
        ("threads = 5", 50, "--nodes=2 --ntasks-per-node=9 --cpus-per-task=5", 9),
        ("threads = 8\nranks_per_node = 2", 32, "--nodes=2 --ntasks-per-node=2 --cpus-per-task=8", 2),
        ('threads = "free"', 48, "--nodes=1 --ntasks-per-node=1 --cpus-per-task=48", 1),
        ("", 96, "--nodes=2 --ntasks-per-node=48 --cpus-per-task=1", 48),
    ],
)
def test_a_node_gets_no_more_threads_than_it_has_cores(
    tmp_path: Path, right: str, cores: int, placed: str, step: int
) -> None:
    one, split = study_of(tmp_path, CPU, cores=192, right=right).started({"Left": 4, "Right": cores})
    tasks = tasks_of(one, split, tmp_path, tmp_path)
    assert tasks[1].ranks_on_node == step
    assert resource_options(tasks, ())[1] == ["--partition=cpu", *placed.split()]
    one.require_split(split)
    with pytest.raises(StudyError):
        one.require_split({"Left": 49, "Right": 144 if "ranks_per_node" not in right else 64})


def test_splits_stay_within_the_nodes_of_each_kind(tmp_path: Path) -> None:
    kinds = CPU.replace("nodes = 4", "nodes = 8").replace("48", "36") + SMALL
    study = study_of(tmp_path, kinds, cores=324, right='kind = "small"')
    assert study.bounds == {"Left": (1, 288), "Right": (1, 36)}
    proposal = StudyDesign(study, CampaignResult({}, directory=tmp_path)).ask()
    assert proposal is not None
    assert proposal.split["Right"] <= 36
    for words, message in (
        ({"runs": "splits = [{Left = 36, Right = 200}]"}, r"runs.splits\[1\]: expected 1 to 36 ranks for 'Right'"),
        ({"extra": "[chain]\nwindows = 3"}, "chain: expected participants without versions"),
        ({"right": 'kind = "small"\nminimum_ranks = 40'}, "machine: .* at least 2 nodes of kind 'small', found 1"),
    ):
        with pytest.raises(StudyError, match=message):
            study_of(tmp_path, kinds, cores=324, **{"right": 'kind = "small"', **words})
    # Each has room for itself, but not for both.
    with pytest.raises(
        StudyError, match=r"runs.splits\[1\]: machine.kinds: .* at least 5 nodes of kind 'cpu', found 4"
    ):
        study_of(tmp_path, CPU, cores=192, runs="splits = [{Left = 100, Right = 92}]")
    with pytest.raises(StudyError, match=r"machine: .* at least 2 nodes of kind 'small', found 1"):
        study_of(tmp_path, SMALL, cores=36)


def test_versions_that_are_chosen_twice_are_the_same(tmp_path: Path) -> None:
    study = study_of(tmp_path, CPU + GPU, cores=192, right='prepare = ["python solver.py base"]', versions=VERSIONS)
    one = study.chosen({"Right": "gpu"})
    right = one.participants[1]
    assert right.prepare == ("python solver.py base", "python solver.py decompose")
    _, task = tasks_of(one, {"Left": 4, "Right": 8}, tmp_path, tmp_path)
    assert task.options == ("--partition=gpu", "--comment=gpu", "--gpus-per-task=1")
    assert (right.version, right.versions, one.bounds["Right"]) == ("gpu", (), (1, 8))
    for again in (one.chosen({}), one.chosen({"Right": "gpu"})):
        assert again == one
        assert again.bounds == one.bounds
    with pytest.raises(StudyError, match=r"expected a version of 'Right', of which there are none, found 'cpu'"):
        one.chosen({"Right": "cpu"})
    # So that a campaign of it measures this version alone.
    assert one.combinations == [{}]
    proposal = StudyDesign(one, CampaignResult({}, directory=tmp_path)).ask()
    assert proposal is not None
    assert proposal.split["Right"] <= 8
    one.require_split(proposal.split)


@pytest.mark.parametrize(
    ("kinds", "key"),
    [
        (CPU, r"machine.kinds\[1\]"),
        (GPU.replace('options = ["--partition=gpu"]', ""), r"participants\[2\].versions\[2\]"),
    ],
)
def test_steps_of_an_allocation_ask_for_gpus_alone(tmp_path: Path, kinds: str, key: str) -> None:
    versions = "" if "--partition" in kinds else VERSIONS
    path = study_of(tmp_path, kinds, cores=96, versions=versions).path
    path.write_text(path.read_text().replace('name = "slurm"', 'name = "srun"'))
    with pytest.raises(StudyError, match=rf"{key}.options: expected options for GPUs alone.*found '--"):
        read_study(path)
    path.write_text(path.read_text().replace("--partition=cpu", "--gres=x").replace("--comment=gpu", "--gres=x"))
    assert read_study(path).launcher.name == "srun"
