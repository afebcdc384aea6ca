"""A run as a job of a batch system: its script, what a batch system can do, and following a job to its end."""

from __future__ import annotations

import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

from precice_lb.campaign.plan import RUN_VARIABLES, RunPlan, Task
from precice_lb.campaign.processes import LOG_PART, Outcome, failure, hollow, overrun
from precice_lb.exceptions import CalibrationError

JOB_SCRIPT, JOB_LOG = "job.sh", "job.log"
EXIT_FILE = "exits"
"""What a job leaves behind of how its participants ended: a file of ``begin``, ``exit`` and ``end`` lines."""

_FIRST_PAUSE_SECONDS = 0.5
_FILE_POLL_SECONDS = 0.2
# How long a batch system may not answer before a run, or what else was asked, is given up.
_SILENCE_SECONDS = 1800.0
# How long the last words of a job may take through a shared file system; and how long a batch system may take to end a
# job of which a participant failed: only then it says whether somebody has cancelled it.
_SETTLE_SECONDS, _COMPLETING_SECONDS = 5.0, 60.0
# Of a job whose first participant has failed: until the others are asked to end, and until they are killed.
_GRACE_SECONDS, _KILL_AFTER_SECONDS = 2, 12

Answer = TypeVar("Answer")


class LostError(CalibrationError):
    """A batch system that does not answer: no verdict on the run that finds it so."""


class Scheduler(ABC):
    """A batch system: takes a run's script as a job, tells the job's states, and cancels it.

    A subclass gives `submit`, `poll` and `cancel`; what else is here need not be touched.
    """

    live: ClassVar[frozenset[str]] = frozenset({"PENDING", "RUNNING"})
    """What `poll` says of a job that has not ended."""
    fine: ClassVar[frozenset[str]] = frozenset({"COMPLETED", "FAILED"})
    """What it says of one whose script came to its end; any other state is the error of the run."""
    faults: ClassVar[frozenset[str]] = frozenset({"DEADLINE", "OUT_OF_MEMORY", "TIMEOUT"})
    """Other states for which the run itself answers; all else, such as a cancel or a lost node, says nothing of it."""
    longest_pause: ClassVar[float] = 15.0
    """Seconds between two calls of `poll` in the long run."""
    resumes: ClassVar[bool] = True
    """Whether jobs go on without this process, so that a campaign started again can wait for them."""
    cancels: bool = True
    """Whether `cancel` does anything."""
    stuck: str | None = None
    """Why the job that `poll` was last asked of waits and will not start by itself; None where it will."""

    @abstractmethod
    def submit(self, plan: RunPlan, script: Path) -> str:
        """Return the job as which a run was submitted.

        Parameters
        ----------
        plan : RunPlan
            The run.
        script : Path
            Its job script.
        """

    @abstractmethod
    def poll(self, job: str) -> Sequence[str] | None:
        """Return the states of the job's components: none where it is forgotten, None where there is no answer.

        Parameters
        ----------
        job : str
            As `submit` returned it.
        """

    @abstractmethod
    def cancel(self, job: str) -> None:
        """Cancel a job; one that has ended is none.

        Parameters
        ----------
        job : str
            Its number.

        Raises
        ------
        LostError
            The batch system does not answer.
        """

    def find(self, name: str) -> str | None:
        """Return a job that waits or runs, by its name; None where there is none, or no job is known by a name.

        Parameters
        ----------
        name : str
            Of the job.

        Raises
        ------
        LostError
            The batch system does not answer.
        """
        return None

    def number(self, job: str) -> str | None:
        """Return the number by which the batch system knows a job, None as long as it has not been told.

        Parameters
        ----------
        job : str
            As `submit` returned it.
        """
        return job

    def close(self, job: str) -> None:  # noqa: B027
        """Let go of what `submit` has begun on this machine.

        Parameters
        ----------
        job : str
            As `submit` returned it.
        """


def insist(ask: Callable[[], Answer | None]) -> Answer:
    """Ask a batch system, again as long as it does not answer (None), for half an hour at most."""
    end, pause = time.monotonic() + _SILENCE_SECONDS, _FIRST_PAUSE_SECONDS
    while (answer := ask()) is None:
        if time.monotonic() > end:
            raise LostError(f"no answer from the batch system for {_SILENCE_SECONDS:g} s: try again later")
        time.sleep(pause)
        pause = min(1.3 * pause, Scheduler.longest_pause)
    return answer


