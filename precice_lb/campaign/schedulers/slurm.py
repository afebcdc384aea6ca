"""Talking to Slurm: submit, ask for states, cancel; patient with a controller that is busy or away."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from precice_lb.campaign.plan import RunPlan
from precice_lb.campaign.schedulers import Scheduler, insist
from precice_lb.exceptions import CalibrationError

_LIVE_STATES = (
    "PENDING CONFIGURING RUNNING COMPLETING SUSPENDED STOPPED SIGNALING STAGE_OUT RESIZING REQUEUED REQUEUE_FED "
    "REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT"
)

# srun takes these for options of its own, although they say how the job's script was placed.
_OPTION_VARIABLES = (
    "SLURM_NTASKS_PER_CORE SLURM_NTASKS_PER_SOCKET SLURM_NTASKS_PER_NODE SLURM_NTASKS SLURM_NPROCS SLURM_NNODES "
    "SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_DISTRIBUTION SLURM_HINT SLURM_CPU_BIND "
    "SLURM_EXACT SLURM_OVERLAP SLURM_EXCLUSIVE SLURM_THREADS_PER_CORE"
)
UNSET_OPTIONS = f"unset {_OPTION_VARIABLES}\n"
"""The line of a job script without which its steps would inherit the options of the script."""

# What sbatch says where it is worth trying again: limits that others' jobs fill, and a controller that is away.
_TEMPORARY = re.compile(
    "temporarily|job limit|submit limit|MaxSubmit|MaxJob|queue full|Unable to contact|Connection refused|timed out"
    "|inactive|down|try again",
    re.IGNORECASE,
)

# Why a job waits that will not start unless somebody changes it, the partition or an account's limits.
_NEVER = re.compile(
    r"Partition(?:TimeLimit|NodeLimit|Inactive|Down)|BadConstraints|Invalid(?:Account|QOS)|JobHeld|NotAllowed"
    r"|DependencyNeverSatisfied|(?:QOS|Assoc)\w*PerJob|ReservationDeleted"
)

# Of a job or step that is no more.
_GONE = re.compile("Invalid job id|already completing or completed")

_COMMAND_SECONDS = 180.0
# For questions without which it goes on.
_ANSWER_SECONDS = 30.0


def find_slurm(name: str, program: str | None = None) -> str:
    """Return the path of one of Slurm's programs."""
    path = shutil.which(os.path.expanduser(program or name))
    if path is None:
        raise CalibrationError(
            f"no {program or name} on the path: this launcher needs Slurm; elsewhere use mpiexec or a template"
        )
    return path


def without_slurm_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables that ``srun`` takes for options of its own."""
    return {name: value for name, value in environment.items() if name not in _OPTION_VARIABLES.split()}


def outside_of_jobs(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what a surrounding job has put there, which a submitted job would inherit."""
    kept, left_out = {"SLURM_CONF", "SLURM_CLUSTERS"}, ("SLURM_", "SLURMD_", "SRUN_")
    return {name: value for name, value in environment.items() if name in kept or not name.startswith(left_out)}


def _ask(
    tokens: Sequence[str], environment: Mapping[str, str] | None = None, seconds: float = _COMMAND_SECONDS
) -> subprocess.CompletedProcess[str]:
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "check": False}
    try:
        return subprocess.run(tokens, env=environment, timeout=seconds, **streams)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(tokens, 1, "", str(error))


class SlurmScheduler(Scheduler):
    """``sbatch``, ``squeue`` and ``scancel``; a refusal that may pass is tried again for half an hour.

    ``refused`` gets what to tell of such a refusal, or of a question without an answer, and Slurm's words.
    """

    live = frozenset(_LIVE_STATES.split())

    def __init__(self, refused: Callable[[str, str], None]) -> None:
        self._refused = refused
        self._sbatch, self._squeue, self._scancel = map(find_slurm, ("sbatch", "squeue", "scancel"))

    def submit(self, plan: RunPlan, script: Path) -> str:
        """Submit the script of a run, and return the job's number."""
        # By its name the job is found again, whatever its options say.
        name = re.findall(r"^#SBATCH --job-name=(.*)", script.read_text(encoding="utf-8"), re.MULTILINE)[0]
        tokens = [self._sbatch, "--parsable", f"--job-name={name}", str(script)]

        def ask() -> str | None:
            done = _ask(tokens, outside_of_jobs(os.environ))
            if done.returncode == 0:
                # "number" or "number;cluster", behind what the site's plugins may say.
                return done.stdout.strip().rpartition("\n")[2].partition(";")[0]
            words = " ".join((done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").split())
            if not _TEMPORARY.search(words):
                raise CalibrationError(f"Slurm refuses the job: {words}")
            # It may have been taken, and the answer lost.
            if (job := self.find(name)) is None:
                self._refused(f"Slurm does not take the job, which is submitted again for a while: {words}", words)
            return job

        job = insist(ask)
        if not job.isdigit():
            raise CalibrationError(f"{self._sbatch} --parsable: expected a job's number, found {job!r}")
        return job

    def poll(self, job: str) -> list[str] | None:
        """Return the state of a job, one per component of a heterogeneous one; empty where Slurm has forgotten it."""
        lines = self._lines(self._squeue, "--noheader", f"--jobs={job}", "--states=all", "--format=%T %r")
        if lines is None:
            return None
        pairs = [line.partition(" ")[::2] for line in lines]
        reasons = (reason.strip() for state, reason in pairs if state == "PENDING" and _NEVER.match(reason))
        self.stuck = next(reasons, None)
        return [state for state, _ in pairs]

    def cancel(self, job: str) -> None:
        """Cancel a job; one that has ended is none."""
        insist(lambda: self._lines(self._scancel, job))

    def cancel_steps(self, job: str, name: str) -> None:
        """Cancel the steps of a job that carry a name."""
        lines = insist(lambda: self._lines(self._squeue, "--noheader", "--steps", f"--jobs={job}", "--format=%i|%j"))
        for step in [line.partition("|")[0].strip() for line in lines if line.strip().endswith(f"|{name}")]:
            self.cancel(step)

    def find(self, name: str) -> str | None:
        """Return the last of this user's jobs of a name that wait or run, and are not about to end."""
        lines = insist(lambda: self._lines(self._squeue, "--noheader", "--me", f"--name={name}", "--format=%i %T"))
        rows = [line.split() for line in lines]
        jobs = {row[0].partition("+")[0] for row in rows if row[1] in self.live - {"COMPLETING"}}
        return max(jobs, key=int, default=None)

    def _lines(self, *tokens: str) -> list[str] | None:
        """Return what Slurm answers, nothing of a job that it has forgotten; None where it does not answer."""
        done = _ask(tokens)
        if done.returncode == 0 or _GONE.search(done.stderr):
            return [line for line in done.stdout.splitlines() if line]
        words = " ".join(done.stderr.split())
        self._refused(f"Slurm does not answer, and is asked again for a while: {words}", words)
        return None


def scontrol(*words: str) -> str:
    """Return what Slurm answers; nothing where it does not."""
    return _ask(["scontrol", *words], seconds=_ANSWER_SECONDS).stdout
