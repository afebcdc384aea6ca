"""``mpiexec`` on this machine, the MPI launchers there are, and any other launcher by a template."""

from __future__ import annotations

import math
import os
import re
import shlex
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
from precice_lb.campaign.processes import end_of_log, start_process, stop_processes
from precice_lb.campaign.schedulers import JOB_LOG, JOB_SCRIPT, Scheduler, job_lines
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
_PINNED = 'cores=({}); exec taskset -c "${{cores[OMPI_COMM_WORLD_RANK]}}" "$@"'


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
            inside = ["bash", "-c", _PINNED.format(" ".join(cores)), "bash"]
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


# Of qsub and sbatch --parsable, whose line is nothing else, and the sentences of sbatch, bsub and Grid Engine.
_NUMBERS = (
    r"^(\d+(?:\[\d*\])?(?:\.[\w.-]+)?)(?:;\S+)?\s*$",
    r"^Submitted batch job (\d+)\b",
    r"^Job <(\d+)> is submitted(?: to|\W*$)",
    r"^Your job(?:-array)? (\d+)\b.* has been submitted",
)


@dataclass(kw_only=True)
class TemplateLauncher(Launcher):
    """Command lines of the user's own, with placeholders.

    ``participant`` says how ranks are started, such as ``flux run -n {ranks} {command}``. With ``script`` and
    ``submit`` a run is a job: ``{participants}`` in the script becomes the lines that start all participants and wait
    for them, and ``submit`` has to return at the end of the job (``qsub -W block=true {script}``, or a wrapper around
    ``bsub -K``). ``cancel`` gets the job's number as ``{job}``: what ``submit`` prints in a line of its own or says as
    batch systems do; none where these are many.

    Parameters
    ----------
    participant : str
        Command line that starts a participant's ranks.
    ranks_per_node : int, optional
        Ranks on each node; every participant then gets nodes of its own. Take production's: ranks share the memory's
        bandwidth.
    script : Path, optional
        Job script, relative to the study file.
    submit : str, optional
        Command line that submits it, and returns at the end of the job.
    cancel : str, optional
        Command line that cancels a job.
    setup : sequence of str
        Lines of the job script before the participants, such as ``"module load openmpi"``.
    """

    participant: Text
    ranks_per_node: Whole | None = None
    script: Path | None = None
    submit: Text | None = None
    cancel: Text | None = None
    setup: tuple[Text, ...] = ()
    many_nodes = True

    def __post_init__(self) -> None:
        # A run for the sake of the names that placeholders may have.
        run = RunPlan("run", Path(), (Task("any", (), 1, Path(), Path()),))
        names = {
            "participant": ("command", *_of_task(run, *run.tasks)),
            "submit": self.values(run),
            "cancel": ("job",),
        }
        for key, known in names.items():
            text = getattr(self, key)
            if text is not None and not split_command(key, text):
                raise StudyError(f"launcher.{key}: expected a command line, found an empty text")
            try:
                check_placeholders(text or "", known)
            except StudyError as error:
                raise StudyError(f"launcher.{key}: {error}") from error
        if "{command}" not in split_command("participant", self.participant):
            raise StudyError("launcher.participant: expected {command} as a word of its own")
        if (self.script is None) != (self.submit is None):
            raise StudyError("launcher: expected both script and submit, or neither")
        self.gives_threads = re.search(r"\{(threads|cores)\}", self.participant) is not None

    def locate(self) -> None:
        """Take runs as jobs, where the study says how they are submitted."""
        if self.script is None:
            return
        try:
            self._template = self.script.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CalibrationError(f"launcher.script: {self.script} cannot be read: {error}") from error
        if "{participants}" not in self._template:
            raise CalibrationError(f"launcher.script: {self.script} has no line {{participants}}")
        self.scheduler = SubmitCommand(self)

    def job_script(self, plan: RunPlan) -> str:
        """Return the job script of a run."""
        lines, place = job_lines(plan, self.starts(plan), self.setup), str(plan.directory)
        if re.search(r"\{(log|run|script)\}", self._template) and re.search(r"[^\w@%+=:,./~ -]", place):
            raise CalibrationError(f"expected a directory that a shell takes as it is, found {place!r}: use another")
        return fill(self._template, {**self.values(plan), "participants": lines.rstrip("\n")})

    def command(self, plan: RunPlan, task: Task) -> list[str]:
        """Return the command line of a participant."""
        values, tokens = _of_task(plan, task), split_command("participant", self.participant)
        return [word for t in tokens for word in (task.command if t == "{command}" else [fill(t, values)])]

    def values(self, plan: RunPlan) -> dict[str, object]:
        """Return what may stand in ``submit`` and ``script``; the placement is ``participant:first node:nodes``."""
        values = [_of_task(plan, task) for task in plan.tasks]
        minutes = math.ceil(plan.time_limit_seconds / 60)
        return {
            "log": plan.directory / JOB_LOG,
            "minutes": minutes,
            "name": plan.name,
            "placement": " ".join("{participant}:{first_node}:{nodes}".format(**of_task) for of_task in values),
            "ranks_per_node": self.ranks_per_node or plan.ranks,
            "run": plan.directory,
            "script": plan.directory / JOB_SCRIPT,
            "total_cores": plan.cores,
            "total_nodes": sum(task.nodes or 1 for task in plan.tasks),
            "total_ranks": plan.ranks,
            "walltime": f"{minutes // 60:02d}:{minutes % 60:02d}:00",
        }


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


def job_number(text: str) -> str | None:
    """Return a job's number from what its submission printed; of several, which might be those of other jobs, none."""
    numbers = {match[1] for pattern in _NUMBERS for match in re.finditer(pattern, text, re.MULTILINE)}
    return numbers.pop() if len(numbers) == 1 else None


class SubmitCommand(Scheduler):
    """``submit`` and ``cancel`` of a template; a job is known by its log."""

    longest_pause = 1.0
    resumes = False

    def __init__(self, launcher: TemplateLauncher) -> None:
        self._launcher = launcher
        self.cancels = launcher.cancel is not None

    def submit(self, plan: RunPlan, script: Path) -> str:
        """Start the command, which returns at the end of the job."""
        values, log, self._token = self._launcher.values(plan), plan.directory / JOB_LOG, plan.token
        tokens = [fill(token, values) for token in split_command("submit", self._launcher.submit or "")]
        try:
            self._process = start_process(tokens, plan.directory, plan.environment(), log, plan.token)
        except OSError as error:
            raise CalibrationError(f"{tokens[0]} could not be started: {error}") from error
        return str(log)

    def poll(self, job: str) -> Sequence[str]:
        """Tell whether the command still runs, else how it ended."""
        code = self._process.poll()
        return ["RUNNING" if code is None else "FAILED" if code else "COMPLETED"]

    def number(self, job: str) -> str | None:
        """Look for it in what the command has printed so far."""
        return job_number(end_of_log(Path(job)))

    def cancel(self, job: str) -> None:
        """Cancel a job, where the study says how."""
        tokens = [fill(part, {"job": job}) for part in split_command("cancel", self._launcher.cancel or "")]
        try:
            if tokens:
                subprocess.run(tokens, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CalibrationError(f"launcher.cancel: {shlex.join(tokens)} does not work: {error}") from error

    def close(self, job: str) -> None:
        """Leave nothing of the command running."""
        stop_processes([self._process], self._token)
