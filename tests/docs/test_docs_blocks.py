"""Blocks of code in README, docs, tutorials and configs do what they say: they run as written.

Blocks of a page run in their order in a fresh copy of what they need. An HTML comment on the line before a block says
otherwise: ``<!-- not run: reason -->`` (a cluster, a user's own files), ``<!-- run in full: reason -->`` (with
`FULL_COUNTS`: it takes minutes), ``<!-- run in: directory -->``. Commands of tutorials run with `FULL_COUNTS`.
Neighbouring blocks that start solvers run at the same time, as the terminals that their texts speak of.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from calibrate_helpers import program
from conftest import FULL_COUNTS
from markdown_helpers import ROOT, Block, blocks, command_lines, is_commands, pages

SECONDS = 900


def _starts_solvers(block: Block) -> bool:
    started = re.search(r"\bmpiexec\b|\bprecice[-_]lb run\b|^\./run\.sh\b", block.text, flags=re.MULTILINE)
    return bool(started) and "wait" not in block.text.split()


def _runs_now(block: Block) -> bool:
    if not (is_commands(block) or block.language == "python") or block.marker == "not run":
        return False
    tutorial = block.path.is_relative_to(ROOT / "tutorials") and block.language != "python"
    return FULL_COUNTS or not (tutorial or block.marker == "run in full")


class Session:
    """What a reader's terminals do: one place, one set of variables, and solvers beside each other."""

    def __init__(self, page: Path, place: Path) -> None:
        self.root = place / "copy"
        for name in ("configs", "tutorials", "tests/data", "docs/notebooks", "docker"):
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__", "*-store"))
        inside = page.relative_to(ROOT)
        self.start = self.root / inside.parent if inside.parts[0] == "tutorials" else self.root
        self.state = place / "state"
        self.state.write_text(f"cd {shlex.quote(str(self.start))}\n")
        programs = place / "bin"
        program(programs / "precice-lb", f'exec {shlex.quote(sys.executable)} -m precice_lb "$@"')
        # Nothing is to be left in the home of whoever runs the tests.
        self.environment = dict(os.environ, PYTHONPATH=str(ROOT), MPLBACKEND="Agg", HOME=str(place))
        self.environment["PATH"] = os.pathsep.join(
            [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        )

    def run(self, group: list[Block]) -> None:
        """Run a block, or neighbouring ones that start solvers at the same time."""
        logs = [self.root.parent / f"{number}.log" for number in range(len(group))]
        started = [self._start(block, log, alone=len(group) == 1) for block, log in zip(group, logs, strict=True)]
        failed = []
        for block, log, process in zip(group, logs, started, strict=True):
            try:
                code = process.wait(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                for each in started:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(each.pid, signal.SIGTERM)
                said = log.read_text(errors="replace")[-3000:]
                pytest.fail(f"{block.name}: still running after {SECONDS} seconds\n{said}")
            if code:
                failed.append(f"{block.name}: exit code {code}\n{log.read_text(errors='replace')[-3000:]}")
        assert not failed, "\n".join(failed)

    def _start(self, block: Block, log: Path, *, alone: bool) -> subprocess.Popen[bytes]:
        if block.language == "python":
            # The block's own line numbers in tracebacks.
            text = "\n" * block.line + block.text
            lines = [f"exec {shlex.quote(sys.executable)} -c {shlex.quote(text)}"]
        else:
            lines = ["set -eo pipefail", *command_lines(block)]
            if alone:
                lines += [f'{{ export -p; echo "cd $(printf %q "$PWD")"; }} > {shlex.quote(str(self.state))}']
        place = [f"cd {shlex.quote(str(self.root / block.reason))}"] if block.marker == "run in" else []
        script = "\n".join([f". {shlex.quote(str(self.state))}", *place, *lines])
        # Into a file: nobody reads a pipe while another solver is waited for, and libprecice fills one.
        with log.open("wb") as output:
            return subprocess.Popen(
                ["bash", "-c", script],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


@pytest.mark.parametrize(
    "page",
    [page for page in pages() if any(map(_runs_now, blocks(page)))],
    ids=lambda p: p.relative_to(ROOT).as_posix(),
)
def test_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    session = Session(page, tmp_path)
    groups: list[list[Block]] = []
    for block in filter(_runs_now, blocks(page)):
        beside = groups and _starts_solvers(block) and _starts_solvers(groups[-1][-1])
        python = groups and block.language == groups[-1][-1].language == "python"
        if beside:
            groups[-1].append(block)
        elif python:
            # One after the other in one process: later blocks may use what earlier ones defined.
            last = groups[-1].pop()
            between = "\n" * (block.line - last.line - last.text.count("\n"))
            groups[-1].append(
                Block(page, last.line, "python", last.text + between + block.text, last.marker, last.reason)
            )
        else:
            groups.append([block])
    for group in groups:
        session.run(group)
