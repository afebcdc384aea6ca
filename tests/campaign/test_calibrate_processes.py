"""What a run leaves: no process, whatever became of its environment."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from calibrate_helpers import task_of

from precice_lb.campaign import run_processes

# Leaves a process without any environment, whose number is in a file.
CLEARED = 'env -i sleep 300 & echo $! >"$1.new"; mv "$1.new" "$1"'


def left_by(directory: Path, script: str, code: int) -> int:
    """Number of the process that a script has left, whose partner ends with that code as soon as it is there."""
    note = str(directory / "pid")
    scripts = {"A": script, "B": f'until test -e "$1"; do sleep 0.05; done; exit {code}'}
    tasks = [
        task_of(n, directory=directory, command=shlex.join(("sh", "-c", s, "sh", note))) for n, s in scripts.items()
    ]
    run_processes(tasks, dict(os.environ), directory.name, 300.0)
    return int(Path(note).read_text())


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
