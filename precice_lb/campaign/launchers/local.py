"""``mpiexec`` on this machine, the MPI launchers there are, and any other launcher by a template."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from precice_lb.campaign.launchers import Launcher, ProgramLauncher
from precice_lb.campaign.plan import RunPlan, Task, check_placeholders, file_name, fill, split_command, which
from precice_lb.case.tables import Text, Whole
from precice_lb.exceptions import CalibrationError, StudyError

_TOPOLOGY = Path("/sys/devices/system/cpu")


def available_cores(topology: Path = _TOPOLOGY, allowed: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the processors, one per physical core, that this process may run on, sorted by package and core.

    Hardware threads of one core share its units: a rank on the second one would slow down the first.
    """
    cores: dict[tuple[int, int], int] = {}
    for processor in sorted(os.sched_getaffinity(0) if allowed is None else allowed):
        place = topology / f"cpu{processor}" / "topology"
        try:
            key = int((place / "physical_package_id").read_text()), int((place / "core_id").read_text())
        except (OSError, ValueError):
            key = 0, -1 - processor  # not described: taken for a core of its own
        cores.setdefault(key, processor)
    return tuple(processor for _, processor in sorted((package, one) for (package, _), one in cores.items()))


def cores_of_ranks(tasks: Sequence[Task], cores: Sequence[int]) -> dict[str, list[Sequence[int]]]:
    """Give every rank as many cores as it has threads, behind those before it or from its task's first one on."""
    of_tasks: dict[str, list[Sequence[int]]] = {}
    end = 0
    for task in tasks:
        first = end if task.first_core is None else task.first_core
        end = first + task.cores
        of_tasks[task.participant] = [cores[core : core + task.threads] for core in range(first, end, task.threads)]
    return of_tasks


# By variables of these a launcher takes the nodes of an allocation, all from the first on, for each participant anew.
BATCH_PREFIXES = ("SLURM_", "SLURMD_", "PBS_", "LSB_", "COBALT_")


# Starts a command on the cores of its rank: on one machine, ranks and their numbers there are the same.
_PINNED = 'exec taskset -c "$(echo {} | cut -d : -f $((OMPI_COMM_WORLD_RANK + 1)))" "$@"'


@dataclass(kw_only=True)
class MpiexecLauncher(ProgramLauncher):
    """``mpiexec`` of MPICH, Intel MPI or Open MPI on this machine, every participant on cores of its own.

    Left to themselves, Hydra binds nothing and Open MPI binds each participant's ranks to cores from the first core
    on, so that two participants share cores while others idle. So every rank is pinned to a core that no other rank
    has: Hydra by ``-bind-to user:``, Open MPI by ``taskset`` in each rank, anything else by ``taskset`` around the
    whole participant, within which Intel MPI pins by itself. A rank with threads is pinned to as many cores, on which
    it may put them as it likes. With more ranks and threads than cores, which must be asked for, nothing is pinned.

    Parameters
    ----------
    program : str, optional
        The ``mpiexec`` to use. By default the one beside the Python that runs the campaign, else the one on ``PATH``.
    oversubscribe : bool
        Let ranks share cores, unpinned. For emulated loads only; without it, a campaign with more ranks than cores is
        refused before its first run.
    """

    oversubscribe: bool = False
    gives_threads = True

    def locate(self) -> None:
        """Look for ``mpiexec``, and for cores."""
        self.mpiexec = find_mpiexec(self.program)
        self.family = mpi_family(self.mpiexec)
        self.cores = available_cores()
        if (nodes := os.environ.get("SLURM_JOB_NUM_NODES", "1")) != "1":
            raise CalibrationError(f"launcher.name: mpiexec uses one node, of {nodes} in this allocation: use srun")

    def room(self) -> int | None:
        """Return the cores that may be used here."""
        return None if self.oversubscribe else len(self.cores)

    def command(self, plan: RunPlan, task: Task) -> list[str]:
        """Return ``mpiexec … -n ranks command``."""
        start = [*self.arguments, "-n", str(task.ranks)]
        is_pinned = self.pin and plan.cores <= len(self.cores)
        if not is_pinned:
            options = ["--oversubscribe", "--bind-to", "none"] if self.family == "Open MPI" else []
            return [self.mpiexec, *options, *start, *task.command]
        # As ``taskset -c`` reads them.
        cores = [",".join(map(str, of_rank)) for of_rank in cores_of_ranks(plan.tasks, self.cores)[task.participant]]
        if self.family == "Hydra":
            bound = ",".join(of_rank.replace(",", "+") for of_rank in cores)
            return [self.mpiexec, "-bind-to", f"user:{bound}", *start, *task.command]
        if self.family == "Open MPI":
            inside = ["sh", "-c", _PINNED.format(":".join(cores)), "sh"]
            return [self.mpiexec, "--bind-to", "none", *start, *inside, *task.command]
        return ["taskset", "-c", ",".join(cores), self.mpiexec, *start, *task.command]

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """Leave out a batch system's variables, so that each ``mpiexec`` keeps to where it is told to run.

        Open MPI gets its permission to run as root where that is so.
        """
        kept = {name: value for name, value in inherited.items() if not name.startswith(BATCH_PREFIXES)}
        if self.family == "Open MPI" and os.geteuid() == 0:
            kept |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return kept


