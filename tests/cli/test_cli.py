"""The command line as users call it: results on standard output, bad input in one line with exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from archive_helpers import unpack
from clock_helpers import emulated_clock
from optimum import best_split
from report_helpers import (
    compute_seconds,
    configuration,
    falling,
    precice_lb,
    recommended,
    refused,
    write_campaign,
    write_csv,
)

from precice_lb.campaign import Study
from precice_lb.cli import commands, main
from precice_lb.exceptions import PreciceLBError, TooFewRunsError

CLONE = Path(__file__).parents[2]
SPLITS = [{"Inner": 2, "Outer": 2}, {"Inner": 4, "Outer": 2}, {"Inner": 6, "Outer": 3}, {"Inner": 3, "Outer": 5}]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("stores")
    write_campaign(directory, SPLITS)
    return directory


# --- results -------------------------------------------------------------------------------------------------------


def test_json_is_the_only_thing_on_standard_output(stores: Path, tmp_path: Path) -> None:
    done = precice_lb("recommend", stores, "--ranks", 12, "--format", "json", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert sum(values["split"].values()) == 12

    def seconds(inner: int) -> float:
        return max(compute_seconds("Inner", inner), compute_seconds("Outer", 12 - inner))

    best = min(map(seconds, range(1, 12)))
    assert seconds(values["split"]["Inner"]) <= 1.02 * best
    assert json.loads((tmp_path / "recommendation.json").read_text()) == values
    assert done.stderr == f"wrote {tmp_path / 'recommendation.json'}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["recommendation.json"]


def test_a_terminal_that_cannot_show_a_name_still_gets_the_table(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "times.csv", {"内部": falling(1.0), "外部": falling(2.0)})
    done = precice_lb("recommend", path, "--ranks", 12, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert r"\u5185\u90e8" in done.stdout


def test_import_writes_a_table_that_recommend_reads_and_replaces_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = write_csv(tmp_path / "inner.csv", {"Inner": falling(2.0)})
    two = write_csv(tmp_path / "outer.csv", {"Outer": falling(1.0)})
    both = tmp_path / "both.csv"
    assert main(["import", "csv", str(one), str(two), "--output", str(both)]) == 0
    assert capsys.readouterr().out == f"wrote {both}: 10 samples of Inner, Outer\n"
    joined, apart = (recommended(capsys, *paths, "--ranks", "24") for paths in ([both], [one, two]))
    assert joined["split"] == apart["split"]
    assert "expected the name of a new file" in refused(capsys, "import", "csv", one, "--output", both)


def test_commands_load_no_library_that_they_do_not_use(tmp_path: Path) -> None:
    pulse = unpack("runs/pulse.zip", tmp_path)
    stores = str(pulse / "runs" / "003-Inner3-Outer3" / "stores")
    code = (
        "import sys; from precice_lb.cli import main;"
        f"done = [main(['--help']), main(['summary', {stores!r}]), main(['watch', {stores!r}, '--once']),"
        f" main(['recommend', {str(pulse)!r}, '--ranks', '6'])];"
        "heavy = {'matplotlib', 'sklearn', 'joblib', 'mpi4py', 'pandas', 'jinja2'} & set(sys.modules);"
        "sys.exit(str((done, heavy)) if any(done) or heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


# --- refusals ------------------------------------------------------------------------------------------------------


def test_refusals_are_one_line_and_exit_code_2_and_the_traceback_is_there_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(capsys, "summary", tmp_path / "nowhere")
    monkeypatch.setenv("PRECICE_LB_DEBUG", "1")
    with pytest.raises(PreciceLBError, match="nowhere"):
        main(["summary", str(tmp_path / "nowhere")])


def test_stores_of_two_cases_are_refused(stores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_campaign(tmp_path, SPLITS[:2], text=configuration(window=0.2))
    assert "one case" in refused(capsys, "recommend", stores, tmp_path, "--ranks", "12")


@pytest.mark.parametrize(("count", "form"), [(40, "table"), (1, "json")], ids=["long", "short"])
def test_a_reader_that_stops_early_is_no_error(stores: Path, count: int, form: str) -> None:
    command = [sys.executable, "-m", "precice_lb", "summary", *[str(stores)] * count, "--format", form]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read()
        assert (process.wait(300), complaint) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_short_output_that_a_full_disk_does_not_take_is_an_error(tmp_path: Path) -> None:
    """It is written at the end alone, as Python does unless it is told otherwise."""
    write_campaign(tmp_path, SPLITS[:1])
    command = [sys.executable, "-m", "precice_lb", "check", str(tmp_path), "--format", "json"]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=buffered, timeout=300)
    assert done.returncode == 2
    assert done.stderr == "precice-lb: error: [Errno 28] No space left on device\n"


# --- demo ----------------------------------------------------------------------------------------------------------


def test_the_demo_runs_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an editable installation the study is found in the source tree, which is no place for results."""
    places: list[Path] = []

    def recommended(study: Study, directory: Path, **_: object) -> None:
        places.append(directory.resolve())
        directory.mkdir(exist_ok=True)
        (directory / "recommendation.json").write_text('{"total_ranks": 16, "split": {"Inner": 11, "Outer": 5}}')

    monkeypatch.setattr(commands, "run_and_recommend", recommended)
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    assert main(["demo", "--directory", "there"]) == 0
    assert places == [tmp_path / "demo", tmp_path / "there"]
    # By hand: the law gives Inner 0.2025 s on 12 ranks and 0.2165 s on 11, and Outer less.
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "The load of this demo is emulated: every rank sleeps for what the cost law in there/case/law.json says; no "
        "hardware is measured.",
        "By the law of the emulated load the best split is Inner 12, Outer 4 ranks: 0.2025 s per window.",
        "The recommended one, Inner 11, Outer 5 ranks, takes 6.9 % longer by that law.",
    ]


