"""``precice-lb guess try``: a plain run and one with each predictor, over the same windows, whatever single ones do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from calibrate_helpers import CONFIGURATION, write_case, write_study
from record_helpers import environment

from precice_lb.cli import main
from precice_lb.store.reader import read_runs

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
IMPLICIT = (
    CONFIGURATION.replace("parallel-explicit", "parallel-implicit")
    .replace('<exchange data="Heat"', '<max-iterations value="50" />\n    <exchange data="Heat"')
    .replace(
        "  </coupling",
        '    <relative-convergence-measure limit="1e-3" data="Heat" mesh="A-Mesh" />\n'
        '    <relative-convergence-measure limit="1e-3" data="Flux" mesh="B-Mesh" />\n  </coupling',
    )
)
# Leaves what a recorder and preCICE would leave: 10 iterations per window of 0.1 s each, fewer with a guess.
SOLVER = f"""\
import os, pathlib, sys
sys.path.insert(0, {str(TESTS)!r})
from store_helpers import row, write_store

name, guess = sys.argv[1], os.environ.get("PRECICE_LB_GUESS")
with open({{log!r}}, "a") as file:
    file.write(f"{{{{guess}}}} {{{{name}}}}\\n")
text = pathlib.Path("precice-config.xml").read_text()
assert ("Guess-of-Heat" in text) == (guess is not None)
assert pathlib.Path("developed").read_text() == "yes"
if guess == "periodic" and name == "Right":
    sys.exit("FATAL: no period found")
if guess == "reduced" and pathlib.Path({{wait!r}}).exists():
    import time
    time.sleep(600)
count = {{{{None: 10, "linear": 8, "reduced": 5}}}}.get(guess, 10)
rows, log = [], "  TimeWindow  TotalIterations  Iterations  Convergence"
for window in range(1, 31):
    for iteration in range(1, count + 1):
        rows.append(row(window, 0.06, 0.04, 0.01, iteration=iteration, complete=iteration == count))
    log += f"\\n  {{{{window:10}}}}  {{{{window * count:15}}}}  {{{{count:10}}}}  {{{{int(window != 7):11}}}}"
if name == "Right":
    pathlib.Path("precice-Right-iterations.log").write_text(log)
