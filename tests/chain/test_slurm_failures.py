"""What a Slurm that fails makes of campaigns and chains: nothing runs twice, and no split is blamed for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from calibrate_helpers import SOLVER, launcher_of, run_study, runs_of, write_study
from clock_helpers import Clock
from fake_slurm import FakeSlurm, hasty_fake_slurm
from segment_helpers import following, like_all_others, page, write_copies
from slurm_helpers import wait_until

from precice_lb.campaign import CampaignResult
from precice_lb.campaign.schedulers import read_exits
from precice_lb.exceptions import CalibrationError

TWO = "splits = [{Left=1, Right=1}, {Left=2, Right=1}]"
# Of the first run, whatever its directory: its solvers do this before they end.
FIRST = SOLVER + "import subprocess, time\nif here.parent.name.startswith('001') and name == 'Left':\n    {}\n"
CANCELS = "subprocess.run(['scancel', os.environ['SLURM_JOB_ID']])\n    time.sleep(20)"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A Slurm that fails when it is told to, and is asked again at once."""
    return hasty_fake_slurm(tmp_path / "slurm", monkeypatch)


def campaign(tmp_path: Path, solver: str, runs: str = TWO) -> CampaignResult:
    path = write_study(tmp_path, solver=solver, runs=runs, launcher='name = "slurm"', case='network = "lo"')
    return run_study(path)


def test_a_controller_that_is_away_is_asked_again(tmp_path: Path, slurm: FakeSlurm) -> None:
    away = f"open({str(slurm.root / 'away')!r}, 'w').write('4')"
    result = campaign(tmp_path, SOLVER + f"if name == 'Left':\n    {away}\n")
    assert [run.outcome for run in result.runs] == ["finished", "finished"]
    wait_until(lambda: slurm.states() == ["COMPLETED", "COMPLETED"])


