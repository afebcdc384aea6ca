"""Chains whose jobs write or submit each other, as a batch system's template and as a user's own shell run them."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from pathlib import Path

import pytest
from calibrate_helpers import runs_of
from segment_helpers import SUBMIT, assert_state, assert_whole, following, page, write_chain, write_template

from precice_lb.campaign.state import campaign_lock
from precice_lb.cli import main
from precice_lb.exceptions import CalibrationError

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpiexec")]


def assert_done(directory: Path) -> None:
    """All windows were done once, and the state is that of one run."""
    assert_state(directory / assert_whole(directory)[-1].directory, 12)


def wait_for_end(directory: Path) -> None:
    """Wait until all windows are done and the last job has left the chain's directory."""
    end = time.monotonic() + 300
    while not ((directory / "chain.json").is_file() and page(directory)["windows_done"] == 12):
        assert time.monotonic() < end, (directory / "campaign.log").read_text()
        time.sleep(0.1)
    while True:
        with contextlib.suppress(CalibrationError), campaign_lock(directory):
            break
        assert time.monotonic() < end
        time.sleep(0.1)
    assert not (directory / "job.sbatch").is_symlink()


def test_each_job_submits_the_next(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    study = write_template(tmp_path)
    assert main(["chain", "next", str(study), "--submit"]) == 0
    assert "segment 1 of 3: Left 1, Right 3 ranks, windows 1 to 4 of 12" in capfd.readouterr().err
    directory = tmp_path / "study-chain"
    wait_for_end(directory)
    assert_done(directory)
    assert [run.outcome for run in runs_of(directory)] == ["finished"] * 3
    assert all(run.job and run.job.isdigit() for run in runs_of(directory))
    assert "the chain has come to its end: 12 windows" in (directory / "campaign.log").read_text()
    # Nothing is left to do, and nothing is done.
    assert main(["chain", "next", str(study), "--submit"]) == 0
    assert len(runs_of(directory)) == 3


@pytest.mark.slow("a chain of real runs")
def test_without_submission_the_user_does_it(tmp_path: Path) -> None:
    study, directory = write_template(tmp_path), tmp_path / "chain"
    done = following(study, "-o", str(directory))
    assert done.returncode == 0, done.stderr
    assert f"ready to be submitted: {directory / 'job.sbatch'}" in done.stderr
    for number in range(1, 4):
        script = (directory / "job.sbatch").resolve()
        assert script.parent.name.startswith(f"{number:03d}-")
        assert "--submit" not in script.read_text()
        # Asked again before it has run, it says the same and makes nothing new.
        assert following(study, "-o", str(directory)).returncode == 0
        assert (directory / "job.sbatch").resolve() == script
        subprocess.run(["bash", directory / "job.sbatch"], capture_output=True, check=True, timeout=300)
    assert not (directory / "job.sbatch").is_symlink()
    assert_done(directory)


@pytest.mark.parametrize("number", ["", "Submitted batch job 7"])
def test_a_job_that_has_not_begun_is_not_submitted_again(tmp_path: Path, number: str) -> None:
    study, directory = write_template(tmp_path), tmp_path / "chain"
    (tmp_path / "submit.sh").write_text(f"echo {number}\n")
    assert following(study, "-o", str(directory), "--submit").returncode == 0
    (run,) = runs_of(directory)
    done = following(study, "-o", str(directory), "--submit")
    assert done.returncode == 2
    assert f"segment 1 is submitted in {directory / run.directory} and not ended" in done.stderr
    assert len(runs_of(directory)) == 1
    assert following(study, "-o", str(directory), "--lost").returncode == 0
    assert [each.outcome for each in runs_of(directory)] == ["interrupted", "running"]


def test_a_directory_that_another_process_holds_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, directory = write_template(tmp_path), tmp_path / "chain"
    directory.mkdir()
    with contextlib.ExitStack() as stack:
        stack.enter_context(campaign_lock(directory))
        monkeypatch.setattr("precice_lb.chain.steps.LOCK_SECONDS", 0.2)
        assert main(["chain", "next", str(study), "-o", str(directory)]) == 2
        assert f"{directory}: another campaign runs here" in capsys.readouterr().err
        monkeypatch.setattr("precice_lb.chain.steps.LOCK_SECONDS", 100.0)
        threading.Timer(1.0, stack.pop_all().close).start()
    assert main(["chain", "next", str(study), "-o", str(directory)]) == 0
    assert (directory / "job.sbatch").is_symlink()


def test_launchers_without_jobs_are_refused(tmp_path: Path) -> None:
    study = write_chain(tmp_path)
    done = following(study)
    assert done.returncode == 2
    assert "launcher.name: expected one whose runs are jobs" in done.stderr


@pytest.mark.slow("a chain of real runs")
def test_a_submission_that_fails_or_waits_is_told(tmp_path: Path) -> None:
    study = write_template(tmp_path)
    (tmp_path / "submit.sh").write_text("echo 'no such queue' >&2\nexit 3\n")
    done = following(study, "--submit")
    assert done.returncode == 2
    assert "launcher.submit failed: no such queue" in done.stderr
    (tmp_path / "submit.sh").write_text(SUBMIT)
    assert following(study, "--submit").returncode == 0
    wait_for_end(tmp_path / "study-chain")
    assert_done(tmp_path / "study-chain")
