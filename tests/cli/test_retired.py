"""What was retired is refused in one line that says what to use instead, or named and ignored."""

from __future__ import annotations

from pathlib import Path

import pytest
from calibrate_helpers import write_case, write_study

from precice_lb.calibrate import read_study
from precice_lb.calibrate.state import CampaignState, Settings
from precice_lb.cli import main


@pytest.mark.parametrize(
    ("tokens", "instead"),
    [
        (["merge", "precice-lb-store"], "export --merged"),
        (["import", "precice-events", "EventLog.json"], "CSV"),
        (["import", "ateles-timeinfo", "timeinfo"], "CSV"),
        (["import", "case", "folder"], "CSV"),
        (["inside", "precice-lb-store", "--mpi-report", "solver.mpiP"], "--seconds"),
        (["partners", "run-1", "run-2", "--fit-constants", "constants.json"], "--constants turn="),
        (["partners", "exports", "--style=hilbert"], "--partition"),
        (["partners", "exports", "--ranks-per-node", "4"], "partners.h5"),
    ],
)
def test_retired_commands_and_options_say_what_to_use_instead(
    tokens: list[str], instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(tokens) == 2
    error = capsys.readouterr().err
    assert "was retired; " in error
    assert instead in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("table", "key"), [('[runs]\ndesign = "grid"', "runs.design")])
def test_retired_keys_of_a_study_are_named_and_ignored(
    tmp_path: Path, table: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_case(tmp_path)
    path = write_study(tmp_path)
    expected = read_study(path)
    assert capsys.readouterr().err == ""
    head, _, line = table.partition("\n")
    path.write_text(path.read_text().replace(head, f"{head}\n{line}"))
    assert read_study(path) == expected
    assert capsys.readouterr().err == f"precice-lb: {path}: {key}: retired, and so ignored\n"


def test_retired_learners_of_a_campaign_are_named_and_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    CampaignState({}, settings=Settings(4, {}, {}, {}, [], learner="shape")).save(tmp_path)
    state = CampaignState.load(tmp_path)
    assert state is not None
    assert state.settings is not None
    assert state.settings.learner is None
    told = "settings.learner=shape: retired, and so ignored"
    assert capsys.readouterr().err == f"precice-lb: {tmp_path / 'campaign.json'}: {told}\n"
