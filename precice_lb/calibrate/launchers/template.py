"""A user's own way to start participants, or to submit runs: PBS, LSF, Flux, a site's wrapper."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from precice_lb.calibrate.launchers import Launcher
from precice_lb.calibrate.plan import (
    LauncherOptions,
    RunPlan,
    Task,
    check_placeholders,
    file_name,
    fill,
    split_command,
)
from precice_lb.calibrate.processes import start_process, stop_processes
from precice_lb.calibrate.schedulers import JOB_LOG, Scheduler, job_lines
from precice_lb.exceptions import CalibrationError, StudyError

PARTICIPANT_PLACEHOLDERS = frozenset(
    {
        *("command", "cores", "directory", "name", "nodes", "participant", "ranks", "ranks_per_node", "run"),
        *("first_node", "first_rank", "threads"),
    }
)
"""What may stand in ``launcher.participant``; the first node and rank are counted over all participants, from 0."""
JOB_PLACEHOLDERS = frozenset(
    {
        *("log", "minutes", "name", "participants", "placement", "ranks_per_node", "run", "script"),
        *("total_cores", "total_nodes", "total_ranks", "walltime"),
    }
)
"""What may stand in ``launcher.script`` and ``launcher.submit``; the placement is a word
``participant:first node:nodes`` for each of them."""

# Of qsub and sbatch --parsable, whose line is nothing else, and the sentences of sbatch, bsub and Grid Engine.
_NUMBERS = (
    r"^(\d+(?:\[\d*\])?(?:\.[\w.-]+)?)(?:;\S+)?\s*$",
    r"^Submitted batch job (\d+)\b",
    r"^Job <(\d+)> is submitted(?: to|\W*$)",
    r"^Your job(?:-array)? (\d+)\b.* has been submitted",
)


class TemplateLauncher(Launcher):
    """Command lines of the user's own, with placeholders.

    ``participant`` says how ranks are started, such as ``flux run -n {ranks} {command}``. With ``script`` and
    ``submit`` a run is a job: ``{participants}`` in the script becomes the lines that start all participants and wait
    for them, and ``submit`` has to return at the end of the job (``qsub -W block=true {script}``, or a wrapper around
    ``bsub -K``). ``cancel`` gets the job's number as ``{job}``: what ``submit`` prints in a line of its own or says as
    batch systems do, or what the group of the regular expression ``job_number`` finds there; none where these are many.
    """

    keys = frozenset({"participant", "script", "submit", "cancel", "job_number", "ranks_per_node", "setup"})
    many_nodes = True

    @classmethod
    def gives_threads(cls, options: LauncherOptions) -> bool:
        """Whether ranks get cores for their threads: where the command line of a participant says how many."""
        return re.search(r"\{(threads|cores)\}", options.participant or "") is not None

    def __init__(self, options: LauncherOptions, directory: Path = Path()) -> None:
        super().__init__(options, directory)
        if options.participant is None:
            raise CalibrationError("launcher.participant: a template needs the command line of a participant")
        _check("participant", options.participant, PARTICIPANT_PLACEHOLDERS)
        if "{command}" not in split_command("participant", options.participant):
            raise CalibrationError("launcher.participant: expected {command} as a word of its own")
        if (options.script is None) != (options.submit is None):
            raise CalibrationError("launcher: expected both script and submit, or neither")
        self._template = ""
        if options.script is not None and options.submit is not None:
            _check("submit", options.submit, JOB_PLACEHOLDERS)
            try:
                self._template = options.script.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise CalibrationError(f"launcher.script: {options.script} cannot be read: {error}") from error
            if "{participants}" not in self._template:
                raise CalibrationError(f"launcher.script: {options.script} has no line {{participants}}")
            self.scheduler = SubmitCommand(self.submission, options.cancel, options.job_number)
        if options.cancel is not None:
            _check("cancel", options.cancel, frozenset({"job"}))
        if options.job_number is not None:
            _check_pattern(options.job_number)

    def script(self, plan: RunPlan) -> str:
        """Return the job script of a run."""
        lines, values = job_lines(plan, self.starts(plan), self.options.setup), self._values(plan)
        place = str(plan.directory)
        if re.search(r"\{(log|run|script)\}", self._template) and re.search(r"[^\w@%+=:,./~ -]", place):
            raise CalibrationError(
                f"expected a directory whose name a shell takes as it is, found {place!r}: use another"
            )
        return fill(self._template, {**values, "participants": lines.rstrip("\n")})

    def submission(self, plan: RunPlan) -> list[str]:
        """Return the command line that submits a run."""
        return [fill(token, self._values(plan)) for token in split_command("submit", self.options.submit or "")]

    def command(self, plan: RunPlan, task: Task) -> list[str]:
        """Return the command line of a participant."""
        earlier = plan.tasks[: plan.tasks.index(task)]
        values = {
            "cores": task.cores,
            "directory": task.directory,
            "first_node": sum(each.nodes or 1 for each in earlier),
            "first_rank": sum(each.ranks for each in earlier),
            "name": plan.name,
            "nodes": task.nodes or 1,
            "participant": file_name(task.participant),
            "ranks": task.ranks,
            "ranks_per_node": task.ranks_per_node or task.ranks,
            "run": plan.directory,
            "threads": task.threads,
        }
        tokens: list[str] = []
        for token in split_command("participant", self.options.participant or ""):
            tokens += task.command if token == "{command}" else [fill(token, values)]
        return tokens

    def _values(self, plan: RunPlan) -> dict[str, object]:
        placement, node = [], 0
        for task in plan.tasks:
            nodes = task.nodes or 1
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
            "script": self._script(plan),
            "total_cores": plan.cores,
            "total_nodes": node,
            "total_ranks": plan.ranks,
            "walltime": f"{minutes // 60:02d}:{minutes % 60:02d}:00",
        }


def _check(key: str, text: str, known: frozenset[str]) -> None:
    if not split_command(key, text):
        raise CalibrationError(f"launcher.{key}: expected a command line, found an empty text")
    try:
        check_placeholders(text, known)
    except StudyError as error:
        raise CalibrationError(f"launcher.{key}: {error}") from error


def _check_pattern(text: str) -> None:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise CalibrationError(
            f"launcher.job_number: expected a regular expression, found {text!r}: {error}"
        ) from error
    if groups != 1:
        raise CalibrationError(
            f"launcher.job_number: expected one group in parentheses, which is the number, found {groups} in {text!r}"
        )


def job_number(said: str, pattern: str | None = None) -> str | None:
    """Return the number of a job in what a submission said: by the user's own pattern, or as batch systems say it.

    None where several are said, since another job could be cancelled by it.
    """
    patterns = _NUMBERS if pattern is None else (pattern,)
    numbers = {match[1] for text in patterns for match in re.finditer(text, said, re.MULTILINE)} - {None}
    return numbers.pop() if len(numbers) == 1 else None


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