write_store(pathlib.Path(os.environ["PRECICE_LB_DIR"]), rows, name, configuration=text)
"""


def study(directory: Path) -> Path:
    """Write a study of that case, with its developed state; return it."""
    case = write_case(directory, SOLVER.format(log=str(directory / "log"), wait=str(directory / "wait")))
    (case / "precice-config.xml").write_text(IMPLICIT)
    (directory / "restart").mkdir()
    (directory / "restart" / "developed").write_text("yes")
    path = write_study(directory, runs="splits = [{Left=1, Right=1}, {Left=2, Right=1}]")
    path.write_text(path.read_text().replace('directory = "case"\n', 'directory = "case"\nrestart = "restart"\n', 1))
    return path


def started(directory: Path) -> list[str]:
    """Tell with which guess participants were started, in order, each once per run."""
    lines = (directory / "log").read_text().splitlines()
    return [line.split()[0] for line in lines if line.endswith("Left")]


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
def test_each_guess_gets_a_run_and_one_that_fails_ends_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = study(tmp_path)
    words = ["guess", "try", str(path), "--predictors", "linear,periodic,reduced", "--windows", "30"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert started(tmp_path) == ["None", "linear", "periodic", "reduced"]
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert lines["none"] == ["none", "10.00", "300", "–", "1.000", "–", "1"]
    assert " ".join(lines["linear"]) == "linear 8.00 240 -20.0 ± 0.0 0.800 -20.0 ± 0.0 1"
    assert lines["reduced"][:6] == ["reduced", "5.00", "150", "-50.0", "±", "0.0"]
    assert "periodic failed: Right ended with exit code 1: Right: FATAL: no period found" in out
    patched = tmp_path / "study-guess" / "precice-config.xml"
    assert out.splitlines()[-1].startswith(
        f"Set PRECICE_LB_GUESS=reduced for all participants, with {patched} as their configuration: "
    )
    # Only the one that failed is tried again.
    assert main([*words, "--format", "json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert started(tmp_path)[4:] == ["periodic"]
    assert [each["iterations"] for each in values["runs"]] == [300, 240, None, 150]
    assert [each["not_converged"] for each in values["runs"]] == [1, 1, None, 1]
    assert values["recommended"] == "reduced"
    assert values["split"] == {"Left": 1, "Right": 1}
    assert values["windows"] == 30


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
@pytest.mark.slow("three real runs")
def test_an_interrupted_comparison_goes_on(tmp_path: Path) -> None:
    path = study(tmp_path)
    (tmp_path / "wait").touch()
    command = [sys.executable, "-m", "precice_lb", "guess", "try", str(path), "--predictors", "linear,reduced"]
    command += ["--windows", "30", "--split", "Left=1,Right=1", "-o", str(tmp_path / "out")]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 300
        while not (tmp_path / "log").exists() or "reduced" not in started(tmp_path):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, said
    (tmp_path / "wait").unlink()
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Set PRECICE_LB_GUESS=reduced" in done.stdout
    assert started(tmp_path) == ["None", "linear", "reduced", "reduced"]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["guess", "try", *words]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    return err


def test_what_cannot_be_compared_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(study(tmp_path))
    assert "--windows, --warmup: expected more windows than 2 of warm-up" in refused(capsys, path, "--windows", "2")
    assert "expected at most the 4 ranks of the budget" in refused(capsys, path, "--split", "Left=4,Right=1")
    assert "no ranks for participant 'Right'" in refused(capsys, path, "--split", "Left=4")
    assert "--predictors: expected" in refused(capsys, path, "--predictors", "linear,cubic")
    monkeypatch.setenv("PRECICE_LB_GUESS", "linear")
    assert "expected none in the environment" in refused(capsys, path)
    monkeypatch.delenv("PRECICE_LB_GUESS")
    (tmp_path / "case" / "precice-config.xml").write_text(CONFIGURATION)
    refused(capsys, path)
    assert not (tmp_path / "log").exists()
    assert not os.path.exists(tmp_path / "study-guess" / "none")


@pytest.mark.mpi
@pytest.mark.usefixtures("mpiexec")
def test_a_real_pair_is_run_with_each_guess(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "configs" / "elastic-tube.toml").read_text()
    for old, new in (
        ('directory = "../tutorials/elastic-tube"', f'directory = "{ROOT / "tutorials" / "elastic-tube"}"'),
        (" --load emulated", ""),
        ('[emulation]\nlaw = "law.json"\n', ""),
        ("minimum_ranks = 2\n", ""),
        ("time_limit_seconds = 120", "time_limit_seconds = 600"),
    ):
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "tube.toml"
    path.write_text(text)
    words = ["guess", "try", str(path), "--predictors", "hold,linear", "--windows", "40", "--warmup", "10"]
    assert main([*words, "--split", "Fluid=1,Solid=1", "--format", "json"]) == 0
    values = json.loads(capsys.readouterr().out)
    plain, hold, linear = values["runs"]
    assert [each["not_converged"] for each in values["runs"]] == [0, 0, 0]
    assert [each["windows"] for each in values["runs"]] == [30, 30, 30]
    # The last value is preCICE's own guess.
    assert abs(hold["iterations"] - plain["iterations"]) <= 0.03 * plain["iterations"]
    assert linear["iterations"] > 40
    told = [
        {str(store.metadata.get("guess")) for runs in read_runs([each["directory"]]) for run in runs for store in run}
        for each in values["runs"]
    ]
    assert told == [{"None"}, {"hold"}, {"linear"}]
