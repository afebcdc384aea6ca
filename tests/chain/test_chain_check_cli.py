"""``precice-lb chain check`` as users call it."""

from __future__ import annotations

import json

import pytest
from calibrate_helpers import write_case, write_study
from coupled_runs import SERIAL
from store_helpers import row, write_store

from precice_lb.calibrate.state import CampaignState, RunRecord
from precice_lb.cli import main

CHAIN = '[chain]\nwindows = 20\ntotal = 40\ncarry = ["*.h5"]\n'
# Of the first windows and of those that follow, in two runs.
ITERATIONS = {"001-A1-B1": [6, 5, 4, 4, 3, *[3] * 10], "002-A1-B2": [5, 5, 3, 3, 3, *[3] * 10]}


@pytest.fixture
def study(tmp_path):
    write_case(tmp_path, "")
    return write_study(tmp_path, extra=CHAIN)


@pytest.fixture
def campaign(tmp_path):
    """A directory with two runs, whose iterations are planted, and one that failed."""
    directory, runs = tmp_path / "chain", []
    for number, (name, iterations) in enumerate(ITERATIONS.items(), start=1):
        for participant in "AB":
            rows = [
                row(window, 0.1, 0.1, 0.0, iteration=iteration, complete=iteration == count)
                for window, count in enumerate(iterations, start=1)
                for iteration in range(1, count + 1)
            ]
            write_store(directory / "runs" / name / "stores", rows, participant, configuration=SERIAL)
        split = {"A": 1, "B": number}
        runs.append(RunRecord(number, name, split, f"runs/{name}", "", "2026-01-01T00:00:00+00:00", outcome="finished"))
    runs.append(RunRecord(3, "003-A1-B3", {"A": 1, "B": 3}, "runs/003-A1-B3", "", "", outcome="failed"))
    CampaignState({}, runs).save(directory)
    return directory


def test_it_says_what_starts_at_zero_and_exits_with_1(study, capsys):
    assert main(["chain", "check", str(study)]) == 1
    out, err = capsys.readouterr()
    text = (study.parent / "case" / "precice-config.xml").read_text()
    assert err == ""
    assert out.count("found: line ") == text.count("<exchange") > 0


def test_json_has_everything(study, campaign, capsys):
    assert main(["chain", "check", str(study), "-o", str(campaign), "--format", "json"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert values.keys() == {"configuration", "exchanges", "found", "notes", "borders"}
    assert {each["line"] for each in values["found"]} == {each["line"] for each in values["exchanges"]}
    assert [each["run"] for each in values["borders"]] == list(ITERATIONS)
    assert [each["extra"] for each in values["borders"]] == [7, 4]


def test_what_starts_cost_is_measured(study, campaign, capsys):
    main(["chain", "check", str(study), "-o", str(campaign)])
    out, _ = capsys.readouterr()
    assert "001-A1-B1 A 1, B 1 6 5 4 4 3 3.00 +7.0" in " ".join(out.split())
    assert "a start costs +5.5 coupling iterations, those of 1.8 later windows: the mean of 2 runs" in out


def test_a_directory_without_runs_is_refused(study, tmp_path, capsys):
    assert main(["chain", "check", str(study), "-o", str(tmp_path)]) == 2
    assert "expected the directory of a chain or a campaign, found no campaign.json" in capsys.readouterr().err
