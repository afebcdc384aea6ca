"""What the summary of a single run says of its split: another one, that it is fine, or why it says nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from decision_cases import call, coupled, printed_json, write_participant

from precice_lb import recommend_split
from precice_lb.cli import main
from precice_lb.dataset import load_measurements
from precice_lb.schedule import Schedule


def write_run(directory: Path, first: int, second: int, configuration: str = "") -> None:
    """A and B on four ranks each, which work for so many milliseconds of windows of 410 ms."""
    for name, work in (("A", first), ("B", second)):
        calls = [call(w, work, 410 - work) for w in range(1, 21)]
        write_participant(directory, name, [calls] * 4, configuration=configuration or coupled("parallel-explicit"))


def summary(directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["summary", str(directory)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_run_out_of_balance_speaks_for_another_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, 100, 400)
    answer = printed_json(capsys, "summary", tmp_path)[0]["answer"]
    schedule = Schedule.parallel(["A", "B"])
    expected = recommend_split(load_measurements([tmp_path]), 8, coupling=schedule, present={"A": 4, "B": 4})
    assert (answer["present"], answer["split"]) == ({"A": 4, "B": 4}, expected.split)
    assert answer["split"]["A"] < 4 < answer["split"]["B"]
    assert answer["gain"] == pytest.approx(
        1 - expected.window_seconds / expected.alternatives["present"].window_seconds
    )
    low, high = answer["gain_interval"]
    assert 0 < low < answer["gain"] < high < 1
    assert answer["is_faster"]
    assert sum(answer["next_run"].values()) <= 8
    shown = summary(tmp_path, capsys)
    assert f"another split of its cores: A {answer['split']['A']} ranks and B {answer['split']['B']} ranks" in shown


def test_a_run_in_balance_is_told_that_its_split_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, 390, 400)
    assert not printed_json(capsys, "summary", tmp_path)[0]["answer"]["is_faster"]
    assert "The present split is fine: A 4 ranks and B 4 ranks." in summary(tmp_path, capsys)


def test_without_a_coupling_one_line_says_so_and_the_last_two_factors_are_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path, 100, 400, "<nothing/>")
    shown = summary(tmp_path, capsys)
    assert "This run alone speaks for no split: precice-config.xml:1: expected <precice-configuration>" in shown
    assert "longest chain of compute: not known: precice-config.xml:1" in shown
    run = printed_json(capsys, "summary", tmp_path)[0]
    assert run["answer"]["split"] == {}
    # The least wait is the transfer, 10 ms: compute times are 110 and 410 ms of 410.
    factors = run["efficiencies"]["run"]
    assert factors["load_balance_of_participants"] == pytest.approx(520 / 820)
    assert factors["longest_participant_in_window"] == pytest.approx(1)


def test_one_participant_is_no_coupled_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, 100, 400)
    for path in tmp_path.rglob("*B*.h5"):
        path.unlink()
    shown = summary(tmp_path, capsys)
    assert "speaks for no split: only A was recorded; give the directories of its partners, too." in shown
    assert "efficiencies: not known: not all participants were recorded" in shown


def test_a_defect_in_the_answer_costs_the_answer_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, 100, 400)
    monkeypatch.setattr("precice_lb.report.answer.recommend_split", lambda *_, **__: 1 / 0)
    assert main(["summary", str(tmp_path), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert "answer" not in json.loads(out)[0]
    assert "what this run says of its split could not be made: ZeroDivisionError" in err
