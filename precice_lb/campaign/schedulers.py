"""A run as a job of Slurm: its script, Slurm's programs, and following a job to its end.

Slurm may be busy or away: a query that fails is no answer, and is asked again for a while.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from precice_lb.campaign.plan import RUN_VARIABLES, RunPlan, Task
from precice_lb.campaign.processes import Outcome, failure, overrun
from precice_lb.exceptions import CalibrationError

JOB_SCRIPT, JOB_LOG = "job.sh", "job.log"
EXIT_FILE = "exits"
"""What a job leaves behind of how its participants ended: a file of ``begin``, ``exit`` and ``end`` lines."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 15.0
_FILE_POLL_SECONDS = 0.2
# How long Slurm may not answer before a run, or what else was asked, is given up.
_SILENCE_SECONDS = 1800.0
# How long the last words of a job may take through a shared file system; and how long Slurm may take to end a job of
# which a participant failed: only then it says whether somebody has cancelled it.
_SETTLE_SECONDS, _COMPLETING_SECONDS = 5.0, 60.0
# Of a job whose first participant has failed: until the others are asked to end, and until they are killed.
_GRACE_SECONDS, _KILL_AFTER_SECONDS = 2, 12
_COMMAND_SECONDS = 180.0
# For questions without which it goes on.
_ANSWER_SECONDS = 30.0

# States of a job that has not ended.
_LIVE_STATES = (
    "PENDING CONFIGURING RUNNING COMPLETING SUSPENDED STOPPED SIGNALING STAGE_OUT RESIZING REQUEUED REQUEUE_FED "
    "REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT"
)
LIVE = frozenset(_LIVE_STATES.split())
# Of one whose script came to its end; any other state is the error of the run.
_FINE = frozenset({"COMPLETED", "FAILED"})
# Other states for which the run itself answers; all else, such as a cancel or a lost node, says nothing of it.
_FAULTS = frozenset({"DEADLINE", "OUT_OF_MEMORY", "TIMEOUT"})

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

Answer = TypeVar("Answer")


class LostError(CalibrationError):
    """A Slurm that does not answer: no verdict on the run that finds it so."""


def insist(ask: Callable[[], Answer | None]) -> Answer:
    """Ask Slurm, again as long as it does not answer (None), for half an hour at most."""
    end, pause = time.monotonic() + _SILENCE_SECONDS, _FIRST_PAUSE_SECONDS
    while (answer := ask()) is None:
        if time.monotonic() > end:
            raise LostError(f"no answer from the batch system for {_SILENCE_SECONDS:g} s: try again later")
        time.sleep(pause)
        pause = min(1.3 * pause, _LONGEST_PAUSE_SECONDS)
    return answer


def find_slurm(name: str, program: str | None = None) -> str:
    """Return the path of one of Slurm's programs."""
    path = shutil.which(os.path.expanduser(program or name))
    if path is None:
        raise CalibrationError(f"no {program or name} on the path: without Slurm, use mpiexec or a template")
    return path