@pytest.mark.parametrize("program", ["squeue", "scancel"])
def test_a_controller_that_stays_away_for_half_an_hour_is_an_error(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = FakeSlurm(tmp_path / "slurm", monkeypatch)
    clock, warnings = Clock(), list[str]()
    monkeypatch.setattr("precice_lb.campaign.schedulers.time", clock)
    launcher = launcher_of("slurm")
    launcher.warn = warnings.append
    slurm.answer(program, "echo 'Unable to contact slurm controller' >&2; exit 1")

    with pytest.raises(CalibrationError, match=r"no answer from the batch system for 1800 s: try again later"):
        launcher.scheduler.find("x") if program == "squeue" else launcher.scheduler.cancel("1")

    # Asked again after half a second, then less and less often, at last every 15 s.
    assert clock.pauses[:2] == pytest.approx([0.5, 0.65])
    assert max(clock.pauses) == 15.0
    assert 1800 < clock.now < 1830
    words = "Slurm does not answer, and is asked again for a while: Unable to contact slurm controller"
    assert warnings == [words]


def test_a_submission_without_an_answer_is_not_made_again(tmp_path: Path, slurm: FakeSlurm) -> None:
    slurm.set("deaf", "1")
    result = campaign(tmp_path, SOLVER, "splits = [{Left=1, Right=1}]")
    assert [(run.outcome, run.job) for run in result.runs] == [("finished", "1")]
    wait_until(lambda: slurm.states() == ["COMPLETED"])


@pytest.mark.parametrize("end", ["CANCELLED", "NODE_FAIL"])
def test_a_run_that_is_cancelled_or_loses_its_node_says_nothing_of_its_split(
    tmp_path: Path, slurm: FakeSlurm, end: str
) -> None:
    slurm.set("ends", end)
    result = campaign(tmp_path, FIRST.replace("{}", CANCELS))
    assert [run.outcome for run in result.runs] == ["lost", "finished", "finished"], [run.error for run in result.runs]
    lost, again, _ = result.runs
    error = f"job 1 ended as {end}"
    assert (lost.split, lost.error, lost.blamed, lost.reasons) == (again.split, error, [], [])
    assert result.failed_splits == ()
    assert not list((tmp_path / "campaign" / lost.directory).glob("stores/**/*.h5"))
    wait_until(lambda: set(slurm.states()[1:]) == {"COMPLETED"})


def test_a_run_that_is_lost_twice_is_left_unmeasured(tmp_path: Path, slurm: FakeSlurm) -> None:
    slurm.set("no step", "2")
    result = campaign(tmp_path, SOLVER)
    assert [run.outcome for run in result.runs] == ["lost", "lost", "finished"], [run.error for run in result.runs]
    assert result.failed_splits == ()


def chain_study(tmp_path: Path) -> Path:
    chain = '[chain]\nwindows = 2\ntotal = 4\nstart = {Left = 1, Right = 1}\ncarry = ["state-*.npy"]\n'
    return write_copies(
        tmp_path, chain=chain, rows_of=like_all_others(2), launcher='name = "slurm"', case='network = "lo"'
    )


def has_live_jobs(slurm: FakeSlurm) -> bool:
    return not set(slurm.states()).isdisjoint({"PENDING", "RUNNING", "COMPLETING"})


@pytest.mark.mpi
def test_a_chain_submits_no_segment_twice_while_the_controller_is_away(tmp_path: Path, slurm: FakeSlurm) -> None:
    study = chain_study(tmp_path)
    slurm.set("held")
    slurm.set("deaf", "1")
    assert following(study, "--submit").returncode == 0
    # The call that had submitted it was killed before it had noted so.
    state = tmp_path / "study-chain" / "campaign.json"
    state.write_text(state.read_text().replace('"job": "1"', '"job": null'))
    slurm.set("away", "3")
    done = following(study, "--submit")
    assert done.returncode == 2
    assert "waits or runs as job 1: its last line goes on" in done.stderr
    assert slurm.states() == ["PENDING"]
    (slurm.root / "held").unlink()
    wait_until(lambda: page(tmp_path / "study-chain")["windows_done"] == 4)
    assert [run.outcome for run in runs_of(tmp_path / "study-chain")] == ["finished", "finished"]


@pytest.mark.mpi
def test_a_segment_that_never_starts_is_repeated_once_then_the_chain_stops(tmp_path: Path, slurm: FakeSlurm) -> None:
    study, directory = chain_study(tmp_path), tmp_path / "study-chain"
    slurm.set("no step", "2")

    assert following(study, "--submit").returncode == 0
    wait_until(lambda: page(directory)["problem"] is not None or page(directory)["windows_done"] == 4)
    wait_until(lambda: not has_live_jobs(slurm))

    # The last line of the second job submits no third one.
    assert [run.outcome for run in runs_of(directory)] == ["lost", "lost"]
    assert len(slurm.states()) == 2
    assert page(directory)["problem"].startswith("segment 1 was lost twice, the state before it is intact: ")
    assert page(directory)["windows_done"] == 0

    assert following(study, "--submit").returncode == 0
    wait_until(lambda: page(directory)["windows_done"] == 4)
    wait_until(lambda: not has_live_jobs(slurm))

    assert [run.outcome for run in runs_of(directory)] == ["lost", "lost", "finished", "finished"]
    assert page(directory)["problem"] is None


@pytest.mark.mpi
@pytest.mark.parametrize("end", ["CANCELLED", "TIMEOUT"])
def test_what_ends_a_job_of_a_chain(tmp_path: Path, slurm: FakeSlurm, end: str) -> None:
    study, directory = chain_study(tmp_path), tmp_path / "study-chain"
    solver = tmp_path / "case" / "solver.py"
    quick = solver.read_text()
    solver.write_text(f"import signal\nsignal.pause()\n{quick}")
    assert following(study, "--submit").returncode == 0
    solver.write_text(quick)
    (run,) = runs_of(directory)
    wait_until(lambda: read_exits(directory / run.directory / "exits").begun)
    slurm.cancel("1", end)
    slurm.forget("1")
    assert len(slurm.states()) == 1, (directory / "campaign.log").read_text()
    assert [run.outcome for run in runs_of(directory)] == ["timeout" if end == "TIMEOUT" else "running"]
    assert following(study, "--submit").returncode == 0
    assert runs_of(directory)[0].outcome == ("timeout" if end == "TIMEOUT" else "interrupted")
    wait_until(lambda: page(directory)["windows_done"] == 4)
