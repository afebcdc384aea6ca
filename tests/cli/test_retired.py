"""What was retired is refused in one line that says what to use instead, or named and ignored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calibrate_helpers import write_study

from precice_lb.campaign import CampaignResult, RunRecord, load_campaign, read_study


@pytest.mark.parametrize(
    ("table", "line", "key"),
    [
        ("[runs]", 'design = "grid"', "runs.design"),
        ("[[runs.meshes]]", "runs = 2", "runs.meshes"),
    ],
)
def test_keys_of_a_study_are_named_and_ignored(
    tmp_path: Path, table: str, line: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_study(tmp_path)
    expected = read_study(path)
    assert capsys.readouterr().err == ""
    text = path.read_text()
    path.write_text(text.replace(table, f"{table}\n{line}") if table in text else f"{text}\n{table}\n{line}\n")
    assert read_study(path) == expected
    assert capsys.readouterr().err == f"precice-lb: {path}: {key}: retired, and so ignored\n"


def test_stored_runs_of_another_kind_are_named_and_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [RunRecord(number, f"00{number}", {"Inner": 1}, "runs", "", "", outcome="finished") for number in (1, 2, 3)]
    CampaignResult({}, runs, directory=tmp_path).save()
    path = tmp_path / "campaign.json"
    values = json.loads(path.read_text())
    for run in values["runs"][1:]:
        run["in_turns"] = True
    path.write_text(json.dumps(values))
    result = load_campaign(tmp_path)
    assert result is not None
    assert [run.name for run in result.finished] == ["001"]
    # They stay in the list: what follows is numbered after them.
    assert len(result.runs) == 3
    told = "runs in turns or on smaller meshes (002, 003): retired, and so passed over"
    assert capsys.readouterr().err == f"precice-lb: {path}: {told}\n"


def test_settings_of_a_campaign_that_its_study_says_are_named_and_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    CampaignResult({}, directory=tmp_path).save()
    path = tmp_path / "campaign.json"
    settings = {"total_ranks": 4, "minimum_ranks": {"A": 2}, "maximum_ranks": {}, "parameters": {}, "existing": []}
    settings |= {"learner": None, "layouts": {}, "machine": {"multiple": 2, "nodes": None}}
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "settings": settings}))
    state = CampaignResult.load(tmp_path)
    assert state is not None
    assert state.asked is not None
    assert (state.asked.total, state.asked.demands().minimum, state.asked.demands().multiple) == (4, {"A": 2}, {"A": 2})
    path.write_text(json.dumps({**kept, "settings": {**settings, "learner": "shape"}}))
    state = CampaignResult.load(tmp_path)
    assert state is not None
    assert state.asked is None
    assert capsys.readouterr().err == f"precice-lb: {path}: settings: retired, and so ignored\n"