@dataclass
class Exits:
    """What a job left: exit codes by participant in the order of their ends, and when it began and ended, 0 before.

    ``stopped`` is what the job's script knew of why it was terminated; None where it was not.
    """

    codes: dict[str, int] = field(default_factory=dict)
    begun: float = 0.0
    ended: float = 0.0
    stopped: str | None = None

    @property
    def seconds(self) -> float:
        """How long it ran; 0 where it has not ended."""
        return max(0.0, self.ended - self.begun) if self.ended else 0.0

    def outcome(self, plan: RunPlan) -> Outcome:
        """Say how the run ended: by the job's time limit, or its loss; else the first that failed is to blame."""
        logs = {task.participant: task.log for task in plan.tasks}
        if self.stopped is not None and _TIME_LIMIT in self.stopped:
            return overrun(self.seconds, [*logs], "job's time limit", {})
        if self.stopped is not None:
            return Outcome(self.seconds, "the job was cancelled, or lost its node", lost=True)
        for name, code in self.codes.items():
            if code:
                # A shell tells of a signal as 128 and its number.
                return failure(self.seconds, {name: 128 - code if code > 128 else code}, logs)
        return Outcome(self.seconds)


def read_exits(path: Path) -> Exits:
    """Read the file; what is not there, or only begun, counts as not ended."""
    exits = Exits()
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError:
        return exits
    for line in lines[:-1]:  # behind the last line break may be a part of a line
        kind, _, rest = line.partition(" ")
        if kind == "exit":
            code, _, name = rest.partition(" ")
            exits.codes[name] = int(code)
        elif kind == "begin":
            exits.begun = float(rest)
        elif kind == "end":
            exits.ended = float(rest)
        elif not exits.ended:
            exits.stopped = rest
    return exits


def follow(
    scheduler: Scheduler, plan: RunPlan, job: str, note: Callable[[str], None], warn: Callable[[str, str], None]
) -> Outcome:
    """Wait for a job's end; its time counts from when it begins, not while it waits for its turn.

    ``note`` is called with the job's number as soon as there is one, ``warn`` with what to tell where it will never
    start, and why.
    """
    pause = _FIRST_PAUSE_SECONDS
    asked = heard = time.monotonic() - pause
    began: float | None = None
    number: str | None = None
    while True:
        exits, now = read_exits(plan.directory / EXIT_FILE), time.monotonic()
        for task in plan.tasks:
            hollow(task.log, LOG_PART)
        if number is None and (number := scheduler.number(job)) is not None:
            note(number)
        if exits.ended:
            return outcome_of(scheduler, plan, job, None)
        if now - asked >= pause:
            asked, pause = now, min(1.3 * pause, scheduler.longest_pause)
            answer = scheduler.poll(job)
            if answer is None:
                if now - heard > _SILENCE_SECONDS:
                    text = f"job {job}: no answer from the batch system for {_SILENCE_SECONDS:g} s"
                    return Outcome(0.0, text + _cancelled(scheduler, plan, job), lost=True)
            else:
                heard = now
                if scheduler.live.isdisjoint(answer):
                    return outcome_of(scheduler, plan, job, answer)
                if (why := scheduler.stuck) is not None:
                    remedy = "change the options of the job, or ask the site"
                    warn(f"job {job} waits and does not start by itself: {why}; {remedy}", why)
        if exits.begun:
            began = began or now
            if now - began > plan.time_limit_seconds:
                logs = {task.participant: task.log for task in plan.tasks}
                limit = f"time limit of {plan.time_limit_seconds:g} s{_cancelled(scheduler, plan, job)}"
                return overrun(now - began, [name for name in logs if name not in exits.codes], limit, logs)
        time.sleep(_FILE_POLL_SECONDS)


def _cancelled(scheduler: Scheduler, plan: RunPlan, job: str) -> str:
    """Cancel a job; return what to add to its error where that is not possible."""
    if not scheduler.cancels:
        return ""
    error = f"expected the job's number in what submit printed ({plan.directory / JOB_LOG}), found none or several"
    try:
        if (number := scheduler.number(job)) is not None:
            scheduler.cancel(number)
            return ""
    except CalibrationError as problem:
        error = str(problem)
    return f"; it was not cancelled, do so by hand: {error}"


def outcome_of(scheduler: Scheduler, plan: RunPlan, job: str, states: Sequence[str] | None) -> Outcome:
    """Judge a job that has ended by what it left and by its states.

    These are none where the batch system has forgotten it, and None where it was not asked. A job that is cancelled or
    loses a node may still note how its participants ended: srun's exit code is 0 after the loss of a node.
    """
    began, pause = time.monotonic(), _FILE_POLL_SECONDS
    while True:
        exits = read_exits(plan.directory / EXIT_FILE)
        is_known = states is not None and scheduler.live.isdisjoint(states)
        is_slow = exits.ended and scheduler.resumes and any(exits.codes.values())
        limit = _COMPLETING_SECONDS if is_slow else _SETTLE_SECONDS
        if (exits.ended and is_known) or time.monotonic() > began + limit:
            break
        time.sleep(pause)
        if not is_known:
            states, pause = scheduler.poll(job), 1.3 * pause
    bad = sorted(set(states or ()) - scheduler.fine) if is_known else []
    if exits.ended and not bad:
        return exits.outcome(plan)
    lost = not states or bool(bad and scheduler.faults.isdisjoint(bad))
    blame = () if lost else tuple(task.participant for task in plan.tasks)
    how = f"as {', '.join(bad)}" if bad else "before its script did"
    return Outcome(exits.seconds, f"job {job} ended {how}", blame, timed_out="TIMEOUT" in bad, lost=lost)


