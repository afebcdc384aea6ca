"""What a launcher is given: its options, and a run with its participants' tasks."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["RUN_VARIABLES", "LauncherOptions", "RunPlan", "Task", "file_name", "nodes_of"]

# Environment variables that belong to a run: the campaign sets them or leaves them out, whatever they were before.
RUN_VARIABLES = ("PRECICE_LB_RECORD", "PRECICE_LB_DIR", "PRECICE_LB_AT_END", "PRECICE_LB_METADATA")


@dataclass(frozen=True)
class LauncherOptions:
    """The keys of a study's ``[launcher]`` table; each launcher knows some of them (`Launcher.keys`).

    Attributes
    ----------
    program
        Program to use instead of the one the launcher would look for.
    arguments
        Further arguments of that program, before the participant's command.
    oversubscribe
        Let ranks share cores.
    pin
        Bind every rank to a core of its own.
    hostfile
        File with a host and its number of slots per line.
    ranks_per_node
        Ranks on each node; participants then get nodes of their own.
    mpi
        What ``srun --mpi`` gets.
    options
        Options of ``sbatch`` or ``salloc``, one each.
    allocation
        ``"run"``: a job per run; ``"campaign"``: one allocation for all of them.
    setup
        Lines of the job script before the participants.
    participant, script, submit, cancel
        A template's command lines and script file, see `precice_lb.calibrate.launchers.template`.
    submit_retry_seconds
        How long a refused submission is tried again.
    label, directory
        Name of everything the campaign submits, its own among all campaigns; where the campaign lives.
    """

    program: str | None = None
    arguments: tuple[str, ...] = ()
    oversubscribe: bool = False
    pin: bool = True
    hostfile: Path | None = None
    ranks_per_node: int | None = None
    mpi: str | None = None
    options: tuple[str, ...] = ()
    allocation: str = "run"
    setup: tuple[str, ...] = ()
    participant: str | None = None
    script: Path | None = None
    submit: str | None = None
    cancel: str | None = None
    submit_retry_seconds: float = 3600.0
    label: str = "precice-lb"
    directory: Path = Path()


@dataclass(frozen=True)
class Task:
    """One participant of a run: what each of its ``ranks`` runs, where, and what it needs.

    ``ranks_per_node`` and ``options`` (of the batch system) are its own where they differ from the launcher's.
    """

    participant: str
    command: tuple[str, ...]
    ranks: int
    directory: Path
    log: Path
    ranks_per_node: int | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunPlan:
    """A run to start: its tasks, a directory for the launcher's files, variables to set and seconds it may take.

    ``token`` marks everything that belongs to the run, so that it can be found and stopped.
    """

    name: str
    directory: Path
    tasks: tuple[Task, ...]
    token: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    time_limit_seconds: float = 3600.0

    @property
    def ranks(self) -> int:
        """Ranks of all participants together."""
        return sum(task.ranks for task in self.tasks)

    def environment(self) -> dict[str, str]:
        """Return this process's environment without what belongs to other runs, and with the run's variables."""
        inherited = {name: value for name, value in os.environ.items() if name not in RUN_VARIABLES}
        return {**inherited, **self.variables}


def file_name(participant: str) -> str:
    """Return a participant's name as part of a file's name, which file systems limit to 255 bytes."""
    name = re.sub(r"[^A-Za-z0-9_.]", "_", participant)
    return name if len(name) <= 160 else f"{name[:160]}_{hashlib.sha256(participant.encode()).hexdigest()[:16]}"


def nodes_of(task: Task, options: LauncherOptions) -> int | None:
    """Return how many nodes a participant gets for itself, None where nothing was said of ranks per node."""
    per_node = task.ranks_per_node or options.ranks_per_node
    return None if per_node is None else -(-task.ranks // per_node)
