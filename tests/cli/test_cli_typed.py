"""An error names what was typed: options, not arguments of functions or keys of studies."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from precice_lb.cli.app import app, main
from precice_lb.cli.typed import as_typed

TABLE = Path(__file__).parents[1] / "data" / "two_level.csv"
CONFIGURATION = Path(__file__).parents[1] / "data" / "configurations" / "two-level.xml"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--ranks 0", "expected --ranks as a whole number of at least 1, found 0"),
        ("--ranks 4 --seed -1", "expected --seed as a whole number of at least 0, found -1"),
        ("--ranks 4 --set runs.level=2", "runs.level: expected less than 1, found 2"),
        ("--ranks 4 --present Flow=2", "expected --present of Flow, Shell, found one of Flow"),
        ("--nodes 2", "expected --cores-per-node for a budget in nodes or whole nodes, found none; say how many cores"),
        ("--nodes 2 --cores-per-node 0", "machine.cores_per_node: expected greater than or equal to 1, found 0"),
        ("--ranks 4 --set participants.Flow.memory=1", "expected memory_per_rank beside memory, found none"),
        ("--ranks 4 --set machine.shred=1", "machine.shred: unknown key; did you mean 'shared'?"),
    ],
)
def test_recommend_names_its_options(options: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", str(TABLE), *shlex.split(options)]) == 2
    assert f"error: {words}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--program nowhere", "--program: expected an MPI launcher, but 'nowhere' is not an executable program"),
        ("--launcher mpiexec --mpi pmi2", "--mpi: the launcher mpiexec does not know this key"),
        ("--launcher mpiexec --slurm time=3", "--slurm: the launcher mpiexec does not know this key"),
        ("--arguments '\"'", "--arguments: expected a command line"),
    ],
)
def test_launch_names_its_options(options: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"launch --config {CONFIGURATION} --split Flow=2,Shell=2 {options} -- sleep 0 : sleep 0"
    assert main(shlex.split(line)) == 2
    assert f"error: {words}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "text"),
    [
        # Keys of a study, which this command has no options for.
        ("calibrate study.toml", "launcher.program: no program 'x'"),
        ("calibrate study.toml", "machine.cores_per_node: expected a number"),
        # What stands in a file or was typed.
        ("recommend x.csv", "x.csv, line 3: expected a number in column minima, found 'cores_per_node'"),
        ("recommend a_b/minimum_ranks.csv", "a_b/minimum_ranks.csv: expected a readable CSV file"),
        ("recommend x.csv", "expected at least 2 ranks for 2 participants and their minima, found 1; give 2 or more"),
        ("no-command", "expected cores_per_node"),
    ],
)
def test_all_else_stays_as_it_is(command: str, text: str) -> None:
    assert as_typed(text, app, command.split()) == text
