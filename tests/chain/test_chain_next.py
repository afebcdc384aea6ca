"""Chains whose jobs write or submit each other, as Slurm and as a user's own shell run them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from calibrate_helpers import runs_of
from clock_helpers import Clock
from fake_slurm import FakeSlurm
from report_helpers import refused
from segment_helpers import assert_whole, following, page, write_chain, write_copies

from precice_lb.campaign import campaign_lock
from precice_lb.cli import main
from precice_lb.exceptions import CalibrationError

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpiexec")]


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The study of a chain whose jobs are a fake Slurm's."""
    FakeSlurm(tmp_path / "slurm", monkeypatch)
    return write_copies(tmp_path, launcher='name = "slurm"', case='network = "lo"')


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


def test_each_job_submits_the_next(tmp_path: Path, study: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["chain", "next", str(study), "--submit"]) == 0
    assert "segment 1 of 3: Left 1, Right 3 ranks, windows 1 to 4 of 12" in capfd.readouterr().err
    directory = tmp_path / "study-chain"
    wait_for_end(directory)
    assert_whole(directory)
    assert [run.outcome for run in runs_of(directory)] == ["finished"] * 3
    assert all(run.job and run.job.isdigit() for run in runs_of(directory))
    assert "the chain has come to its end: 12 windows" in (directory / "campaign.log").read_text()
    # Nothing is left to do, and nothing is done.
    assert main(["chain", "next", str(study), "--submit"]) == 0
    assert len(runs_of(directory)) == 3


@pytest.mark.slow("a chain of real runs")
def test_without_submission_the_user_does_it(tmp_path: Path, study: Path) -> None:
    directory, job = tmp_path / "chain", {**os.environ, "SLURM_JOB_ID": "1"}
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
        subprocess.run(["bash", directory / "job.sbatch"], capture_output=True, check=True, timeout=300, env=job)
    assert not (directory / "job.sbatch").is_symlink()
    assert_whole(directory)


@pytest.mark.parametrize(("held_seconds", "exit_code"), [(9.8, 0), (1000.0, 2)])
def test_a_directory_that_another_process_holds_is_waited_for_10_seconds(
    held_seconds: float, exit_code: int, tmp_path: Path, study: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    directory = tmp_path / "chain"
    directory.mkdir()
    clock = Clock()
    with contextlib.ExitStack() as stack:
        stack.enter_context(campaign_lock(directory))

        def sleep(seconds: float) -> None:
            clock.now += seconds
            if clock.now >= held_seconds:
                stack.close()

        monkeypatch.setattr("precice_lb.store.reader.time", SimpleNamespace(monotonic=clock.monotonic, sleep=sleep))
        assert main(["chain", "next", str(study), "-o", str(directory)]) == exit_code

    assert clock.now == pytest.approx(min(held_seconds, 10.0), abs=0.2)
    is_refused = f"{directory}: another campaign runs here" in capsys.readouterr().err
    assert is_refused == (exit_code == 2)
    assert (directory / "job.sbatch").is_symlink() == (exit_code == 0)


def test_launchers_without_jobs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "launcher.name: expected slurm, whose runs are jobs" in refused(
        capsys, "chain", "next", write_chain(tmp_path)
    )
