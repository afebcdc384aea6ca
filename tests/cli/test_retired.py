"""What was retired is refused in one line that says what to use instead, or named and ignored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calibrate_helpers import write_case, write_study

from precice_lb.campaign import load_campaign, read_study
from precice_lb.campaign.state import CampaignResult, RunRecord
from precice_lb.cli import main
from precice_lb.exceptions import StudyError


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("chain check study.toml", "docs/how-to/restart.md"),
        ("fit times.csv", "benchmarks/regret.py"),
        ("guess try study.toml", "PRECICE_LB_GUESS=auto"),
        ("import ateles-timeinfo timeinfo", "CSV"),
        ("import case folder", "CSV"),
        ("import precice-events EventLog.json", "CSV"),
        ("inside precice-lb-store --mpi-report solver.mpiP", "--seconds"),
        ("merge precice-lb-store", "export --merged"),
        ("partners exports --cores 4", "a core for every rank"),
        ("partners exports --ranks-per-node 4", "partners.h5"),
        ("partners exports --style=hilbert", "--partition"),
        ("partners run-1 run-2 --fit-constants constants.json", "--constants file="),
        ("recommend times.csv --multiple Inner=4", "--set participants.NAME.multiple=…"),
        ("recommend times.csv --ridge 0.1", "--set runs.learner={name='…', ridge=…}"),
        ("recommend times.csv --share Inner/Outer", "--set machine.shared=…"),
        ("recommend times.csv --spent-core-hours 2", "in the JSON"),
        ("recommend times.csv --verify", "the line optimum"),
        ("scripts study.toml --split A=1,B=1", "launch --study STUDY --write DIR"),
        ("report times.csv --spent-core-hours=2", "in the JSON"),
    ],
)
def test_commands_and_options_say_what_to_use_instead(
    words: str, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "was retired; " in line
    assert instead in line


@pytest.mark.parametrize(
    ("table", "line", "key"),
    [
        ("[runs]", 'design = "grid"', "runs.design"),
        ("[runs]", "beside = true", "runs.beside"),
        ("[runs]", "minutes = 5", "runs.minutes"),
        ("[runs]", 'on_failure = "stop"', "runs.on_failure"),
        ("[recommend]", 'inside = ["out"]', "recommend.inside"),
        ("[[runs.meshes]]", "runs = 2", "runs.meshes"),
        ("[emulation]", 'law = "law.json"', "emulation"),
    ],
)
def test_keys_of_a_study_are_named_and_ignored(
    tmp_path: Path, table: str, line: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_case(tmp_path)
    path = write_study(tmp_path)
    expected = read_study(path)
    assert capsys.readouterr().err == ""
    text = path.read_text()
    path.write_text(text.replace(table, f"{table}\n{line}") if table in text else f"{text}\n{table}\n{line}\n")
    assert read_study(path) == expected
    assert capsys.readouterr().err == f"precice-lb: {path}: {key}: retired, and so ignored\n"


def test_keys_that_would_change_what_a_study_means_are_refused(tmp_path: Path) -> None:
    write_case(tmp_path)
    path = write_study(tmp_path)
    for key, instead in (("gpus = 4", "say machine.nodes, cores_per_node"), ("threads = 2", "say participants.NAME.t")):
        with pytest.raises(StudyError, match=rf"machine\.{key.split()[0]}: this key was retired; {instead}"):
            read_study(path, [f"machine.{key}"])


def stored(directory: Path, **more: object) -> Path:
    """A campaign of three runs, of which the last two have more keys."""
    runs = [RunRecord(number, f"00{number}", {"Inner": 1}, "runs", "", "", outcome="finished") for number in (1, 2, 3)]
    CampaignResult({}, runs, directory=directory).save()
    path = directory / "campaign.json"
    values = json.loads(path.read_text())
    for run in values["runs"][1:]:
        run.update(more)
    path.write_text(json.dumps(values))
    return path


def test_energy_of_stored_runs_is_named_and_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, energy=[{"split": {"Inner": 1}, "joules": 5.0, "seconds": 2.0}])
    result = load_campaign(tmp_path)
    assert result is not None
    assert [run.name for run in result.finished] == ["001", "002", "003"]
    assert capsys.readouterr().err == f"precice-lb: {path}: runs.energy: retired, and so ignored\n"


def test_stored_runs_in_turns_are_named_and_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, in_turns=True)
    result = load_campaign(tmp_path)
    assert result is not None
    assert [run.name for run in result.finished] == ["001"]
    # They stay in the list: what follows is numbered after them.
    assert len(result.runs) == 3
    assert (
        capsys.readouterr().err
        == f"precice-lb: {path}: runs in turns or on smaller meshes (002, 003): retired, and so passed over\n"
    )


def test_learners_of_a_campaign_are_named_and_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CampaignResult({}, directory=tmp_path).save()
    path = tmp_path / "campaign.json"
    settings = {"total_ranks": 4, "minimum_ranks": {"A": 2}, "maximum_ranks": {}, "parameters": {}, "existing": []}
    pairs = [{"ranks": 1, "threads": 2}, {"ranks": 2, "threads": 2}]
    layouts = {
        "B": {"ranks": None, "threads": 2, "pairs": []},
        "C": {"ranks": None, "threads": None, "pairs": pairs},
    }
    settings |= {"learner": "shape", "layouts": layouts, "machine": {"multiple": 2, "nodes": None}}
    path.write_text(json.dumps({**json.loads(path.read_text()), "settings": settings}))
    state = CampaignResult.load(tmp_path)
    assert state is not None
    assert state.asked is not None
    assert (state.asked.total, state.asked.runs.learner) == (4, None)
    assert state.asked.minimum_ranks() == {"A": 2}
    assert state.asked.demands().multiple == dict.fromkeys("ABC", 2)
    read = {own.name: str(own.layouts) for own in state.asked.participants}
    assert read == {"A": "a multiple of 1", "B": "a multiple of 2", "C": "2 or 4"}
    ignored = "settings.learner=shape: retired, and so ignored"
    assert capsys.readouterr().err == f"precice-lb: {path}: {ignored}\n"
