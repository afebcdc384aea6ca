"""``precice-cli lb …``: the parser and the function that preCICE's command line registers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from precice_lb.precice_cli import make_parser, run

DATA = Path(__file__).parents[1] / "data" / "schroeder2019.csv"

# What precice-cli does for each of its own tools.
REGISTERED = """
import sys
from precicecli import cli
from precice_lb.precice_cli import make_parser, run

parser, check = cli.makeParser()
(commands,) = parser._subparsers._group_actions
cli.add_subparser(commands, "lb", make_parser)
namespace = parser.parse_args()
sys.exit(check(namespace) or {"lb": run}.get(namespace.cmd, cli.run)(namespace))
"""


def test_words_are_handed_on_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["recommend", str(DATA), "--ranks", "448", "--format", "json"]
    assert run(make_parser(add_help=False).parse_args(words)) == 0
    assert '"split"' in capsys.readouterr().out
    assert run(make_parser().parse_args(["recommend", "no-such.csv", "--ranks", "4"])) == 2
    assert "no-such.csv" in capsys.readouterr().err
    assert run(make_parser().parse_args([])) == 0
    assert "recommend" in capsys.readouterr().out


def test_precice_cli_has_it_as_a_command_beside_its_own() -> None:
    pytest.importorskip("precicecli", reason="no precice-cli: pip install precice-cli")
    command = [sys.executable, "-c", REGISTERED, "lb", "recommend", "--help"]
    assert "--cores-per-node" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
