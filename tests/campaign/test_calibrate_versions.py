"""Versions of participants and kinds of nodes in studies: refused, chosen, designed over, run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibrate_helpers import quiet, recording, write_case, write_study
from clock_helpers import study_environment
from test_calibrate_coupled import SOLVER as COUPLED

from precice_lb.campaign import RunPlan, load_campaign, read_study, run_campaign
from precice_lb.campaign.design import Proposal
from precice_lb.campaign.design_study import StudyDesign
from precice_lb.campaign.launchers.slurm import StepLauncher, resource_options
from precice_lb.campaign.prepare import tasks_of
from precice_lb.campaign.versions import chosen, combinations_of, require_nodes, started
from precice_lb.cli.case import Asked, measured_by, recommend_case
from precice_lb.exceptions import InfeasibleError, StudyError

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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"left": 'command = "python other.py"'}, r"participants\[1\]: expected either a command, or versions"),
        (
            {"gpu": 'kind = "gpux"', "kinds": KINDS},
            "kind of Left: expected one of the kinds of nodes .*, found 'gpux'",
        ),
        (
            {"right": 'kind = "fat"', "kinds": KINDS},
            "kind of Right: expected one of the kinds of nodes .*, found 'fat'",
        ),
        ({"gpu": "gpus_per_rank = 3\nkind = 'gpu'", "kinds": KINDS}, "needs 3 GPUs and a node of kind 'gpu' has 2"),
        (
            {"gpu": "gpus_per_rank = 1\nranks_per_node = 3\nkind = 'gpu'", "kinds": KINDS},
            "at most 2 ranks of Left on a node of kind 'gpu' .*, found 3",
        ),
        ({"gpu": "gpus_per_rank = 1", "kinds": KINDS}, "needs 1 GPU and a node of kind 'cpu' has 0"),
        (
            {"gpu": "gpus_per_rank = 9", "machine": "gpus_per_node = 8"},
            "machine: .* needs 9 GPUs and a node has 8",
        ),
        (
            {"machine": 'gpus_per_rank = { "Left:gpu" = 4 }\ngpus_per_node = 2'},
            "machine: .* needs 4 GPUs and a node has 2",
        ),
        (
            {"machine": 'kind = { "Left:gpux" = "gpu" }', "kinds": KINDS},
            "machine.kind: unknown version 'Left:gpux'; did you mean 'Left:gpu'",
        ),
        ({"machine": "cores = 2", "kinds": KINDS}, "machine.kinds: expected cores or kinds of nodes"),
        ({"gpu": 'options = ["--partition=gpu"]'}, "options of a batch system on the launcher mpiexec"),
        (
            {"kinds": KINDS, "kind_options": "yes"},
            r"machine.kinds\[1\].options: options of a batch system on the launcher mpiexec",
        ),
        ({"runs": "maximum = 3"}, "runs.maximum: expected 4 runs or more, two with each version, found 3"),
        ({"gpu": "prepare = ['python none.py']"}, r"participants\[1\].versions\[2\].prepare\[1\]: no such script"),
        ({"gpu": 'environment = { PRECICE_LB_DIR = "/x" }'}, r"versions\[2\].environment.PRECICE_LB_DIR: the campaign"),
        ({"gpu": 'environment = { X = "{nonsense}" }'}, r"versions\[2\].environment.X: .*nonsense"),
        ({"gpu": "gpu_per_rank = 1"}, r"versions\[2\].gpu_per_rank: unknown key; did you mean 'gpus_per_rank'"),
        ({"extra": "[chain]\nwindows = 3"}, "chain: expected a command of each participant"),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_runs(
    tmp_path: Path, words: dict[str, str], message: str
) -> None:
    write_case(tmp_path)
    words = dict(words)
    options = 'options = ["--partition=a"]' if words.pop("kind_options", "") else ""
    if "kinds" in words:
        words["kinds"] = words["kinds"].format(cpu=options, gpu="")
    path = write(tmp_path, **words)
    with pytest.raises(StudyError, match=message) as error:
        read_study(path)
    assert "\n" not in str(error.value)


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


def test_versions_of_one_name_and_kinds_of_one_name_are_refused(tmp_path: Path) -> None:
    write_case(tmp_path)
    path = write(tmp_path)
    path.write_text(path.read_text().replace('name = "gpu"', 'name = "cpu"'))
    with pytest.raises(StudyError, match=r"versions\[2\].name: 'cpu' stands in 'Left' twice"):
        read_study(path)
    path = write(tmp_path, kinds=KINDS.format(cpu="", gpu=""))
    path.write_text(path.read_text().replace('name = "gpu"\nnodes', 'name = "cpu"\nnodes'))
    with pytest.raises(
        StudyError, match=r"machine: expected a name of its own for each kind of nodes, found 'cpu' twice"
    ):
        read_study(path)


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
    assert combinations_of(study) == [{"Left": "cpu"}, {"Left": "gpu"}]
    one, split = started(study, {"Left:gpu": 2, "Right": 1})
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
    assert one.allow["Left"] == [1, 2]
    require_nodes(one, {"Left": 2, "Right": 2})
    with pytest.raises(InfeasibleError):
        require_nodes(chosen(study, {"Left": "cpu"}), {"Left": 12, "Right": 1})


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"Left": 1, "Right": 1}, "a version of 'Left', one of cpu, gpu, found none: write Left:cpu=1"),
        ({"Left:gpux": 1, "Right": 1}, "expected a version of 'Left'.*gpu.*, found 'gpux'"),
        ({"Left:gpu": 1, "Left:cpu": 1}, "found 'Left' twice"),
        ({"Left:gpu": 1, "Right:gpu": 1}, "expected no version of 'Right', which has none, found 'gpu'"),
    ],
)
def test_a_split_names_the_version_that_is_to_run(tmp_path: Path, split: dict[str, int], message: str) -> None:
    write_case(tmp_path)
    with pytest.raises(StudyError, match=message):
        started(read_study(write(tmp_path)), split)


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
    recommendation, _ = recommend_case(measured_by(loaded), Asked())
    assert recommendation.versions == {"Left": "gpu"}
    assert recommendation.split == {"Left": 1, "Right": 3}
    assert recommendation.window_seconds == pytest.approx(0.1, rel=0.1)
    # Nothing is left to do, and the campaign goes on as if nothing had happened.
    again = run_campaign(study, tmp_path / "campaign", report=quiet)
    assert len(again.runs) == 4


def test_only_versions_that_may_be_the_best_are_measured_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_case(tmp_path)
    study = read_study(write(tmp_path))
    wants, stable = Proposal({"Left": 1, "Right": 1}, "a split"), "the answer is stable"
    tried = [{"Left:cpu": 1, "Right": 3}, {"Left:cpu": 3, "Right": 1}, {"Left:gpu": 1, "Right": 3}]
    slow, fast = [9.0, 10.0, 11.0], [1.0, 2.0, 3.0]

    def asked(cpu: Any, gpu: Any) -> tuple[str | None, str]:
        """Of each version what it wants to measure, or why nothing, and the windows that are expected of it."""
        known = {"cpu": (cpu[0], np.array(cpu[1])), "gpu": (gpu[0], np.array(gpu[1]))}
        monkeypatch.setattr(StudyDesign, "_of", lambda self, study, versions, tried: known[versions["Left"]])
        design = StudyDesign(study, tmp_path)
        answer = design.ask(tried)
        return (None, design.conclusion or "") if answer is None else (answer.versions["Left"], answer.reason)

    # First two runs of each.
    assert asked((wants, fast), (wants, slow))[0] == "gpu"
    tried.append({"Left:gpu": 3, "Right": 1})
    # Then the best, and nothing of what surely is not.
    assert asked((wants, slow), (wants, fast)) == ("gpu", "Left gpu: a split")
    known, why = asked((wants, slow), (stable, fast))
    assert known is None
    assert why == "Left gpu: the answer is stable; Left cpu is faster with a probability of 0 % only"
    # What may be faster is measured on.
    assert asked((wants, [0.5, 3.0, 9.0]), (stable, fast))[0] == "cpu"


def test_what_failed_with_one_version_is_not_said_of_the_other(tmp_path: Path) -> None:
    from precice_lb.campaign.result import failed_splits
    from precice_lb.campaign.state import RunRecord

    def run(number: int, version: str, outcome: Any) -> RunRecord:
        return RunRecord(
            number, f"{number}", {"Left": 1, "Right": 3}, "", "", "", outcome=outcome, versions={"Left": version}
        )

    found = failed_splits([run(1, "cpu", "finished"), run(2, "gpu", "failed")])
    assert [(each.ranks, each.versions) for each in found] == [({"Left": 1, "Right": 3}, {"Left": "gpu"})]