# Slurm's reason for a job that it ends at its time limit.
_TIME_LIMIT = "TimeLimit"
# What a job notes when it is terminated: Slurm knows for some minutes only whether that was at its time limit.
_NOTE = (
    '\n  stopped="by a signal $([ -z "$SLURM_JOB_ID" ] || squeue --noheader --jobs="$SLURM_JOB_ID" --format=%r 2>&1)"'
    "\n  echo stopped $stopped"
)

_BODY = """\
declare -A names logs
status=0
start() {{  # name, directory, log, command and its arguments
  local name=$1 directory=$2 log=$3
  shift 3
  (cd "$directory" && exec "$@") </dev/null >"$log" 2>&1 &
  names[$!]=$name logs[$!]=$log
}}
stop() {{
  kill "${{!names[@]}}" 2>/dev/null{note}
}}
trap stop INT TERM

{starts}

# The first participant that fails decides: its partners would wait for it for ever. They have {grace} s to say so.
while [ "${{#names[@]}}" -gt 0 ]; do
  running=" $(jobs -rp | tr '\\n' ' ')"
  for pid in "${{!names[@]}}"; do
    case $running in *" $pid "*) continue ;; esac
    wait "$pid"
    code=$?
    # Of ranks that srun has not started it may know nothing in its exit code.
    if why=$(grep -a -m 1 {never_started} "${{logs[$pid]}}"); then
      echo "${{names[$pid]}} never started: ${{why#srun: error: }}" >&2
      [ "$code" -ne 0 ] || code=1
    fi
    echo "exit $code ${{names[$pid]}}"{exits}
    unset "names[$pid]"
    if [ "$code" -ne 0 ] && [ "$status" -eq 0 ]; then
      status=$code
      failed=$SECONDS
      # Steps of a job that is ended may be terminated before this script is.
      [ "$code" -ne 143 ] || stop
    fi
  done
  if [ "$status" -ne 0 ] && [ "${{#names[@]}}" -gt 0 ]; then
    [ $((SECONDS - failed)) -lt {grace} ] || kill "${{!names[@]}}" 2>/dev/null
    [ $((SECONDS - failed)) -lt {kill_after} ] || kill -KILL "${{!names[@]}}" 2>/dev/null
  fi
  sleep 0.2
done
"""


def exports(variables: Mapping[str, str]) -> str:
    """Return lines that set environment variables."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def body(tasks: Sequence[Task], exit_file: Path | None = None) -> str:
    """Return the lines (bash 4.3 or newer) that run all tasks and set ``status``.

    ``status`` is the exit code of the first participant that failed, else 0. Paths may be relative to the script's.
    """
    starts = "\n".join(
        f"start {shlex.quote(task.participant)} {shlex.quote(str(task.directory))} {shlex.quote(str(task.log))} \\\n"
        f"  {shlex.join(task.command)}"
        for task in tasks
    )
    exits = "" if exit_file is None else f" >>{shlex.quote(str(exit_file))}"
    return _BODY.format(
        starts=starts,
        exits=exits,
        note=f"{_NOTE}{exits}" if exits else "",
        grace=_GRACE_SECONDS,
        kill_after=_KILL_AFTER_SECONDS,
        never_started=shlex.quote(r"^srun: error: \(tasks\? .* launch failed\|Unable to .* for job\)"),
    )


def job_lines(plan: RunPlan, tasks: Sequence[Task], setup: Sequence[str] = ()) -> str:
    """Return the lines of a job script behind its header: the run from begin to end, with its exit codes noted."""
    exits = plan.directory / EXIT_FILE
    file, before = shlex.quote(str(exits)), "".join(f"{line}\n" for line in setup)
    last = f'case $stopped in "" | *{_TIME_LIMIT}*) {plan.last_line} ;; esac\n' if plan.last_line else ""
    return (
        f"{before}unset {' '.join(RUN_VARIABLES)}\n{exports(plan.variables)}\n"
        f'stopped=\necho "begin $(date +%s.%N)" >>{file}\n\n'
        f"{body(tasks, exits)}"
        f'echo "end $(date +%s.%N)" >>{file}\n'
        f"{last}"
        'exit "$status"\n'
    )
