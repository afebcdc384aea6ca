"""All blocks of code in README, docs, tutorials and configs: run as written, or checked as far as they can be.

Blocks of a page run in their order in a fresh copy of what they need. An HTML comment on the line before a block says
otherwise: ``<!-- not run: reason -->`` (a cluster, a user's own files), ``<!-- run in full: reason -->`` (with
`FULL_COUNTS`: it takes minutes), ``<!-- run in: directory -->``. Commands of tutorials run with `FULL_COUNTS`.
Neighbouring blocks that start solvers run at the same time, as the terminals that their texts speak of.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from xml.parsers import expat

import pytest
from conftest import FULL_COUNTS
from markdown_helpers import ROOT, Block, blocks, pages

from precice_lb.calibrate.study import Study
from precice_lb.cli import add_readers, app
from precice_lb.precice_xml import parse_configuration

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

add_readers()
BLOCKS = [block for page in pages() for block in blocks(page)]
SHELLS = ("bash", "sh", "shell", "console")
# First words of lines that are commands where a block does not name its language.
PROGRAMS = ("make ", "precice-lb ", "python ", "pip ", "mpiexec ", "srun ", "sbatch ", "export ", "cd ", "PRECICE_LB_")
# What a study needs beside the tables that a fragment shows.
REST_OF_A_STUDY = {"case": {"directory": "."}, "budget": {"ranks": 64}, "participants": [{}]}
OPERATORS = ("|", "&&", "||", ";", "&", ">", ">>", "2>", "2>&1", "\\")
SECONDS = 900


def _lines(block: Block) -> list[str]:
    """Command lines of a block: continued lines joined, prompts and what follows them in a session left out."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _is_commands(block: Block) -> bool:
    if block.text.startswith("#!"):
        return False
    if block.language in SHELLS:
        return True
    return block.language == "" and bool(_lines(block)) and all(line.startswith(PROGRAMS) for line in _lines(block))


def _starts_solvers(block: Block) -> bool:
    return bool(re.search(r"\bmpiexec\b|\bprecice[-_]lb run\b", block.text)) and "wait" not in block.text.split()


def _own_commands(block: Block) -> list[list[str]]:
    """Arguments of every ``precice-lb`` in a block, also of those that mpiexec starts."""
    found = []
    for line in block.text.replace("\\\n", " ").splitlines():
        try:
            tokens = shlex.split(line.removeprefix("$ "), comments=True)
        except ValueError:
            continue
        for place, token in enumerate(tokens):
            if token == "precice-lb" or (token == "precice_lb" and tokens[place - 1] == "-m"):
                after = itertools.takewhile(lambda each: each not in OPERATORS, tokens[place + 1 :])
                found.append([argument.rstrip(";") for argument in after])
    return [arguments for arguments in found if arguments]


def _parse(arguments: list[str]) -> None:
    """Let the real command line read a command; raises what it raises."""
    if arguments[0] == "run":
        assert len(arguments) > 1
    else:
        app.parse_args(arguments, print_error=False, exit_on_error=False)


# --- every block is what it says it is -----------------------------------------------------------------------------


def test_there_are_blocks_of_every_kind() -> None:
    assert {"python", "toml"} <= {block.language for block in BLOCKS}
    assert any(_is_commands(block) for block in BLOCKS)


@pytest.mark.parametrize("block", [b for b in BLOCKS if _own_commands(b)], ids=lambda b: b.name)
def test_commands_have_options_that_exist(block: Block) -> None:
    for arguments in _own_commands(block):
        _parse(arguments)


def test_a_misspelt_option_is_seen() -> None:
    block = Block(ROOT / "README.md", 1, "", "mpiexec -n 2 python -m precice_lb summary x --per-rnk | head\n", "", "")
    assert _own_commands(block) == [["summary", "x", "--per-rnk"]]
    with pytest.raises(Exception, match="per-rnk"):
        _parse(_own_commands(block)[0])


def test_examples_in_help_have_options_that_exist() -> None:
    examples = re.findall(r"^Example: (.+)$", app.generate_docs(), flags=re.MULTILINE)
    assert len(examples) >= 12
    for example in examples:
        for arguments in _own_commands(Block(ROOT, 0, "", example, "", "")):
            _parse(arguments)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "toml" and b.marker == ""], ids=lambda b: b.name)
def test_study_files_are_accepted(block: Block) -> None:
    values = tomllib.loads(block.text)
    study = {**REST_OF_A_STUDY, **values}
    study["participants"] = [{"name": "Fluid", "command": "./fluid", **each} for each in study["participants"]]
    assert Study.model_validate({**study, "path": ROOT / "study.toml"})


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "xml"], ids=lambda b: b.name)
def test_xml_is_well_formed(block: Block) -> None:
    # Without a namespace separator preCICE's undeclared prefixes are plain names; a fragment has no one root.
    text = re.sub(r"<\?xml.*?\?>", "", block.text)
    expat.ParserCreate().Parse(f"<fragment>{text}</fragment>", True)
    if "<precice-configuration" in block.text and block.marker == "":
        assert parse_configuration(block.text, block.path).participants


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language in ("json", "yaml")], ids=lambda b: b.name)
def test_data_can_be_read(block: Block) -> None:
    if block.language == "json":
        json.loads(block.text)
    else:
        pytest.importorskip("yaml").safe_load(block.text)


@pytest.mark.parametrize(
    "block",
    [b for b in BLOCKS if _is_commands(b) or b.text.startswith(("#!/bin/sh", "#!/bin/bash"))],
    ids=lambda b: b.name,
)
def test_shells_can_read_commands(block: Block) -> None:
    text = "\n".join(_lines(block)) if _is_commands(block) else block.text
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_make_commands_have_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {name for b in BLOCKS for line in _lines(b) for name in re.findall(r"^make ([a-z-]+)", line)}
    assert {"demo", "test"} <= named <= targets
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "make test"


# --- and does what it says it does ---------------------------------------------------------------------------------


def _runs_now(block: Block) -> bool:
    if not (_is_commands(block) or block.language == "python") or block.marker == "not run":
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
        programs.mkdir()
        # Nothing is to be left in the home of whoever runs the tests.
        self.environment = dict(os.environ, PYTHONPATH=str(ROOT), MPLBACKEND="Agg", HOME=str(place))
        self.environment["PATH"] = os.pathsep.join(
            [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        program = programs / "precice-lb"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m precice_lb "$@"\n')
        program.chmod(0o755)

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
            lines = ["set -eo pipefail", *_lines(block)]
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


def test_a_block_that_fails_is_seen(tmp_path: Path) -> None:
    session = Session(ROOT / "README.md", tmp_path)
    session.run([Block(ROOT / "README.md", 1, "bash", "cd configs\nexport WHERE=there\n", "", "")])
    session.run([Block(ROOT / "README.md", 2, "bash", 'test -f pulse.toml\ntest "$WHERE" = there\n', "", "")])
    with pytest.raises(AssertionError, match="exit code"):
        session.run([Block(ROOT / "README.md", 3, "bash", "false | true\ntrue\n", "", "")])
    with pytest.raises(AssertionError, match="line 6"):
        session.run([Block(ROOT / "README.md", 4, "python", "\nraise ValueError('here')\n", "", "")])
