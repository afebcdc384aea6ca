"""Studies beside the options of ``precice-lb recommend``: which of the two counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_helpers import configuration, falling, recommended, write_csv

KINDS = """\
[case]
directory = "."

[machine]
kinds = [{ name = "cpu", nodes = 2, cores_per_node = 8 }, { name = "gpu", nodes = 1, cores_per_node = 8 }]

[[participants]]
name = "Inner"
versions = [
  { name = "slow", command = "python solver.py", kind = "cpu" },
  { name = "fast", command = "python solver.py", kind = "gpu" },
]

[[participants]]
name = "Outer"
command = "python solver.py"
kind = "cpu"
"""


@pytest.mark.parametrize("budget", [["--ranks", "12"], ["--cores", "12"], ["--set", "machine.ranks=12"]], ids=" ".join)
def test_ranks_of_an_option_take_the_place_of_the_kinds_of_nodes_of_a_study(
    budget: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kinds of nodes that participants and their versions run on mean nothing then."""
    (tmp_path / "precice-config.xml").write_text(configuration())
    (tmp_path / "solver.py").touch()
    (tmp_path / "study.toml").write_text(KINDS)
    table = write_csv(tmp_path / "times.csv", {"Inner": falling(2.0), "Outer": falling(2.0)})

    values = recommended(capsys, table, "--study", tmp_path / "study.toml", *budget)

    assert (values["total_ranks"], values["split"]) == (12, {"Inner": 6, "Outer": 6})
