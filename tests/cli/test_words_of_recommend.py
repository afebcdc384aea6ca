"""Command line, study and Python say the same with the words that the page on recommend has beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_helpers import configuration, recommended

from precice_lb import recommend_split
from precice_lb.layout import Layouts
from precice_lb.recommend import Machine
from precice_lb.split import SharedCores
from precice_lb.text import json_text

# Whatever the machine is, somebody has to say how large it is.
RANKS = "[machine]\nranks = 24\n"
# Options, what a study says instead (nothing where it cannot), and arguments in Python.
WORDS: dict[str, tuple[list[str], str | None, dict[str, Any]]] = {
    "ranks": (["--ranks", "24"], RANKS, {"budget": 24}),
    "nodes": (
        ["--nodes", "3", "--cores-per-node", "8"],
        "[machine]\nnodes = 3\ncores_per_node = 8\n",
        {"machine": Machine(nodes=3, cores_per_node=8)},
    ),
    "cores": (["--cores", "24"], "[machine]\ncores = 24\n", {"machine": Machine(cores=24)}),
    "multiple": (
        ["--ranks", "24", "--set", "participants.Inner.multiple=5"],
        f'{RANKS}[[participants]]\nname = "Inner"\ncommand = "true"\nmultiple = 5\n',
        {"machine": Machine(ranks=24, multiple={"Inner": 5})},
    ),
    "allow": (
        ["--ranks", "24", "--set", "participants.Inner.ranks=[7,11]"],
        f'{RANKS}[[participants]]\nname = "Inner"\ncommand = "true"\nranks = [7, 11]\n',
        {"machine": Machine(ranks=24, allow={"Inner": [7, 11]})},
    ),
    "layouts": (
        ["--cores", "24", "--set", "participants.Outer.threads=free"],
        '[machine]\ncores = 24\n[[participants]]\nname = "Outer"\ncommand = "true"\nthreads = "free"\n',
        {"machine": Machine(cores=24, layouts={"Outer": Layouts(1, None)})},
    ),
    "shared": (
        ["--ranks", "24", "--coupling", "serial", "--set", "machine.shared=Inner/Outer"],
        f'{RANKS}shared = "Inner/Outer"\n',
        {"machine": Machine(ranks=24, shared=[SharedCores([["Inner"], ["Outer"]])]), "coupling": "serial"},
    ),
    "parameter": (
        ["--ranks", "24", "--set", "case.parameter.level=8"],
        f"{RANKS}[case]\nparameter = {{ level = 8 }}\n",
        {"budget": 24, "parameter": {"level": 8}},
    ),
    "seed": (["--ranks", "24", "--seed", "3"], None, {"budget": 24, "seed": 3}),
}


def write_table(path: Path, kind: str) -> Path:
    """Write a table of seconds of Inner and Outer on 2 to 16 cores; Inner has twice the work.

    One of the kind "parameter" has a column for the refinement level, 7 or 8, where 8 has three times the work. In one
    of the kind "layouts" each core of Outer has a thread of one rank, not a rank.
    """
    work_by_level = {"7": 1.0, "8": 3.0} if kind == "parameter" else {"": 1.0}
    lines = ["participant,ranks,threads,seconds" + (",level" if kind == "parameter" else "")]
    for level, work in work_by_level.items():
        last_cell = f",{level}" if level else ""
        for cores in (2, 4, 8, 16):
            ranks_and_threads_of_outer = f"1,{cores}" if kind == "layouts" else f"{cores},1"
            lines.append(f"Inner,{cores},1,{work * 8.0 / cores + 0.1}{last_cell}")
            lines.append(f"Outer,{ranks_and_threads_of_outer},{work * 4.0 / cores + 0.1}{last_cell}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def with_participants(study: str) -> str:
    """Name the participants that a study leaves out, as it must have both."""
    for name in ("Inner", "Outer"):
        if f'name = "{name}"' not in study:
            study += f'[[participants]]\nname = "{name}"\ncommand = "true"\n'
    return study


@pytest.mark.parametrize("words", WORDS)
def test_options_of_the_command_are_arguments_in_python(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, _, arguments = WORDS[words]
    table = write_table(tmp_path / "times.csv", words)

    of_command = recommended(capsys, table, *options)
    in_python = recommend_split(table, within=0.05, **{"coupling": "parallel", **arguments})

    assert of_command == json.loads(json_text(in_python.to_dict()))


@pytest.mark.parametrize("words", [words for words, (_, study, _) in WORDS.items() if study is not None])
def test_keys_of_a_study_are_options_of_the_command(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, study, _ = WORDS[words]
    assert study is not None
    table = write_table(tmp_path / "times.csv", words)
    path = tmp_path / "study.toml"
    path.write_text(with_participants(study), encoding="utf-8")
    (tmp_path / "precice-config.xml").write_text(configuration(), encoding="utf-8")
    coupling = ["--coupling", "serial"] if words == "shared" else ["--coupling", "parallel"]

    of_options = recommended(capsys, table, *options, *([] if words == "shared" else coupling))
    of_study = recommended(capsys, table, "--study", path, *coupling)

    assert of_study == of_options
