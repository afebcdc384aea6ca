"""A run as a job of a batch system: its script, and waiting for its end."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence

from precice_lb.calibrate.launchers.exits import EXIT_FILE, read_exits
from precice_lb.calibrate.launchers.plan import RUN_VARIABLES, RunPlan
from precice_lb.calibrate.launchers.script import Line, body, exports
from precice_lb.calibrate.processes import Outcome

__all__ = ["JOB_LOG", "job_lines", "wait_for_job"]

JOB_LOG = "job.log"

_FIRST_PAUSE_SECONDS = 0.5
_FILE_POLL_SECONDS = 0.2
# How long a batch system may not answer before a run is given up.
_SILENCE_SECONDS = 1800.0
# How long the last words of a job may take through a shared file system.
_SETTLE_SECONDS = 5.0


def job_lines(plan: RunPlan, commands: Mapping[str, Sequence[str]], setup: Sequence[str] = ()) -> str:
    """Return the lines of a job script behind its header: the run from begin to end, with its exit codes noted."""
    exits = plan.directory / EXIT_FILE
    file = shlex.quote(str(exits))
    lines = [
        Line(task.participant, tuple(commands[task.participant]), str(task.directory), str(task.log))
        for task in plan.tasks
    ]
    before = "".join(f"{line}\n" for line in setup)
    return (
        f"{before}unset {' '.join(RUN_VARIABLES)}\n{exports(plan.variables)}\n"
        f'echo "begin $(date +%s.%N)" >>{file}\n\n'
        f"{body(lines, exit_file=exits)}"
        f'echo "end $(date +%s.%N)" >>{file}\n'
        'exit "$status"\n'
    )


def wait_for_job(
    plan: RunPlan,
    states: Callable[[], list[str] | None],
    *,
    live: frozenset[str],
    cancel: Callable[[], None],
    name: str,
    longest_pause: float = 15.0,
) -> Outcome:
    """Wait for a job's end; its time counts from when it begins, not while it waits for its turn.

    Parameters
    ----------
    plan
        The run.
    states
        Asks for the states of the job's components: empty where it is forgotten, None where there is no answer.
    live
        States of a job that has not ended.
    cancel
        Cancels the job.
    name
        What to call the job in messages.
    longest_pause
        Seconds between questions in the long run.
    """
    path = plan.directory / EXIT_FILE
    pause = _FIRST_PAUSE_SECONDS
    asked = heard = time.monotonic() - pause
    running_since: float | None = None
    while not (exits := read_exits(path)).ended:
        now = time.monotonic()
        if now - asked >= pause:
            asked, pause = now, min(1.3 * pause, longest_pause)
            answer = states()
            if answer is not None:
                heard = now
                if not live.intersection(answer):
                    return _ended(plan, name, answer)
            elif now - heard > _SILENCE_SECONDS:
                cancel()
                return Outcome(0.0, f"{name}: no answer from the batch system for {_SILENCE_SECONDS:g} s")
        if running_since is None and exits.begun:
            running_since = now
        if running_since is not None and now - running_since > plan.time_limit_seconds:
            cancel()
            blame = tuple(task.participant for task in plan.tasks if task.participant not in exits.codes)
            text = f"{' and '.join(blame)} still ran at the time limit of {plan.time_limit_seconds:g} s"
            return Outcome(now - running_since, text, blame, timed_out=True)
        time.sleep(_FILE_POLL_SECONDS)
    # A job that is cancelled or loses a node may still note how its participants ended: srun's exit code is 0 after the
    # loss of a node.
    end = time.monotonic() + _SETTLE_SECONDS
    while (answer := states()) is None or live.intersection(answer):
        if time.monotonic() > end:
            return exits.outcome()
        time.sleep(_FILE_POLL_SECONDS)
    return _ended(plan, name, answer)


def _ended(plan: RunPlan, name: str, states: Sequence[str]) -> Outcome:
    """Judge a job that the batch system says has ended, by what it left and by its state."""
    path = plan.directory / EXIT_FILE
    end = time.monotonic() + _SETTLE_SECONDS
    while not (exits := read_exits(path)).ended and time.monotonic() < end:
        time.sleep(_FILE_POLL_SECONDS)
    bad = sorted(set(states) - {"COMPLETED", "FAILED"})
    if exits.ended and not bad:
        return exits.outcome()
    blame = tuple(task.participant for task in plan.tasks)
    how = f"ended as {', '.join(bad)}" if bad else "ended before its script did"
    return Outcome(exits.seconds or 0.0, f"{name} {how}", blame, timed_out="TIMEOUT" in bad)
