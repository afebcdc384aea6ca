"""Shell scripts that start all participants of a run, wait for them, and end with the first failure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from precice_lb.calibrate.plan import RUN_VARIABLES, RunPlan, Task
from precice_lb.calibrate.schedulers.base import EXIT_FILE

__all__ = ["body", "exports", "here_document", "job_lines"]

_BODY = """\
declare -A names
status=0
start() {{  # name, directory, log, command and its arguments
  local name=$1 directory=$2 log=$3
  shift 3
  (cd "$directory" && exec "$@") </dev/null >>"$log" 2>&1 &
  names[$!]=$name
}}
trap 'kill "${{!names[@]}}" 2>/dev/null' INT TERM

{starts}

# The first participant that fails decides: its partners would wait for it for ever. They have {grace} s to say so.
while [ "${{#names[@]}}" -gt 0 ]; do
  running=" $(jobs -rp | tr '\\n' ' ')"
  for pid in "${{!names[@]}}"; do
    case $running in *" $pid "*) continue ;; esac
    wait "$pid"
    code=$?
    echo "exit $code ${{names[$pid]}}"{exits}
    unset "names[$pid]"
    if [ "$code" -ne 0 ] && [ "$status" -eq 0 ]; then
      status=$code
      failed=$SECONDS
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


def here_document(path: str, text: str) -> str:
    """Return lines that write a file; ``path`` may be an expression of the shell."""
    return f"cat >{path} <<'END'\n{text}END\n"


def body(tasks: Sequence[Task], *, exit_file: Path | None = None, grace: int = 2, kill_after: int = 12) -> str:
    """Return the lines (bash 4.3 or newer) that run all tasks and set ``status``.

    ``status`` is the exit code of the first participant that failed, else 0. Paths may be relative to the script's.
    """
    starts = "\n".join(
        f"start {shlex.quote(task.participant)} {shlex.quote(str(task.directory))} {shlex.quote(str(task.log))} \\\n"
        f"  {shlex.join(task.command)}"
        for task in tasks
    )
    exits = "" if exit_file is None else f" >>{shlex.quote(str(exit_file))}"
    return _BODY.format(starts=starts, exits=exits, grace=grace, kill_after=kill_after)


def job_lines(plan: RunPlan, tasks: Sequence[Task], setup: Sequence[str] = ()) -> str:
    """Return the lines of a job script behind its header: the run from begin to end, with its exit codes noted."""
    exits = plan.directory / EXIT_FILE
    file = shlex.quote(str(exits))
    before = "".join(f"{line}\n" for line in setup)
    return (
        f"{before}unset {' '.join(RUN_VARIABLES)}\n{exports(plan.variables)}\n"
        f'echo "begin $(date +%s.%N)" >>{file}\n\n'
        f"{body(tasks, exit_file=exits)}"
        f'echo "end $(date +%s.%N)" >>{file}\n'
        'exit "$status"\n'
    )
