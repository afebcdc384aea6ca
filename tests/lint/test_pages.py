"""All blocks of code and links of the documentation, checked as far as they can be without running them."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shlex
import subprocess
import sys
from xml.parsers import expat

import pytest
from markdown_helpers import ROOT, Block, blocks, command_lines, generated, is_commands, link_problem, links, pages

from precice_lb.campaign.read import study_from
from precice_lb.case import parse_configuration
from precice_lb.cli import add_readers, app

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

add_readers()
BLOCKS = [block for page in pages() for block in blocks(page)]
# What a study needs beside the tables that a fragment shows.
REST_OF_A_STUDY = {"case": {"directory": "."}, "machine": {"ranks": 64}, "participants": [{}]}
OPERATORS = ("|", "&&", "||", ";", "&", ">", ">>", "2>", "2>&1", "\\")


def _tokens_of_command(lines: list[str]) -> list[str]:
    """Split the first of some lines into tokens, with the lines after it as far as a quotation goes on.

    A line of text that is no command may have an open quotation; it has no tokens.
    """
    for end in range(1, len(lines) + 1):
        text = "\n".join(lines[:end])
        try:
            return shlex.split(text.removeprefix("$ "), comments=True)
        except ValueError:
            continue
    return []


def _own_commands(block: Block) -> list[list[str]]:
    """Arguments of every ``precice-lb`` in a block, also of those that mpiexec starts."""
    found = []
    lines = block.text.replace("\\\n", " ").splitlines()
    for index in range(len(lines)):
        tokens = _tokens_of_command(lines[index:])
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


@pytest.mark.parametrize("block", [b for b in BLOCKS if _own_commands(b)], ids=lambda b: b.name)
def test_commands_have_options_that_exist(block: Block) -> None:
    for arguments in _own_commands(block):
        _parse(arguments)


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
    command = {"command": "./fluid"}
    study["participants"] = [
        {"name": "Fluid", **({} if "versions" in each else command), **each} for each in study["participants"]
    ]
    assert study_from(study, ROOT / "study.toml")


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
    [b for b in BLOCKS if is_commands(b) or b.text.startswith(("#!/bin/sh", "#!/bin/bash"))],
    ids=lambda b: b.name,
)
def test_shells_can_read_commands(block: Block) -> None:
    text = "\n".join(command_lines(block)) if is_commands(block) else block.text
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_make_commands_have_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {name for b in BLOCKS for line in command_lines(b) for name in re.findall(r"^make ([a-z-]+)", line)}
    assert {"demo", "test"} <= named <= targets
    runs = re.findall(r"^(?:PATH=\$bare )?make ([a-z-]+)", (ROOT / ".ci" / "run").read_text(), flags=re.MULTILINE)
    assert runs == ["test", "test-machine"]


def test_the_keys_in_the_page_on_studies_are_those_of_the_tables() -> None:
    keys = generated().study_keys()
    before, after = generated().MARKS
    assert f"{before}\n{keys}\n{after}\n" in _studies(), "run python docs/generated.py"
    rows = re.findall(r"^\| `(\w+)` .* \| (.*) \|$", keys, flags=re.MULTILINE)
    assert len(rows) > 60
    assert all(meaning.strip() for _, meaning in rows)


def test_the_picture_of_the_rooms_is_made_of_their_imports() -> None:
    pytest.importorskip("grimp", reason="it comes with import-linter")
    made = generated()
    assert made.HOUSE.read_text(encoding="utf-8") == made.house(), "run python docs/generated.py"
    assert made.house().count("marker-end") > 20


def _studies() -> str:
    return (ROOT / "configs" / "README.md").read_text(encoding="utf-8")


def test_links_lead_to_files_and_headings_that_exist() -> None:
    """Within this repository. Links that leave it: ``make linkcheck``, where there is a network."""
    found = [(page, target) for page in pages() for target in links(page)]
    assert len(found) >= 4
    assert [problem for page, target in found if (problem := link_problem(page, target))] == []


def _variables_of_the_package() -> set[str]:
    """Return the texts in the package's code that are, as a whole, the name of a variable of its own."""
    names: set[str] = set()
    for path in (ROOT / "precice_lb").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            # A beginning of names counts too: a variable whose name is put together has to be described.
            if isinstance(node, ast.Constant) and re.fullmatch(r"PRECICE_LB_\w*", str(node.value)):
                names.add(node.value)
    return names


def test_environment_variables_of_the_package_are_described() -> None:
    # A campaign finds the processes that it started by this one, which no user sets.
    names = _variables_of_the_package() - {"PRECICE_LB_CALIBRATION_TOKEN"}
    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    described = re.findall(r"^\| `(PRECICE_LB_\w+)`", page, flags=re.MULTILINE)
    assert sorted(described) == sorted(names)
