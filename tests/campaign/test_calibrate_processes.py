"""What a run leaves: no process, whatever became of its environment, and logs that do not fill the disk."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from calibrate_helpers import CONFIGURATION, write_study

import precice_lb.campaign.launch
from precice_lb.campaign import read_study
from precice_lb.campaign.plan import Task
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


def interrupt(*arguments: object, **more: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_campaign_says_what_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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
