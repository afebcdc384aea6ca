"""Participants with threads: what a study says of them, what is measured, and how launchers start them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from calibrate_helpers import (
    changed,
    check_threads,
    run_of,
    state_of,
    threads_used,
    write_case,
    write_study,
    write_threads,
)

from precice_lb.campaign import Launcher, RunPlan, Study, Task, read_study
from precice_lb.campaign.design_study import StudyDesign
from precice_lb.campaign.prepare import tasks_of
from precice_lb.campaign.state import CampaignResult
from precice_lb.cli import main
from precice_lb.exceptions import StudyError
from precice_lb.layout import Layout, Layouts
from precice_lb.plugins import LAUNCHERS

FREE = 'threads = "free"'


def study_of(directory: Path, right: str = FREE, **more: str) -> Study:
    """A study of 4 cores, in which Right has threads unless told otherwise."""
    write_case(directory)
    return read_study(write_study(directory, right=right, **more))


# --- studies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "layouts"),
    [
        (FREE, Layouts(1, None)),
        ('threads = "free"\nranks = 2', Layouts(2, None)),
        ("threads = 2", Layouts(None, 2)),
        ('threads = 2\nranks = "free"', Layouts(None, 2)),
        ("ranks = 2", Layouts(2, 1)),
        ('ranks = ["1x1", "1x3"]', Layouts(None, None, (Layout(1, 1), Layout(1, 3)))),
        ('ranks = "free"\nthreads = 1', None),
    ],
)
def test_ranks_and_threads_of_a_study(tmp_path: Path, right: str, layouts: Layouts | None) -> None:
    study = study_of(tmp_path, right)
    assert study.layouts == ({} if layouts is None else {"Right": layouts})
    asked = study.asked()
    CampaignResult(study.identity(), asked=asked, directory=tmp_path).save()
    assert state_of(tmp_path).asked == asked
    read = {own.name: own.layouts for own in asked.participants if own.layouts != Layouts()}
    assert read == study.constraints[1].layouts == study.layouts
    assert ("layouts" in study.identity()["participants"]["Right"]) == (layouts is not None)


def test_the_order_of_pairs_makes_no_other_campaign(tmp_path: Path) -> None:
    one, other = (
        study_of(tmp_path / str(at), f"ranks = {pairs}")
        for at, pairs in enumerate(('["1x3", "1x1"]', '["1x1", "1x3"]'))
    )
    assert one.identity()["participants"] == other.identity()["participants"]
    assert one.identity()["participants"]["Right"]["layouts"] == [[1, 1], [1, 3]]


class EarlierLauncher(Launcher):
    """As before keys were fields."""

    def __init__(self, options: object, directory: Path = Path()) -> None:
        super().__init__()


def test_threads_on_a_launcher_of_ranks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class RanksAlone(Launcher):
        """Knows nothing of threads."""

        def command(self, plan: RunPlan, task: Task) -> list[str]:
            return []

    monkeypatch.setitem(LAUNCHERS._places, "ranks-alone", SimpleNamespace(load=lambda: RanksAlone))
    monkeypatch.setattr(type(LAUNCHERS), "__contains__", lambda self, name: name == "ranks-alone" or name in [*self])
    write_case(tmp_path)
    with pytest.raises(StudyError, match="launcher ranks-alone, which only knows ranks: use mpiexec, srun"):
        read_study(write_study(tmp_path, launcher='name = "ranks-alone"', right=FREE))
    monkeypatch.setitem(LAUNCHERS._places, "ranks-alone", SimpleNamespace(load=lambda: EarlierLauncher))
    expected = r"expected a dataclass derived from precice_lb.campaign.Launcher, found .*EarlierLauncher'>; repair or"
    with pytest.raises(StudyError, match=expected):
        read_study(write_study(tmp_path, launcher='name = "ranks-alone"'))
    monkeypatch.setitem(LAUNCHERS._places, "ranks-alone", SimpleNamespace(load=lambda: RanksAlone))
    # Fixed ranks are no threads.
    assert read_study(write_study(tmp_path, launcher='name = "ranks-alone"', right="ranks = 2")).layouts


def test_splits_are_cores_or_ranks_x_threads(tmp_path: Path) -> None:
    runs = 'splits = [{ Left = 2, Right = "1x2" }, { Left = 1, Right = 3 }]'
    study = study_of(tmp_path, runs=runs)
    assert study.splits == ({"Left": 2, "Right": 2}, {"Left": 1, "Right": 3})
    assert StudyDesign(study, CampaignResult({}, directory=tmp_path)).total == 2


def test_the_design_asks_for_cores_that_there_are(tmp_path: Path) -> None:
    write_case(tmp_path)
    path = write_study(tmp_path, left="threads = 2", right='ranks = ["1x1", "1x5", "2x4"]')
    study = read_study(changed(path, ("ranks = 4", "cores = 16")))
    state = CampaignResult({}, directory=tmp_path)
    while (proposal := StudyDesign(study, state).ask()) is not None and len(state.runs) < 5:
        state.runs.append(run_of(len(state.runs) + 1, proposal.split))
        assert proposal.split["Left"] % 2 == 0
        assert proposal.split["Right"] in {1, 5, 8}
        study.require_split(proposal.split)
    assert state.runs
    with pytest.raises(StudyError, match=r"expected 1 to 8 cores \(1, 5, 8\) for 'Right', found 3"):
        study.require_split({"Left": 2, "Right": 3})


# --- runs ----------------------------------------------------------------------------------------------------------


def test_only_participants_with_threads_find_them_in_their_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_PROC_BIND", "PRECICE_LB_THREADS"):
        monkeypatch.delenv(name, raising=False)
    right = FREE + '\nenvironment = { CCX_NPROC_EQUATION_SOLVER = "{threads}", WHO = "{participant}" }'
    study = study_of(tmp_path, right)
    left, solid = tasks_of(study, {"Left": 1, "Right": 3}, tmp_path, tmp_path)
    assert (left.cores, left.variables, left.setting) == (1, {}, ())
    assert (solid.ranks, solid.threads, solid.cores) == (1, 3, 3)
    own = {"CCX_NPROC_EQUATION_SOLVER": "3", "WHO": "Right"}
    assert solid.variables == own | {"OMP_NUM_THREADS": "3", "PRECICE_LB_THREADS": "3", "OMP_PROC_BIND": "false"}
    monkeypatch.setenv("OMP_PROC_BIND", "spread")
    (_, solid) = tasks_of(study, {"Left": 1, "Right": 3}, tmp_path, tmp_path)
    assert "OMP_PROC_BIND" not in solid.variables
    assert solid.setting[:2] == ("env", "OMP_NUM_THREADS=3")


def test_variables_say_where_in_a_chain_a_run_is(tmp_path: Path) -> None:
    study = study_of(tmp_path, 'environment = { FROM = "{segment}: {start_time}" }')
    split = {"Left": 1, "Right": 1}
    for segment, text in (({}, "1: 0"), ({"segment": {"segment": 3, "start_time": "0.5"}}, "3: 0.5")):
        assert tasks_of(study, split, tmp_path, tmp_path, **segment)[1].variables["FROM"] == text


@pytest.mark.mpi
def test_a_campaign_of_threads_and_its_split_through_mpiexec(
    tmp_path: Path, mpiexec: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", str(write_threads(tmp_path))]) == 0
    said = capfd.readouterr()
    assert "run 2 of 2: Left 1, Right 1 x 2 threads: 3 cores (split of the study, 2 of 2)" in said.err
    campaign = tmp_path / "campaign"
    check_threads(campaign)
    found = json.loads((campaign / "recommendation.json").read_text())["split"]
    assert found["Left"] == 1
    assert found["Right"] in {1, 2}
    # Any other split is as easily launched.
    assert main(["launch", "--study", str(tmp_path / "study.toml"), "--split", "Left=1,Right=1x2"]) == 0
    done = subprocess.run([campaign / "launch" / "run.sh"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert threads_used(tmp_path / "case") == 2
