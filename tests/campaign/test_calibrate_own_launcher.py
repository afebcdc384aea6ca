"""A launcher for Flux, as another package adds one: this file alone knows of it and of its keys."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from calibrate_helpers import quiet, write_case, write_study

from precice_lb.campaign import Launcher, RunPlan, Task, read_study, run_campaign
from precice_lb.exceptions import CalibrationError, StudyError
from precice_lb.plugins import LAUNCHERS


@dataclass(kw_only=True)
class FluxLauncher(Launcher):
    """Starts participants by ``flux run``.

    Parameters
    ----------
    queue : str
        Where they wait.
    requires : list of str
        What their nodes have to be.
    urgency : int, optional
        How soon they are started.
    log : Path, optional
        Relative to the study file.
    """

    queue: str
    requires: tuple[str, ...] = ()
    urgency: int | None = None
    log: Path | None = None
    gives_threads = True

    def check(self, tasks: tuple[Task, ...]) -> None:
        """Refuse more than Flux takes."""
        if (ranks := sum(task.ranks for task in tasks)) > 3:
            raise CalibrationError(f"expected at most 3 ranks, found {ranks}")

    def command(self, plan: RunPlan, task: Task) -> list[str]:
        """Return the line of a participant."""
        more = [f"--requires={text}" for text in self.requires]
        more += [] if self.urgency is None else [f"--urgency={self.urgency}"]
        words = ["flux", "run", f"--queue={self.queue}", *more, "-c", str(task.threads), "-n", str(task.ranks)]
        return [*words, *task.command]


# Starts the command once, as the only rank that leaves a file here.
FLUX = """\
#!/bin/sh
[ "$1 $2 $3 $4" = "run --queue=debug -c 1" ] && [ "$5" = -n ] || exit 64
export PMI_SIZE=$6 BY=flux
shift 6
exec "$@"
"""


@pytest.fixture(autouse=True)
def flux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin, and a program of that name."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "flux").write_text(FLUX)
    (place / "flux").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(LAUNCHERS, "_added", {})
    LAUNCHERS.add("flux", FluxLauncher)


def study(directory: Path, keys: str, **more: str) -> Path:
    """Write a study with these keys of ``[launcher]``."""
    write_case(directory)
    return write_study(directory, launcher=f'name = "flux"\n{keys}', **more)


def test_its_keys_are_the_parameters_of_its_constructor(tmp_path: Path) -> None:
    keys = 'queue = "debug"\nrequires = ["a", "b"]\nlog = "x.log"'
    launcher = read_study(study(tmp_path, keys, right="ranks = 1\nthreads = 3")).launcher
    assert isinstance(launcher, FluxLauncher)
    assert (launcher.name, launcher.requires, launcher.log) == ("flux", ("a", "b"), tmp_path / "x.log")
    task = Task("A", ("solve", "in put"), 2, tmp_path, tmp_path / "A.log", threads=3)
    line = launcher.command(RunPlan("run", tmp_path, (task,)), task)
    assert line[:-2] == ["flux", "run", "--queue=debug", "--requires=a", "--requires=b", "-c", "3", "-n", "2"]
    assert line[-2:] == ["solve", "in put"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ('queue = "debug"\nurgencie = 3', "launcher: urgencie: the launcher flux does not know this key, only log, "
         "queue, requires, urgency; did you mean 'urgency'?"),
        ('queue = "debug"\npin = true', "launcher: pin: the launcher flux does not know this key"),
        ('queue = "debug"\nurgency = "3"', "launcher.urgency: expected a valid integer, found '3'"),
        ('queue = "debug"\nurgency = true', "launcher.urgency: expected a valid integer, found True"),
        ('queue = "debug"\nrequires = [1]', "launcher.requires[1]: expected a valid string, found 1"),
        ("urgency = 3", "launcher.queue: this key is missing"),
    ],
)  # fmt: skip
def test_other_keys_and_types_are_refused_in_one_line(tmp_path: Path, keys: str, expected: str) -> None:
    with pytest.raises(StudyError) as caught:
        read_study(study(tmp_path, keys))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


class EarlierLauncher(Launcher):
    """As before keys were parameters."""

    def __init__(self, options: object, directory: Path = Path()) -> None:
        super().__init__()


def test_a_launcher_whose_constructor_has_no_keys_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LAUNCHERS._added, "flux", EarlierLauncher)
    with pytest.raises(
        StudyError, match=r"EarlierLauncher: expected keyword-only parameters, .* found options, directory; upda"
    ):
        read_study(study(tmp_path, ""))


def test_a_run_is_started_by_it_and_ends(tmp_path: Path) -> None:
    path = study(tmp_path, 'queue = "debug"', runs="splits = [{Left=2, Right=1}]")
    result = run_campaign(read_study(path), tmp_path / "campaign", report=quiet)
    assert [run.outcome for run in result.runs] == ["finished"]
    (seen,) = tmp_path.glob("campaign/runs/*/case/Left-seen.json")
    environment = json.loads(seen.read_text())
    assert (environment["BY"], environment["PMI_SIZE"]) == ("flux", "2")
