"""What a run leaves: no process, whatever became of its environment, and logs that do not fill the disk."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from calibrate_helpers import CONFIGURATION, launcher_of, write_case, write_study

import precice_lb.campaign.launch
from precice_lb.campaign import read_study
from precice_lb.campaign.plan import RunPlan, Task
from precice_lb.campaign.processes import run_processes
from precice_lb.campaign.runs import CampaignRuns
from precice_lb.chain.steps import open_chain
from precice_lb.cli import main

# Leaves a process without any environment, whose number is in a file.
CLEARED = 'env -i sleep 300 & echo $! >"$1.new"; mv "$1.new" "$1"'


def task_of(directory: Path, *command: str) -> Task:
    return Task("A", command, 1, directory, directory / "A.log")


def left_by(directory: Path, script: str, code: int) -> int:
    """Number of the process that a script has left, whose partner ends with that code as soon as it is there."""
    note = directory / "pid"
    partner = task_of(directory, "sh", "-c", f'until test -e "$1"; do sleep 0.05; done; exit {code}', "sh", str(note))
    tasks = [task_of(directory, "sh", "-c", script, "sh", str(note)), dataclasses.replace(partner, participant="B")]
    run_processes(tasks, dict(os.environ), directory.name, 300.0)
    return int(note.read_text())


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (CLEARED, 0),
        (f"{CLEARED}; wait", 1),
        # As Hydra starts its ranks: in a session of their own, which the launcher ends.
        (f"""setsid sh -c '{CLEARED}; wait' sh "$1" & trap 'kill $!; exit 1' TERM; wait""", 1),
    ],
)
def test_no_process_of_a_session_is_left_without_its_environment(tmp_path: Path, script: str, code: int) -> None:
    assert is_gone(left_by(tmp_path, script, code))


def test_what_escapes_is_said(tmp_path: Path) -> None:
    launcher = launcher_of("template", tmp_path, participant="env {command}")
    told: list[str] = []
    launcher.warn = told.append
    note = tmp_path / "pid"
    script = 'setsid env -i sleep 300 & until test "$(cat /proc/$!/comm)" = sleep; do :; done; echo $! >pid'
    try:
        launcher.run(RunPlan("r", tmp_path, (task_of(tmp_path, "sh", "-c", script),), "token"), lambda job: None)
        text = f"still running in the directories of r, so end what is of it: {note.read_text().strip()} (sleep)"
        assert told == [text]
    finally:
        os.kill(int(note.read_text()), signal.SIGKILL)


# Prints 40 MB, and goes on when its log has become small on the disk.
PRINTS = """\
import os, time
os.write(1, b"first\\n")
for _ in range(40):
    os.write(1, b"x" * 999_999 + b"\\n")
while os.fstat(1).st_blocks * 512 > 5_000_000:
    time.sleep(0.01)
os.write(1, b"last\\n")
"""


def test_of_a_long_log_the_first_and_the_last_part_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("fallocate") is None or not can_punch(tmp_path):
        pytest.skip("no file here can give back its middle")
    monkeypatch.setattr("precice_lb.campaign.launchers.LOG_PART", 2**20)
    task = task_of(tmp_path, sys.executable, "-c", PRINTS)
    launcher = launcher_of("template", tmp_path, participant="env {command}")
    assert launcher.run(RunPlan("r", tmp_path, (task,), tmp_path.name), lambda job: None).error is None
    log = task.log.read_bytes()
    assert len(log) == 6 + 40 * 10**6 + 5
    assert log.startswith(b"first\nxxx")
    assert log.endswith(b"x\nlast\n")
    # What is left out takes no room, and reads as zeros.
    assert task.log.stat().st_blocks * 512 <= 5_000_000
    assert log[3 * 2**20 : 35 * 2**20] == bytes(32 * 2**20)


def can_punch(directory: Path) -> bool:
    file = directory / "punched"
    file.write_bytes(bytes(100_000))
    return subprocess.run(["fallocate", "-p", "-l", "50000", file], capture_output=True, check=False).returncode == 0


def interrupt(*arguments: object, **more: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_campaign_says_what_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_case(tmp_path)
    launcher = "name = 'template'\nparticipant = 'env {command}'"
    path = write_study(tmp_path, case='network = "lo"', launcher=launcher)
    monkeypatch.setattr(CampaignRuns, "do", interrupt)
    assert main(["calibrate", str(path), "--directory", str(tmp_path / "out")]) == 130
    expected = (
        f"precice-lb: interrupted: 0 finished runs kept in {tmp_path / 'out'}; the same command goes on from there"
    )
    assert capsys.readouterr().err.splitlines()[-1] == expected
    path.write_text(path.read_text() + "\n[chain]\nwindows = 3\ntotal = 9\n")
    with pytest.raises(KeyboardInterrupt, match="0 finished segments kept in"), open_chain(read_study(path), tmp_path):
        raise KeyboardInterrupt


def test_an_interrupted_launch_says_what_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mpiexec: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("precice-config.xml").write_text(CONFIGURATION)
    monkeypatch.setattr(precice_lb.campaign.launch, "start_split", interrupt)
    assert (
        main(["launch", "--split", "Left=1,Right=1", "--set", "launcher.name=mpiexec", "--", "true", ":", "true"])
        == 130
    )
    expected = "precice-lb: interrupted: logs and what was recorded are kept; launch starts anew\n"
    assert capsys.readouterr().err == expected