def test_a_demo_of_which_too_few_runs_ended_well_ends_with_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise TooFewRunsError("every run failed")

    monkeypatch.setattr(commands, "run_and_recommend", failing)

    assert main(["demo", "--directory", str(tmp_path / "there")]) == 1

    assert capsys.readouterr().err.endswith("precice-lb: error: every run failed\n")


@pytest.mark.mpi
def test_calibrate_measures_recommends_and_judges(
    tmp_path: Path, mpiexec: str, capfd: pytest.CaptureFixture[str]
) -> None:
    clock = emulated_clock({"PYTHONPATH": os.environ.get("PYTHONPATH", "")})
    keys = {"runs.windows": 5, "runs.warmup_windows": 1, "runs.maximum": 3, "machine.ranks": 4}
    keys |= {"runs.time_limit_seconds": 300, "participants.Inner.minimum_ranks": 1}
    keys |= {f"case.environment.{name}": json.dumps(text) for name, text in clock.items()}
    case, study = CLONE / "tutorials" / "pulse", CLONE / "configs" / "pulse.toml"
    more = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    campaign = tmp_path / "campaign"
    command = ["calibrate", str(study), "--directory", str(campaign), *more]
    assert main(command) == 0
    done = capfd.readouterr()
    assert done.out.startswith("Give Inner ")
    assert len((done.out + done.err).splitlines()) <= 25
    assert "run 3 of 3: Inner" in done.err
    assert "run 3 of 3: finished" in (campaign / "campaign.log").read_text()
    assert "\\x1b" not in done.out + done.err
    values = json.loads((campaign / "recommendation.json").read_text())
    assert sum(values["split"].values()) == 4
    assert best_split(case, values)[2] <= 0.05
    assert best_split(case, {**values, "split": values["alternatives"]["degrees-of-freedom"]["split"]})[2] >= 0.2
    assert done.out.splitlines()[-1].endswith(f"page: {campaign / 'report' / 'report.html'}")
    assert main(command) == 0
    again = capfd.readouterr()
    assert again.out == done.out
    assert "3 finished before" in again.err