def _ask(
    tokens: Sequence[str], env: Mapping[str, str] | None = None, seconds: float = _COMMAND_SECONDS
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            tokens, env=env, timeout=seconds, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(tokens, 1, "", str(error))


def scontrol(*words: str) -> str:
    """Return what Slurm answers; nothing where it does not."""
    return _ask(["scontrol", *words], seconds=_ANSWER_SECONDS).stdout


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


class SlurmScheduler:
    """``sbatch``, ``squeue`` and ``scancel``; a refusal that may pass is tried again for half an hour.

    The campaign lives in ``directory``; ``warn`` gets what to tell of such a refusal, of a question without an answer,
    and of a job that will never start; the same words of Slurm are told once.
    """

    def __init__(self, directory: Path, warn: Callable[[str], None]) -> None:
        self._directory, self._warn, self._reported = directory, warn, set[str]()
        self._sbatch, self._squeue, self._scancel = map(find_slurm, ("sbatch", "squeue", "scancel"))

    def _tell(self, text: str, words: str) -> None:
        if words not in self._reported:
            self._reported.add(words)
            self._warn(text)

    def job_name(self, plan: RunPlan) -> str:
        """Return the name of a run's job, its own among all campaigns."""
        return f"precice-lb-{hashlib.sha256(str(self._directory).encode()).hexdigest()[:8]}-{plan.name}"[:120]

    def submit(self, script: Path) -> str:
        """Submit the script of a run, and return the job's number."""
        # By its name the job is found again, whatever its options say.
        name = re.findall(r"^#SBATCH --job-name=(.*)", script.read_text(encoding="utf-8"), re.MULTILINE)[0]
        tokens = [self._sbatch, "--parsable", f"--job-name={name}", str(script)]
        # What a surrounding job has put there, a submitted job would inherit.
        kept, left_out = {"SLURM_CONF", "SLURM_CLUSTERS"}, ("SLURM_", "SLURMD_", "SRUN_")
        environment = {key: text for key, text in os.environ.items() if key in kept or not key.startswith(left_out)}

        def ask() -> str | None:
            done = _ask(tokens, environment)
            if done.returncode == 0:
                # "number" or "number;cluster", behind what the site's plugins may say.
                return done.stdout.strip().rpartition("\n")[2].partition(";")[0]
            words = " ".join((done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").split())
            if not _TEMPORARY.search(words):
                raise CalibrationError(f"Slurm refuses the job: {words}")
            # It may have been taken, and the answer lost.
            if (job := self.find(name)) is None:
                self._tell(f"Slurm does not take the job, which is submitted again for a while: {words}", words)
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
        reasons = (line.partition(" ")[2].strip() for line in lines if line.startswith("PENDING "))
        for why in filter(_NEVER.match, reasons):
            remedy = "change the options of the job, or ask the site"
            self._tell(f"job {job} waits and does not start by itself: {why}; {remedy}", why)
        return [line.partition(" ")[0] for line in lines]

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
        jobs = {row[0].partition("+")[0] for row in rows if row[1] in LIVE - {"COMPLETING"}}
        return max(jobs, key=int, default=None)

    def _lines(self, *tokens: str) -> list[str] | None:
        """Return what Slurm answers, nothing of a job that it has forgotten; None where it does not answer."""
        done = _ask(tokens)
        if done.returncode == 0 or _GONE.search(done.stderr):
            return [line for line in done.stdout.splitlines() if line]
        words = " ".join(done.stderr.split())
        self._tell(f"Slurm does not answer, and is asked again for a while: {words}", words)
        return None

    def follow(self, plan: RunPlan, job: str) -> Outcome:
        """Wait for a job's end, or end it where that is enough; its time counts from when it begins."""
        pause = _FIRST_PAUSE_SECONDS
        asked = heard = time.monotonic() - pause
        began: float | None = None
        why = ""
        logs = {task.participant: task.log for task in plan.tasks}

        def ended(states: Sequence[str] | None) -> Outcome:
            outcome = self.outcome(plan, job, states)
            return Outcome(outcome.seconds or now - (began or now), enough=why) if why else outcome

        while True:
            exits, now = read_exits(plan.directory / EXIT_FILE), time.monotonic()
            if exits.ended:
                return ended(None)
            if now - asked >= pause:
                asked, pause = now, min(1.3 * pause, _LONGEST_PAUSE_SECONDS)
                if (states := self.poll(job)) is not None:
                    heard = now
                    if LIVE.isdisjoint(states):
                        return ended(states)
                elif now - heard > _SILENCE_SECONDS:
                    text = f"job {job}: no answer from the batch system for {_SILENCE_SECONDS:g} s"
                    return Outcome(0.0, text + self._cancelled(job), lost=True)
            if exits.begun:
                began = began or now
                if not why and not exits.codes and (why := plan.enough()):
                    self._cancelled(job)
                if now - began > plan.time_limit_seconds:
                    limit = f"time limit of {plan.time_limit_seconds:g} s{self._cancelled(job)}"
                    return overrun(now - began, [name for name in logs if name not in exits.codes], limit, logs)
            time.sleep(_FILE_POLL_SECONDS)

    def _cancelled(self, job: str) -> str:
        """Cancel a job; return what to add to its error where that is not possible."""
        try:
            self.cancel(job)
        except CalibrationError as error:
            return f"; it was not cancelled, do so by hand: {error}"
        return ""

    def outcome(self, plan: RunPlan, job: str, states: Sequence[str] | None) -> Outcome:
        """Judge a job that has ended by what it left and by its states.

        These are none where Slurm has forgotten it, and None where it was not asked. A job that is cancelled or loses a
        node may still note how its participants ended: srun's exit code is 0 after the loss of a node.
        """
        began, pause = time.monotonic(), _FILE_POLL_SECONDS
        while True:
            exits = read_exits(plan.directory / EXIT_FILE)
            is_known = states is not None and LIVE.isdisjoint(states)
            is_slow = exits.ended and any(exits.codes.values())
            limit = _COMPLETING_SECONDS if is_slow else _SETTLE_SECONDS
            if (exits.ended and is_known) or time.monotonic() > began + limit:
                break
            time.sleep(pause)
            if not is_known:
                states, pause = self.poll(job), 1.3 * pause
        bad = sorted(set(states or ()) - _FINE) if is_known else []
        if exits.ended and not bad:
            return exits.outcome(plan)
        lost = not states or bool(bad and _FAULTS.isdisjoint(bad))
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
status=0 count=0 running=''
start() {{  # name, directory, log, command and its arguments
  count=$((count + 1))
  eval "name_$count=\\$1 log_$count=\\$3"
  (CDPATH='' cd -- "$2" && shift 3 && exec "$@") </dev/null >"$3" 2>&1 &
  eval "pid_$count=\\$!"
  running="$running $count"
}}
send() {{  # signal
  for each in $running; do
    eval "kill -s $1 \\"\\$pid_$each\\"" 2>/dev/null
  done
}}
stop() {{
  send TERM{note}
}}
trap stop INT TERM

{starts}

pid='' name='' log=''
# The first participant that fails decides: its partners would wait for it for ever. They have {grace} s to say so.
while [ -n "$running" ]; do
  left=''
  for number in $running; do
    eval "pid=\\$pid_$number name=\\$name_$number log=\\$log_$number"
    if kill -0 "$pid" 2>/dev/null; then
      left="$left $number"
      continue
    fi
    wait "$pid"
    code=$?
    # Of ranks that srun has not started it may know nothing in its exit code.
    if why=$(grep -a -m 1 {never_started} "$log"); then
      printf '%s never started: %s\\n' "$name" "${{why#srun: error: }}" >&2
      [ "$code" -ne 0 ] || code=1
    fi
    printf 'exit %s %s\\n' "$code" "$name"{exits}
    if [ "$code" -ne 0 ] && [ "$status" -eq 0 ]; then
      status=$code
      failed=$(date +%s)
      # Steps of a job that is ended may be terminated before this script is.
      [ "$code" -ne 143 ] || stop
    fi
  done
  running=$left
  if [ "$status" -ne 0 ] && [ -n "$running" ]; then
    seconds=$(($(date +%s) - failed))
    [ "$seconds" -lt {grace} ] || send TERM
    [ "$seconds" -lt {kill_after} ] || send KILL
  fi
  sleep 0.2
done
"""


def exports(variables: Mapping[str, str]) -> str:
    """Return lines that set environment variables."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def body(tasks: Sequence[Task], exit_file: Path | None = None) -> str:
    """Return the lines, for any POSIX shell, that run all tasks and set ``status``.

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
