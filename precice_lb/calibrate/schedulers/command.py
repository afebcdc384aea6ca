"""A user's own command that submits a run and returns at the end of its job; another one cancels it."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from precice_lb.calibrate.placeholders import fill, split_command
from precice_lb.calibrate.plan import RunPlan
from precice_lb.calibrate.processes import start_process, stop_processes
from precice_lb.calibrate.schedulers.base import JOB_LOG, Scheduler
from precice_lb.exceptions import CalibrationError

__all__ = ["SubmitCommand", "job_number"]

# A line that is nothing else, as qsub's, or what follows "job": "Job <7> is submitted", "Submitted batch job 7".
_NUMBER = re.compile(r"^\s*(\d[\w.\[\]-]*)\s*$|\bjob(?:\s+id)?[:\s]\s*<?(\d[\w.\[\]-]*)", re.IGNORECASE | re.MULTILINE)


def job_number(said: str, pattern: str | None = None) -> str | None:
    """Return the number of a job in what a submission said: by the user's own pattern, or as batch systems say it."""
    found = (_NUMBER if pattern is None else re.compile(pattern, re.MULTILINE)).search(said)
    return None if found is None else next((group.rstrip(".") for group in found.groups() if group), None)


class SubmitCommand(Scheduler):
    """``submit`` and ``cancel`` of a template; ``pattern`` finds the job's number in what ``submit`` prints."""

    longest_pause = 1.0
    resumes = False

    def __init__(self, submission: Callable[[RunPlan], list[str]], cancel: str | None, pattern: str | None) -> None:
        self._submission, self._cancel, self._pattern = submission, cancel, pattern
        self.cancels = cancel is not None
        self._running: dict[str, tuple[subprocess.Popen[bytes], list[str], str]] = {}

    def submit(self, plan: RunPlan, script: Path) -> str:
        """Start the command; the job is known by its log."""
        tokens, log = self._submission(plan), plan.directory / JOB_LOG
        try:
            process = start_process(tokens, plan.directory, plan.environment(), log, plan.token)
        except OSError as error:
            raise CalibrationError(f"{tokens[0]} could not be started: {error}") from error
        self._running[str(log)] = (process, tokens, plan.token)
        return str(log)

    def poll(self, job: str) -> Sequence[str]:
        """Tell whether the command still runs, else how it ended."""
        process = self._running[job][0]
        return ["RUNNING"] if process.poll() is None else ["COMPLETED" if process.returncode == 0 else "FAILED"]

    def number(self, job: str) -> str | None:
        """Look for it in what the command has printed so far."""
        try:
            return job_number(Path(job).read_text(encoding="utf-8", errors="replace"), self._pattern)
        except OSError:
            return None

    def cancel(self, job: str) -> None:
        """Cancel a job, where the study says how."""
        if self._cancel is None:
            return
        tokens = [fill(part, {"job": job}) for part in split_command("cancel", self._cancel)]
        try:
            subprocess.run(tokens, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CalibrationError(f"launcher.cancel: {shlex.join(tokens)} does not work: {error}") from error

    def describe(self, job: str) -> str:
        """Return the command line."""
        return shlex.join(self._running[job][1])

    def close(self, job: str) -> None:
        """Leave nothing of the command running."""
        process, _, token = self._running.pop(job)
        stop_processes([process], token)
