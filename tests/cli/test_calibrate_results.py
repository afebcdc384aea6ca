"""What ``precice-lb calibrate`` makes of the runs of a campaign, here of ones that are there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from calibrate_helpers import run_of
from report_helpers import configuration, write_run
from store_helpers import START

import precice_lb.campaign
from precice_lb.campaign import CampaignResult, read_study
from precice_lb.cli import main

PROGRAMS = "versions = [{ name = 'cpu', command = 'python on_cpu.py' }, { name = 'gpu', command = 'python on_gpu.py' }]"
MINUTE = 60 * 10**9


def write_study(directory: Path, program: str) -> Path:
    """Write a study of Inner and Outer, which both run so, on twelve ranks."""
    (directory / "case").mkdir()
    (directory / "case" / "precice-config.xml").write_text(configuration())
    for name in ("solver", "on_cpu", "on_gpu"):
        (directory / "case" / f"{name}.py").touch()
    participants = "\n".join(f"[[participants]]\nname = '{name}'\n{program}\n" for name in ("Inner", "Outer"))
    path = directory / "study.toml"
    path.write_text(
        f"case = {{ directory = 'case', network = 'lo' }}\nmachine.ranks = 12\nlauncher.name = 'mpiexec'\n"
        f"runs = {{ windows = 4, warmup_windows = 1, maximum = 4 }}\n{participants}"
    )
    return path


def write_result(study: Path, outcomes: list[str], version: str | None = None) -> CampaignResult:
    """Write the runs of a campaign that ended so, each at another split; those that ended well have stores."""
    directory = study.parent / "campaign"
    result = CampaignResult({}, directory=directory)
    result.asked = read_study(study).asked()
    stated: dict[str, Any] = {} if version is None else {"version": version}
    for number, outcome in enumerate(outcomes, start=1):
        split = {"Inner": 2 * number, "Outer": number}
        versions = {} if version is None else dict.fromkeys(split, version)
        run = run_of(number, split, outcome, versions=versions, reasons=["Inner: out of memory"])
        if outcome == "finished":
            place = directory / run.directory / "stores"
            write_run(place, split, start=START + number * MINUTE, run=run.name, **stated)
        result.runs.append(run)
    return result


def test_scripts_start_the_version_that_is_recommended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path, PROGRAMS)
    result = write_result(study, ["finished"] * 3, version="gpu")
    monkeypatch.setattr(precice_lb.campaign, "run_campaign", lambda *_: result)

    assert main(["calibrate", str(study)]) == 0

    script = result.directory / "launch" / "run.sh"
    assert f"start it: {script}\n" in capsys.readouterr().out
    assert "on_gpu.py" in script.read_text()
    assert "on_cpu.py" not in script.read_text()


def test_one_split_that_ended_well_is_too_few_to_recommend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path, "command = 'python solver.py'")
    result = write_result(study, ["finished", "failed"])
    monkeypatch.setattr(precice_lb.campaign, "run_campaign", lambda *_: result)

    assert main(["calibrate", str(study)]) == 1

    assert capsys.readouterr().err.endswith(
        "campaign: expected runs at 2 splits or more to recommend one, found 1 split whose runs ended well; "
        "002 failed: Inner: out of memory\n"
    )
    assert not (result.directory / "recommendation.json").exists()


@pytest.mark.parametrize(("launcher", "command"), [("mpiexec", "{}/run.sh"), ("slurm", "sbatch {}/job.sbatch")])
def test_command_that_starts_the_split_is_of_the_study_s_launcher(
    launcher: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path, "command = 'python solver.py'")
    result = write_result(study, ["finished"] * 3)
    monkeypatch.setattr(precice_lb.campaign, "run_campaign", lambda *_: result)

    assert main(["calibrate", str(study), "--set", f"launcher.name={launcher}"]) == 0

    assert f"start it: {command.format(result.directory / 'launch')}\n" in capsys.readouterr().out
