"""The time limit of a production job: from the time windows of the whole run, not from calibration runs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from calibrate_helpers import changed, write_study
from report_helpers import write_recommended_split

from precice_lb.campaign import read_study, write_scripts
from precice_lb.campaign.time_limit import missing_limit, production_time_limit, without_time
from precice_lb.case import read_configuration
from precice_lb.cli import main

SLURM = 'name = "slurm"\noptions = ["--account=a1 --time=2", "-t 00:02:00"]'
NO_BOUND = "no upper bound of the window time of this split is known"


def study_of(directory: Path, **more: str) -> Path:
    """A study of 1000 time windows on Slurm, whose calibration runs have two minutes."""
    return write_study(directory, launcher=SLURM, case='network = "lo"', **more)


def headers(script: Path) -> list[str]:
    """What a job script asks for, in its order."""
    lines = script.read_text().splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")]


def times(script: Path) -> list[str]:
    """Time limits that a job script asks for, one per component."""
    return [option for option in headers(script) if "time" in option or option.startswith("-t")]


@pytest.mark.parametrize(
    ("windows", "window_seconds", "minutes"),
    [
        # 1000 x 2.85 s x 1.2 = 3420 s.
        (1000, 2.85, 57),
        # 1000 x 2.86 s x 1.2 = 3432 s.
        (1000, 2.86, 58),
        (1, 0.001, 1),
    ],
)
def test_time_limit_is_that_of_all_windows_and_a_fifth(
    tmp_path: Path, windows: int, window_seconds: float, minutes: int
) -> None:
    study = read_study(study_of(tmp_path))
    changed(study.configuration_path, ('<max-time-windows value="1000"', f'<max-time-windows value="{windows}"'))

    limit = production_time_limit(read_configuration(study.configuration_path), window_seconds)

    assert limit.minutes == minutes


def test_time_limit_counts_windows_until_max_time(tmp_path: Path) -> None:
    study = read_study(study_of(tmp_path))
    # 200 windows of 1 s of coupled time: 200 x 3 s x 1.2 = 720 s.
    changed(study.configuration_path, ('<max-time-windows value="1000"', '<max-time value="200"'))

    assert production_time_limit(read_configuration(study.configuration_path), 3.0).minutes == 12


def test_time_limit_is_unknown_if_the_number_of_windows_is(tmp_path: Path) -> None:
    study = read_study(study_of(tmp_path))
    changed(
        study.configuration_path,
        ("<coupling-scheme:parallel-explicit>", "<coupling-scheme:serial-explicit>"),
        ("</coupling-scheme:parallel-explicit>", "</coupling-scheme:serial-explicit>"),
        ('<max-time-windows value="1000"', '<max-time value="20"'),
        ('<time-window-size value="1"', '<time-window-size value="-1" method="first-participant"'),
    )

    limit = production_time_limit(read_configuration(study.configuration_path), 3.0)

    assert limit.minutes is None
    assert limit.reason == "precice-config.xml does not say how many time windows there are"


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (("--time=5",), ()),
        (("--time 5 --mem=1G", "-t5"), ("--mem=1G",)),
        (("--time-min=1", "--partition=cpu"), ("--partition=cpu",)),
        (("--time=9",), ("--time=9",)),
    ],
)
def test_time_limits_of_calibration_runs_are_left_out(options: tuple[str, ...], kept: tuple[str, ...]) -> None:
    assert without_time(options, stated=["--time=9"]) == kept


def test_job_script_has_the_limit_of_production_alone(tmp_path: Path) -> None:
    study = read_study(study_of(tmp_path))

    write_scripts(study, {"Left": 1, "Right": 1}, tmp_path / "launch", window_seconds=2.85)

    script = tmp_path / "launch" / "job.sbatch"
    assert times(script) == ["--time=57"]
    assert "--account=a1" in headers(script)
    assert "\n# Time limit: 1000 time windows of at most 2.85 s, and a fifth more\n" in script.read_text()
    assert missing_limit(script) == ""


def test_each_component_of_a_job_has_the_limit_of_production(tmp_path: Path) -> None:
    study = read_study(study_of(tmp_path, right='options = ["--time=1 --partition=gpu"]'))

    write_scripts(study, {"Left": 1, "Right": 1}, tmp_path / "launch", window_seconds=2.85)

    script = tmp_path / "launch" / "job.sbatch"
    assert times(script) == ["--time=57", "--time=57"]
    assert "--partition=gpu" in headers(script)


def test_job_script_says_that_it_has_no_time_limit(tmp_path: Path) -> None:
    study = read_study(study_of(tmp_path))

    write_scripts(study, {"Left": 1, "Right": 1}, tmp_path / "launch", window_seconds=math.nan)

    script = tmp_path / "launch" / "job.sbatch"
    assert times(script) == []
    assert missing_limit(script) == (
        f"job.sbatch asks for no time limit: {NO_BOUND}; submit with sbatch --time=HH:MM:SS"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["--time=57"]),
        (("--split", "Left=3,Right=1"), ["--time=57"]),
        (("--split", "Left=2,Right=1"), []),
        (("--set", "launcher.options=['--time=01:00:00']"), ["--time=01:00:00"]),
    ],
)
def test_launch_of_a_study_takes_the_window_time_of_the_recommendation(
    arguments: tuple[str, ...], expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = study_of(tmp_path)
    campaign = tmp_path / "study-campaign"
    campaign.mkdir()
    write_recommended_split(campaign, {"Left": 3, "Right": 1}, {"interval": [1.0, 2.85]})

    assert main(["launch", "--study", str(study), *arguments]) == 0

    assert times(campaign / "launch" / "job.sbatch") == expected
    assert (NO_BOUND in capsys.readouterr().out) == (not expected)


@pytest.mark.parametrize(("slurm", "expected"), [(["time=01:00:00"], ["--time=01:00:00"]), (["account=a1"], [])])
def test_launch_takes_the_time_limit_of_the_command_line(
    slurm: list[str],
    expected: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study_of(tmp_path)
    monkeypatch.chdir(tmp_path / "case")
    options = [word for option in slurm for word in ("--slurm", option)]

    assert main(["launch", "--split", "Left=1,Right=1", *options, "--", "true", ":", "true"]) == 0

    assert times(tmp_path / "case" / "launch" / "job.sbatch") == expected
    lines = capsys.readouterr().out.splitlines()
    assert (NO_BOUND in lines[-2]) == (not expected)
    assert lines[-1] == "nothing was started; start it: sbatch ./launch/job.sbatch"
