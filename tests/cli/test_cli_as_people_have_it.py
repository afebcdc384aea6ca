"""Input as people have it: one participant alone, commands without arguments."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from precice_lb import recommend_split
from precice_lb.cli.app import main

DATA = Path(__file__).parents[1] / "data"
ONE = {"Sea": [(4, 1.0), (8, 0.6)]}


def test_one_participant_alone_has_nothing_to_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = recommend_split(ONE, 8)
    assert found.split == {"Sea": 8}
    assert found.alternatives == {}
    remark = "Sea is the only participant: nothing to split; give measurements of its partners."
    assert remark in map(str, found.warnings)
    table = tmp_path / "one.csv"
    table.write_text("participant,ranks,seconds\nSea,4,1\nSea,8,0.6\n")
    assert main(["recommend", str(table), "--ranks", "8"]) == 0
    words = " ".join("".join(capsys.readouterr()).split())
    assert remark in words
    assert "Nothing to split, as there is one participant alone: with Sea 8 ranks one time window should take" in words
    assert "equal split" not in words


def test_check_without_arguments_looks_where_summary_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(DATA / "profiling" / "fundamental", tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    assert main(["summary", "--format", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert main(["check", "--format", "json"]) in (0, 1)
    assert {one["run"] for one in json.loads(capsys.readouterr().out)["participants"]} == {run["run"]}
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert main(["check"]) == 2
    assert f"{tmp_path / 'empty'}: expected the directory of a run" in capsys.readouterr().err
