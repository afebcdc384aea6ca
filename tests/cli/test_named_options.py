"""Options that messages name exist in the commands that print these messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from calibrate_helpers import write_study
from report_helpers import refused

from precice_lb.cli import main
from precice_lb.recommend.remarks import SENTENCES, remark
from precice_lb.watch.snapshot import _warning_text

OPTION = re.compile(r"--[a-z][a-z-]*")
OPTIONS_OF_WARNINGS = sorted(set(OPTION.findall(" ".join(SENTENCES.values()))))


@pytest.mark.parametrize("option", OPTIONS_OF_WARNINGS)
@pytest.mark.parametrize("command", ["recommend", "report", "calibrate"])
def test_options_in_warnings_are_options_of_the_command(
    command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    assert option in OPTION.findall(capsys.readouterr().out)


def test_setting_in_the_warning_about_nodes_is_accepted(tmp_path: Path) -> None:
    (setting,) = re.findall(r"--set (\S+=\d+)", SENTENCES["more-nodes"])
    table = tmp_path / "times.csv"
    table.write_text("participant,ranks,seconds\nA,1,2\nA,2,1\nB,1,2\nB,2,1\n")
    assert main(["recommend", str(table), "--ranks", "96", "--set", setting]) == 0


def test_watch_names_the_command_that_takes_the_cores_of_a_node() -> None:
    text = _warning_text(remark("more-nodes", participants="Flow"))
    assert text.endswith("precice-lb recommend takes how many cores a node has (--cores-per-node).")


def test_calibrate_names_the_key_of_the_cores_of_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = write_study(tmp_path, machine="nodes = 2")
    error = refused(capsys, "calibrate", study)
    assert "machine: expected cores_per_node for a budget in nodes" in error


def test_recommend_names_its_option_for_the_cores_of_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "times.csv"
    table.write_text("participant,ranks,seconds\nA,1,2\nA,2,1\nB,1,2\nB,2,1\n")
    error = refused(capsys, "recommend", table, "--nodes", "2")
    assert "expected --cores-per-node for a budget in nodes" in error