# Families of ``mpiexec`` whose command lines differ.
Family = Literal["Open MPI", "Hydra", "other"]


def find_mpiexec(program: str | None = None) -> str:
    """Return the path of ``mpiexec``: ``program``, else the one beside this Python, else the one on the path.

    The one beside the interpreter comes first because it belongs to the environment's mpi4py.
    """
    path = which("mpiexec") if program is None else shutil.which(os.path.expanduser(program))
    if path is None:
        raise CalibrationError(
            f"no mpiexec beside {sys.executable} or on the path: install one with `pip install mpich` "
            "(or the extra `mpich` of this package), or use the machine's own MPI"
            if program is None
            else f"launcher.program: expected an MPI launcher, but {program!r} is not an executable program"
        )
    # Open MPI takes the directory above its own for its installation and refuses the root directory, so that a program
    # of /bin is named by the directory that this links to; links of its own say what it is called as.
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name) if os.path.dirname(folder) == "/" else path


@lru_cache(maxsize=8)
def mpi_family(program: str) -> Family:
    """Tell from ``mpiexec --version`` which one it is."""
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CalibrationError(f"{program} --version does not work: {error}") from error
    text = done.stdout + done.stderr
    if re.search("Open MPI|OpenRTE|PRRTE", text):
        return "Open MPI"
    # Intel MPI's has another syntax, and another name.
    if "hydra" in text.lower() and "Intel(R) MPI" not in text:
        return "Hydra"
    if done.returncode != 0:
        last = (text.strip().splitlines() or ["no output"])[-1]
        raise CalibrationError(f"{program} --version failed with exit code {done.returncode}: {last}")
    return "other"


@dataclass(kw_only=True)
class TemplateLauncher(Launcher):
    """A command line of the user's own, with placeholders, on this machine or in the job that the campaign is.

    ``participant`` says how ranks are started, such as ``flux run -n {ranks} {command}``.

    Parameters
    ----------
    participant : str
        Command line that starts a participant's ranks.
    ranks_per_node : int, optional
        Ranks on each node; every participant then gets nodes of its own. Take production's: ranks share the memory's
        bandwidth.
    """

    participant: Text
    ranks_per_node: Whole | None = None
    many_nodes = True
    # Where its ranks are, only the user's program knows.
    can_stop = False

    def __post_init__(self) -> None:
        # A run for the sake of the names that placeholders may have.
        run = RunPlan("run", Path(), (Task("any", (), 1, Path(), Path()),))
        text = self.participant
        if "{command}" not in split_command("participant", text):
            raise StudyError("launcher.participant: expected {command} as a word of its own")
        try:
            check_placeholders(text, {"command", *_of_task(run, *run.tasks)})
        except StudyError as error:
            raise StudyError(f"launcher.participant: {error}") from error
        self.gives_threads = re.search(r"\{(threads|cores)\}", text) is not None

    def command(self, plan: RunPlan, task: Task) -> list[str]:
        """Return the command line of a participant."""
        values, tokens = _of_task(plan, task), split_command("participant", self.participant)
        return [word for t in tokens for word in (task.command if t == "{command}" else [fill(t, values)])]


def _of_task(plan: RunPlan, task: Task) -> dict[str, object]:
    """Return what may stand in ``participant`` beside the command; nodes and ranks are counted over all, from 0."""
    earlier = plan.tasks[: plan.tasks.index(task)]
    return {
        **task.values,
        "directory": task.directory,
        "first_node": sum(before.nodes or 1 for before in earlier),
        "first_rank": sum(before.ranks for before in earlier),
        "name": plan.name,
        "participant": file_name(task.participant),
        "ranks_per_node": task.ranks_per_node or task.ranks,
        "run": plan.directory,
    }
