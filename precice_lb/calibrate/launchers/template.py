"""A user's own way to start participants, or to submit runs: PBS, LSF, Flux, a site's wrapper."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from precice_lb.calibrate.launchers.base import Launcher, launcher
from precice_lb.calibrate.launchers.jobs import JOB_LOG, job_lines, wait_for_job
from precice_lb.calibrate.launchers.placeholders import check_placeholders, fill
from precice_lb.calibrate.launchers.plan import LauncherOptions, RunPlan, Task, file_name, nodes_of
from precice_lb.calibrate.processes import Outcome, running_process
from precice_lb.exceptions import CalibrationError, StudyError

__all__ = ["JOB_PLACEHOLDERS", "PARTICIPANT_PLACEHOLDERS", "TemplateLauncher"]

PARTICIPANT_PLACEHOLDERS = frozenset(
    {
        *("command", "directory", "name", "nodes", "participant", "ranks", "ranks_per_node", "run"),
        *("first_node", "first_rank"),
    }
)
"""What may stand in ``launcher.participant``; the first node and rank are counted over all participants, from 0."""
JOB_PLACEHOLDERS = frozenset(
    {
        *("log", "minutes", "name", "participants", "placement", "ranks_per_node", "run", "script"),
        *("total_nodes", "total_ranks", "walltime"),
    }
)
"""What may stand in ``launcher.script`` and ``launcher.submit``; the placement is a word
``participant:first node:nodes`` for each of them."""

_JOB_NUMBER = re.compile(r"\d[\w.\[\]-]*")


@launcher("template")
class TemplateLauncher(Launcher):
    """Command lines of the user's own, with placeholders.

    ``participant`` says how ranks are started, such as ``flux run -n {ranks} {command}``. With ``script`` and
    ``submit`` a run is a job: ``{participants}`` in the script becomes the lines that start all participants and wait
    for them, and ``submit`` has to return at the end of the job (``qsub -W block=true {script}``, or a wrapper around
    ``bsub -K``). ``cancel`` gets the first number that ``submit`` prints as ``{job}``.
    """

    keys = frozenset({"participant", "script", "submit", "cancel", "ranks_per_node", "setup"})
    many_nodes = True

    def __init__(self, options: LauncherOptions) -> None:
        super().__init__(options)
        if options.participant is None:
            raise CalibrationError("launcher.participant: a template needs the command line of a participant")
        _check("participant", options.participant, PARTICIPANT_PLACEHOLDERS)
        if "{command}" not in _split("participant", options.participant):
            raise CalibrationError("launcher.participant: expected {command} as a word of its own")
        if (options.script is None) != (options.submit is None):
            raise CalibrationError("launcher: expected both script and submit, or neither")
        self._script = ""
        if options.script is not None and options.submit is not None:
            _check("submit", options.submit, JOB_PLACEHOLDERS)
            try:
                self._script = options.script.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise CalibrationError(f"launcher.script: {options.script} cannot be read: {error}") from error
            if "{participants}" not in self._script:
                raise CalibrationError(f"launcher.script: {options.script} has no line {{participants}}")
        if options.cancel is not None:
            _check("cancel", options.cancel, frozenset({"job"}))

    def commands(self, plan: RunPlan) -> dict[str, list[str]]:
        """Return the command line of each participant."""
        lines = {}
        rank = node = 0
        for task in plan.tasks:
            lines[task.participant] = self._command(plan, task, rank, node)
            rank += task.ranks
            node += nodes_of(task, self.options) or 1
        return lines

    def script(self, plan: RunPlan) -> str:
        """Return the job script of a run."""
        lines = job_lines(plan, self.commands(plan), self.options.setup)
        return fill(self._script, {**self._values(plan), "participants": lines.rstrip("\n")})

    def submission(self, plan: RunPlan) -> list[str]:
        """Return the command line that submits a run."""
        return [fill(token, self._values(plan)) for token in _split("submit", self.options.submit or "")]

    def files(self, plan: RunPlan) -> dict[Path, str]:
        """Return the job script, where a run is a job."""
        return {} if self.options.script is None else {self._place(plan): self.script(plan)}

    def run(self, plan: RunPlan, note: Callable[[str], None]) -> Outcome:
        """Run the participants here, or submit the run and wait for its end."""
        if self.options.submit is None:
            return super().run(plan, note)
        self.write(plan)
        log = plan.directory / JOB_LOG
        environment = {**plan.environment(), **self.environment()}
        with running_process(self.submission(plan), plan.directory, environment, log, plan.token) as process:
            known: list[str] = []

            def states() -> list[str]:
                if not known and (job := _job_number(log)):
                    known.append(job)
                    note(job)
                return ["RUNNING"] if process.poll() is None else ["COMPLETED" if process.returncode == 0 else "FAILED"]

            try:
                outcome = wait_for_job(
                    plan,
                    states,
                    live=frozenset({"RUNNING"}),
                    cancel=lambda: self.stop(plan.token, _job_number(log)),
                    name=shlex.join(self.submission(plan)),
                    longest_pause=1.0,
                )
            except KeyboardInterrupt:
                self.stop(plan.token, _job_number(log))
                raise
        return outcome

    def stop(self, token: str, job: str | None) -> None:
        """Cancel a submitted run, where the study says how.

        Raises
        ------
        CalibrationError
            If what the study says does not work.
        """
        if self.options.cancel is not None and job is not None:
            tokens = [fill(part, {"job": job}) for part in _split("cancel", self.options.cancel)]
            try:
                subprocess.run(tokens, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise CalibrationError(f"launcher.cancel: {shlex.join(tokens)} does not work: {error}") from error

    def _command(self, plan: RunPlan, task: Task, first_rank: int, first_node: int) -> list[str]:
        values = {
            "directory": task.directory,
            "first_node": first_node,
            "first_rank": first_rank,
            "name": plan.name,
            "nodes": nodes_of(task, self.options) or 1,
            "participant": task.participant,
            "ranks": task.ranks,
            "ranks_per_node": task.ranks_per_node or self.options.ranks_per_node or task.ranks,
            "run": plan.directory,
        }
        tokens: list[str] = []
        for token in _split("participant", self.options.participant or ""):
            tokens += task.command if token == "{command}" else [fill(token, values)]
        return tokens

    def _values(self, plan: RunPlan) -> dict[str, object]:
        placement, node = [], 0
        for task in plan.tasks:
            nodes = nodes_of(task, self.options) or 1
            placement.append(f"{file_name(task.participant)}:{node}:{nodes}")
            node += nodes
        minutes = math.ceil(plan.time_limit_seconds / 60)
        return {
            "log": plan.directory / JOB_LOG,
            "minutes": minutes,
            "name": plan.name,
            "placement": " ".join(placement),
            "ranks_per_node": self.options.ranks_per_node or plan.ranks,
            "run": plan.directory,
            "script": self._place(plan),
            "total_nodes": node,
            "total_ranks": plan.ranks,
            "walltime": f"{minutes // 60:02d}:{minutes % 60:02d}:00",
        }

    def _place(self, plan: RunPlan) -> Path:
        return plan.directory / "job.sh"


def _split(key: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CalibrationError(f"launcher.{key}: expected a command line, found {text!r}: {error}") from error


def _check(key: str, text: str, known: frozenset[str]) -> None:
    if not _split(key, text):
        raise CalibrationError(f"launcher.{key}: expected a command line, found an empty text")
    try:
        check_placeholders(text, known)
    except StudyError as error:
        raise CalibrationError(f"launcher.{key}: {error}") from error


def _job_number(log: Path) -> str | None:
    try:
        found = _JOB_NUMBER.search(log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return None if found is None else found[0]
