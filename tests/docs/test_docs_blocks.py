"""Run the blocks of code in the documentation, and compare their output with the text.

Blocks of a page run in their order, in a fresh copy of what they need. Commands of tutorials run with `FULL_COUNTS`.
Neighbouring blocks that start solvers run at the same time, as the terminals that their texts speak of.

What stands below a block in its section is compared with what the block printed: lines of a block of output, and the
numbers of the text (see `figure_helpers`).

An HTML comment on the line before a block or a passage changes this:

``<!-- not run: reason -->``
    The block needs a cluster, or a user's own files.
``<!-- run in full: reason -->``
    The block takes minutes, and runs with `FULL_COUNTS`.
``<!-- run in: directory -->``
    Where the block runs.
``<!-- not compared: reason -->``
    The passage, or the numbers of a block of output, are not compared.
``<!-- printed in full by: command -->``
    This command prints the numbers of the passage. It takes minutes, and runs with `FULL_COUNTS`.
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
from figure_helpers import unprinted_figures, wrong_parts
from markdown_helpers import ROOT, Block, Passage, blocks, command_lines, is_commands, pages, sections

SECONDS = 1800


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
        for name in ("benchmarks", "configs", "tutorials", "tests/data", "docs/notebooks", "docker"):
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__", "*-store"))
        inside = page.relative_to(ROOT)
        self.start = self.root / inside.parent if inside.parts[0] == "tutorials" else self.root
        self.state = place / "state"
        self.state.write_text(f"cd {shlex.quote(str(self.start))}\n")
        programs = place / "bin"
        program(programs / "precice-lb", f'exec {shlex.quote(sys.executable)} -m precice_lb "$@"')
        # Nothing is to be left in the home of whoever runs the tests.
        self.environment = dict(os.environ, PYTHONPATH=str(ROOT), MPLBACKEND="Agg", HOME=str(place), COLUMNS="100")
        self.environment["PATH"] = os.pathsep.join(
            [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        )

    def run(self, group: list[Block]) -> dict[Block, str]:
        """Run a block, neighbouring ones that start solvers at the same time, or Python as one program.

        Returns
        -------
        dict
            What each block printed.
        """
        programs = [group] if group[0].language == "python" else [[block] for block in group]
        logs = [self.root.parent / f"{number}.log" for number in range(len(programs))]
        started = []
        for program_blocks, log in zip(programs, logs, strict=True):
            started.append(self._start(program_blocks, log, alone=len(programs) == 1))
        failed = []
        outputs = {}
        for program_blocks, log, process in zip(programs, logs, started, strict=True):
            name = program_blocks[0].name
            try:
                code = process.wait(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                for each in started:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(each.pid, signal.SIGTERM)
                said = log.read_text(errors="replace")[-3000:]
                pytest.fail(f"{name}: still running after {SECONDS} seconds\n{said}")
            output = log.read_text(errors="replace")
            if code:
                failed.append(f"{name}: exit code {code}\n{output[-3000:]}")
            outputs.update(dict.fromkeys(program_blocks, output))
        assert not failed, "\n".join(failed)
        return outputs

    def _start(self, program_blocks: list[Block], log: Path, *, alone: bool) -> subprocess.Popen[bytes]:
        block = program_blocks[0]
        if block.language == "python":
            # The blocks' own line numbers in tracebacks.
            text = ""
            for part in program_blocks:
                text += "\n" * (part.line - text.count("\n")) + part.text
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


def _groups(page: Path) -> list[list[Block]]:
    """Return the blocks of a page that run now; those of a group run at the same time, or as one Python program."""
    groups: list[list[Block]] = []
    for block in filter(_runs_now, blocks(page)):
        last = groups[-1][-1] if groups else None
        is_beside = last is not None and _starts_solvers(block) and _starts_solvers(last)
        # Later blocks of Python may use what earlier ones defined.
        continues_python = last is not None and block.language == last.language == "python"
        if is_beside or continues_python:
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


@pytest.mark.parametrize("page", list(filter(_groups, pages())), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_blocks_of_a_page_run_and_print_what_the_text_says(page: Path, tmp_path: Path) -> None:
    session = Session(page, tmp_path)
    outputs: dict[Block, str] = {}
    for group in _groups(page):
        outputs |= session.run(group)
    wrong = []
    for section in sections(page):
        wrong += wrong_parts(section, outputs)
    assert not wrong, "\n".join(wrong)


def _passages_by_command() -> dict[str, list[Passage]]:
    """Return the passages whose figures a command prints, by the command that the mark names."""
    found: dict[str, list[Passage]] = {}
    for page in pages():
        for section in sections(page):
            for part in section:
                if isinstance(part, Passage) and part.marker == "printed in full by":
                    found.setdefault(part.reason, []).append(part)
    return found


PASSAGES_BY_COMMAND = _passages_by_command()


@pytest.mark.slow("commands of minutes")
@pytest.mark.parametrize("command", PASSAGES_BY_COMMAND)
def test_figures_are_those_that_the_named_command_prints(command: str, tmp_path: Path) -> None:
    passages = PASSAGES_BY_COMMAND[command]
    block = Block(ROOT / "README.md", passages[0].line, "bash", command, "", "")

    (output,) = Session(block.path, tmp_path).run([block]).values()

    wrong = []
    for passage in passages:
        wrong += [f"{passage.name}: {figure}" for figure in unprinted_figures(passage.text, output)]
    assert not wrong, "\n".join(wrong)
