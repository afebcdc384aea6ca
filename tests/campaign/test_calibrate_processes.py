"""What a run leaves: no process, whatever became of its environment; how long the others may go on after a failure."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from calibrate_helpers import WAITS_FOR_GO, WAITS_FOR_SIGNAL, task_of
from clock_helpers import Clock

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
    run_processes(tasks, dict(os.environ), str(directory), 300.0)
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


FAILS = "echo $$ >number.new; mv number.new number; exit 3"
# Waits until the other one is a zombie: has failed, and is about to be found so.
AFTER_IT = 'until test -e number && grep -qs "^State:.Z" "/proc/$(cat number)/status"; do sleep 0.05; done; touch ready'
ENDS_BY_ITSELF = f"{AFTER_IT}; {WAITS_FOR_GO}; test -e go && echo ended by itself"
ENDS_WHEN_ASKED = f"trap 'echo ended when asked; exit 1' TERM; {AFTER_IT}; {WAITS_FOR_SIGNAL}"
CLEANS_UP = f"trap '{WAITS_FOR_GO}; test -e go && echo cleaned up; exit 1' TERM; {AFTER_IT}; {WAITS_FOR_SIGNAL}"
DOES_NOT_LISTEN = f"trap '' TERM; {AFTER_IT}; sleep 30; echo ended by itself"


@pytest.mark.parametrize(
    ("script", "stands_at", "log"),
    [
        # A partner has 2 s to find out and to say so, then is asked to end, and has 3 s to do so.
        (ENDS_BY_ITSELF, 1.9, "ended by itself\n"),
        (ENDS_WHEN_ASKED, 2.1, "ended when asked\n"),
        (CLEANS_UP, 4.9, "cleaned up\n"),
        (DOES_NOT_LISTEN, 5.2, ""),
    ],
    ids=["ends by itself", "ends when asked", "cleans up", "does not listen"],
)
def test_the_partner_of_a_participant_that_failed_has_2_seconds_to_end_and_3_more_after_it_was_asked_to(
    script: str, stands_at: float, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The campaign's clock stands still from a moment on, so that the partner has all the real time that it needs."""
    clock = Clock()

    def sleep(seconds: float) -> None:
        time.sleep(0.005)
        if clock.now >= stands_at:
            (tmp_path / "go").touch()
        elif (tmp_path / "ready").exists():
            clock.now += seconds

    monkeypatch.setattr("precice_lb.campaign.processes.time", SimpleNamespace(monotonic=clock.monotonic, sleep=sleep))
    scripts = {"A": FAILS, "B": script}
    tasks = [
        task_of(name, directory=tmp_path, command=shlex.join(("sh", "-c", text))) for name, text in scripts.items()
    ]

    outcome = run_processes(tasks, dict(os.environ), str(tmp_path), 300.0)

    assert outcome.error == "A ended with exit code 3"
    assert (tmp_path / "B.log").read_text() == log
