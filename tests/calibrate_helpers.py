"""Small cases to calibrate: a configuration of two participants, plain scripts as solvers, a study file."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest
from store_helpers import write_store

from precice_lb.campaign import (
    TOKEN_VARIABLE,
    CampaignResult,
    Event,
    RunPlan,
    RunRecord,
    Task,
    read_study,
    run_campaign,
)
from precice_lb.campaign.launchers import launcher_from
from precice_lb.exceptions import StudyError

CONFIGURATION = (Path(__file__).parent / "data" / "configurations" / "explicit-pair.xml").read_text(encoding="utf-8")

# Shell commands that wait for 60 s at most, for the file "go" or for a signal: a shell handles it between two commands.
WAITS_FOR_GO = "for i in $(seq 1200); do test -e go && break; sleep 0.05; done"
WAITS_FOR_SIGNAL = "for i in $(seq 1200); do sleep 0.05; done"

# Leaves the file a recorder would leave, and what a test wants to look at.
SOLVER = """\
import json, os, pathlib, sys
name = sys.argv[1]
here = pathlib.Path.cwd()
store = pathlib.Path(os.environ["PRECICE_LB_DIR"], "00")
store.mkdir(exist_ok=True)
told = [os.environ.get(name) for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")]
size = next(filter(None, told), "1")
(store / f"{name}-0-{size}.h5").write_bytes(b"")
(here / f"{name}-seen.json").write_text(json.dumps({k: v for k, v in os.environ.items()}))
os.write(1, f"{name} says hello\\n".encode())  # in one piece, since ranks share the log
"""


# A campaign in a process of its own: its study and its directory.
DRIVER = """\
import sys
from pathlib import Path
from precice_lb.campaign import read_study, run_campaign
run_campaign(read_study(sys.argv[1]), Path(sys.argv[2]))
"""


def quiet(event: Event) -> None:
    """Take an event and say nothing."""


def launcher_of(name: str, directory: Path = Path(), **keys: object) -> Any:
    """Make the launcher of a ``[launcher]`` table with these keys, for a campaign that lives in a directory."""
    return launcher_from({"name": name, **keys}, Path.cwd()).ready(directory)


def task_of(
    name: str, ranks: int = 1, *, directory: Path = Path(), command: str = "solve 'in put'", **more: Any
) -> Task:
    """A participant of a run, with its log in the directory."""
    return Task(name, tuple(shlex.split(command)), ranks, directory, directory / f"{name}.log", **more)


def tasks_of(split: str) -> list[Task]:
    """Read participants as "A=3 B=2x8/4 C=1--mem=1G": ranks, threads of each, ranks on a node, and an option."""
    tasks = []
    for word in split.split():
        match = re.fullmatch(r"(\w)=(\d+)(?:x(\d+))?(?:/(\d+))?(-.*)?", word)
        assert match is not None, word
        more = {"threads": int(match[3] or 1), "ranks_per_node": int(match[4]) if match[4] else None}
        tasks.append(task_of(match[1], int(match[2]), options=(match[5],) if match[5] else (), **more))
    return tasks


def plan_of(directory: Path, *tasks: Task) -> RunPlan:
    """A run of at most 90 s."""
    return RunPlan("001-x", directory, tasks, "token", {"PRECICE_LB_DIR": "/s t", "OMP_NUM_THREADS": "1"}, 90.0)


def write_case(directory: Path, solver: str = SOLVER) -> Path:
    """Write a case of Left and Right whose solver is one script; return its directory."""
    case = directory / "case"
    case.mkdir(parents=True)
    (case / "precice-config.xml").write_text(CONFIGURATION)
    (case / "solver.py").write_text(textwrap.dedent(solver))
    return case


def write_study(
    directory: Path,
    *,
    solver: str = SOLVER,
    runs: str = "",
    launcher: str = "oversubscribe = true",
    machine: str = "",
    extra: str = "",
    left: str = "",
    right: str = "",
    case: str = "",
) -> Path:
    """Write a study of `write_case`'s case, made where there is none, with four ranks; the rest goes to its tables."""
    if not (directory / "case").is_dir():
        write_case(directory, solver)
    study = directory / "study.toml"
    study.write_text(
        f"""\
[case]
directory = "case"
{case}

[runs]
windows = 7
warmup_windows = 2
time_limit_seconds = 300
{runs}

[machine]
ranks = 4
{machine}

[launcher]
{launcher}

{extra}

[[participants]]
name = "Left"
command = "python solver.py Left"
degrees_of_freedom = 1000
{left}

[[participants]]
name = "Right"
command = "python solver.py Right"
{right}
"""
    )
    return study


def program(path: Path, lines: str = "") -> Path:
    """Write a program of a shell's lines; return its path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


def changed(path: Path, *changes: tuple[str, str]) -> Path:
    """Replace words of a file, which have to be there; return its path."""
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def refusals(name: str) -> list[str]:
    """What is changed in a study, a line each, and the line that it is refused with, of a file of such blocks."""
    return (Path(__file__).parent / "data" / name).read_text(encoding="utf-8").strip().split("\n\n")


def edited(text: str, changes: Iterable[str]) -> str:
    """A text after changes that stand in such a block."""
    for change in changes:
        old, new = change.replace(r"\n", "\n").split(" -> ")
        assert old in text
        text = text.replace(old, new)
    return text


def check_refused(path: Path, block: str) -> None:
    """A study with those changes is refused with that line, whichever keys are known."""
    *changes, expected = block.split("\n")
    path.write_text(edited(path.read_text(), changes))
    with pytest.raises(StudyError) as refusal:
        read_study(path)
    message = re.sub(r" \(known: [^)]*\)", "", str(refusal.value)).removeprefix(f"{path}: ")
    assert message.replace(str(path.parent), "DIRECTORY").replace(sys.executable, "PYTHON") == expected


def recording(path: Path, **work: float) -> Path:
    """Let the solvers of a study be recorded, with so much work each; return its path."""
    start = "python -m precice_lb run solver.py"
    return changed(path, *((f"python solver.py {name}", f"{start} {name} {much}") for name, much in work.items()))


def run_study(path: Path, report: Callable[[Event], None] = quiet) -> CampaignResult:
    """Do the campaign of a study in a directory beside it."""
    return run_campaign(read_study(path), path.parent / "campaign", report=report)


def run_of(number: int, split: dict[str, int], outcome: str = "finished", **more: Any) -> RunRecord:
    """A run that a campaign has noted."""
    name = f"{number:03d}"
    return RunRecord(number, name, split, f"runs/{name}", f"token-{name}", "", outcome=outcome, **more)  # type: ignore[arg-type]


def state_of(directory: Path) -> CampaignResult:
    """Read the state of a campaign, which has to be there."""
    state = CampaignResult.load(directory)
    assert state is not None
    return state


def runs_of(directory: Path) -> list[RunRecord]:
    """Runs of a campaign or a chain, if it has begun."""
    state = CampaignResult.load(directory)
    return [] if state is None else state.runs


def finished_runs(directory: Path) -> list[RunRecord]:
    """Runs that ended well."""
    return [run for run in runs_of(directory) if run.outcome == "finished"]


def alive(directory: Path) -> list[int]:
    """Processes with a token of a run of this campaign or chain."""
    tokens = {run.token for run in runs_of(directory)}
    return [
        process.pid
        for process in psutil.process_iter(["environ"])
        if (process.info["environ"] or {}).get(TOKEN_VARIABLE) in tokens
    ]


# Sleeps for a cost that falls with the number of ranks, and restarts: twelve points of a field, and how many windows
# they have lived for, are read by all ranks and written by one.
COUPLED = """\
import os, sys, time
import numpy as np
import precice
from mpi4py import MPI

name, work = sys.argv[1], float(sys.argv[2]) * float(os.environ.get("CELLS", "1"))
comm = MPI.COMM_WORLD
file = f"state-{name}.npy"
lived, u = 0.0, np.linspace(0.0, 1.0, 12)
if os.path.exists(file):
    lived, *u = np.load(file)
mine = slice(comm.rank, 12, comm.size)
u = np.array(u)[mine]
mesh, reads, writes = ("A-Mesh", "Flux", "Heat") if name == "Left" else ("B-Mesh", "Heat", "Flux")
participant = precice.Participant(name, "precice-config.xml", comm.rank, comm.size)
y = np.linspace(0.0, 1.0, 12)[mine]
ids = participant.set_mesh_vertices(mesh, np.column_stack([np.zeros_like(y), y]))
participant.initialize()
while participant.is_coupling_ongoing():
    dt = participant.get_max_time_step_size()
    participant.read_data(mesh, reads, ids, 0.0)
    time.sleep(work / comm.size)
    lived += 1
    u = 0.9 * u + 0.1 * np.sin(lived)
    participant.write_data(mesh, writes, ids, u)
    participant.advance(dt)
participant.finalize()
every = comm.gather(u)
if comm.rank == 0:
    whole = np.empty(12)
    for rank, part in enumerate(every):
        whole[rank :: comm.size] = part
    np.save(f"{file}.new.npy", [lived, *whole])
    os.replace(f"{file}.new.npy", file)
"""

# Leaves the store that was made beforehand for this participant and number of ranks, in place of measuring; its state
# is a line for each segment of a chain.
COPIES = """\
import os, shutil, sys
name, made, *line = sys.argv[1:]
rank, size = os.environ.get("PMI_RANK", "0"), os.environ.get("PMI_SIZE", "1")
store = os.path.join(os.environ["PRECICE_LB_DIR"], "00")
os.makedirs(store, exist_ok=True)
file = f"{name}-{rank}-{size}.h5"
shutil.copy(os.path.join(made, file), os.path.join(store, file + ".part"))
os.rename(os.path.join(store, file + ".part"), os.path.join(store, file))
if rank == "0" and line:
    state = f"state-{name}.npy"
    before = open(state).read() if os.path.exists(state) else ""
    with open(state + ".new", "w") as file:
        file.write(before + " ".join(line) + "\\n")
    os.rename(state + ".new", state)
"""


def make_stores(
    directory: Path, ranks: int, rows_of: Callable[[str, int], list[Any]], *, finished: bool = True
) -> None:
    """Stores of a run of each participant on 1, 2, … ranks, for solvers that copy them."""
    directory.mkdir()
    for name in ("Left", "Right"):
        for size in range(1, ranks + 1):
            table = rows_of(name, size)
            for rank in range(size):
                path = write_store(directory, table, name, rank, size, configuration=CONFIGURATION, finished=finished)
                shutil.move(path, directory / path.name)
