"""The start-up model: what it counts, constants fitted to measured start-ups, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from precice_lb.cli import main
from precice_lb.exceptions import DataError
from precice_lb.partners import (
    CostModel,
    StartUpCounts,
    fit_constants,
    measured_start_up,
    read_constants,
    read_start_up_runs,
)
from precice_lb.partners.start_up import FITTED, start_up

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import start_up as benchmark

TRUE = CostModel(latency=2e-4, turn=6e-3, file=0.02, vertex=4e-6, copy=3e-7)


def counts(generator: np.random.Generator, cores: int | None) -> StartUpCounts:
    provider, receiver = (int(each) for each in generator.integers(2, 40, 2))
    whole, own = (int(10**each) for each in generator.uniform(3, 5.5, 2))
    most = 2 * whole // receiver
    return StartUpCounts(
        two_level=bool(generator.random() < 0.5),
        ranks=(provider, receiver),
        vertices=(whole, own),
        most_own=max(whole // provider, own // receiver),
        partners=int(generator.integers(1, provider + 1)),
        received=int(generator.integers(whole, most * receiver)),
        most_received=most,
        kept=whole,
        cores=cores,
    )


def test_a_model_counts_steps_vertices_and_files_as_stated() -> None:
    ones = CostModel(latency=1.0, turn=100.0, file=0.0, vertex=0.0, copy=0.0)
    case = StartUpCounts(
        two_level=False, ranks=(4, 8), vertices=(1000, 600), most_own=300, partners=3, received=2000, most_received=500,
        kept=1200, cores=4,
    )  # fmt: skip
    one = start_up(case, ones)
    # Twelve ranks on four cores wait for two others on their core, eight of the receiver for one.
    assert one.parts["connect primary ranks"] == 4 * (1 + 2 * 100)
    assert one.parts["settle owners"] == 8 * (1 + 100)
    assert one.parts["broadcast distributions"] == 12 * (1 + 2 * 100)
    assert one.primary_bytes == one.rank_bytes == 1000 * 72 + 2200 * 4
    two = start_up(dataclasses.replace(case, two_level=True), ones)
    assert two.seconds == one.seconds - one.parts["broadcast distributions"]
    assert two.rank_bytes == 4 * ones.box_bytes + 500 * ones.vertex_bytes
    assert two.primary_bytes == two.rank_bytes + 8 * ones.box_bytes
    vertices = CostModel(latency=0.0, turn=0.0, file=10.0, vertex=1.0, copy=0.1)
    one, two = (start_up(dataclasses.replace(case, two_level=each), vertices) for each in (False, True))
    assert one.parts["set up own vertices"] == two.parts["set up own vertices"] == 1600 / 4
    assert one.parts["gather and send the mesh"] == 2000
    assert one.parts["broadcast the mesh"] == pytest.approx(0.1 * 1000 * 2)
    assert one.parts["broadcast distributions"] == pytest.approx(0.1 * 2200 * 3)
    assert two.parts["exchange pieces"] == pytest.approx(0.1 * 500)
    assert (one.parts["connect"], two.parts["connect"]) == (110, 80)
    # With a core for every rank nobody waits for a turn, and the rank with most vertices decides.
    alone = start_up(dataclasses.replace(case, cores=None), ones)
    assert alone.seconds == 4 + 8 + 12
    assert start_up(dataclasses.replace(case, cores=None), vertices).parts["set up own vertices"] == 300


def test_planted_constants_come_back() -> None:
    generator = np.random.default_rng(3)
    runs = []
    for cores in [2, 4, None] * 40:
        case = counts(generator, cores)
        runs.append(((case,), start_up(case, TRUE).seconds * float(np.exp(generator.normal(0.0, 0.03)))))
    fit = fit_constants(runs)
    assert fit.fitted == FITTED
    for name in FITTED:
        assert getattr(fit.model, name) == pytest.approx(getattr(TRUE, name), rel=0.2), name
    assert np.median(fit.factors(fit.estimated)) < np.median(fit.factors(fit.left_out)) < 1.04
    # Several received meshes add up.
    doubled = fit_constants([((case, case), 2 * seconds) for (case,), seconds in runs])
    assert doubled.model.turn == pytest.approx(fit.model.turn)


def test_constants_that_no_run_tells_stay_defaults() -> None:
    generator = np.random.default_rng(4)
    for cores, missing in ((2, "latency"), (None, "turn")):
        cases = [counts(generator, cores) for _ in range(20)]
        fit = fit_constants([((case,), start_up(case, TRUE).seconds) for case in cases])
        assert set(FITTED) - set(fit.fitted) == {missing}
        assert getattr(fit.model, missing) == getattr(CostModel(), missing)
        assert not fit.model.is_default


def test_measured_start_ups_are_foretold_from_others() -> None:
    """libprecice 3.4.1, 2 cores: fitted to 36 cases, 50 others; see benchmarks/README.md."""
    rows = benchmark.read_rows(benchmark.DATA)
    local = [row for row in rows if not row.delay]
    model = benchmark.fit([row for row in local if row.case < 2000])
    others = benchmark.judge([row for row in local if 2000 <= row.case < 3000], model)
    assert others.cases == 50
    assert others.ordered >= 45
    off = np.exp(np.abs(np.log(others.ratios)))
    assert (off <= 2).sum() >= 95
    assert np.median(off) < 1.25
    # Fitted on two cores, asked for one.
    one_core = benchmark.judge([row for row in local if row.case >= 3000], model)
    assert (np.exp(np.abs(np.log(one_core.ratios))) <= 2).sum() >= 0.9 * len(one_core.ratios)
    # The defaults are these constants.
    for name in ("turn", "vertex"):
        assert getattr(CostModel(), name) == pytest.approx(getattr(model, name), rel=0.15), name


def test_a_slow_exchange_directory_is_told_from_slow_ranks() -> None:
    rows = benchmark.read_rows(benchmark.DATA)
    model = benchmark.fit([row for row in rows if row.delay == 0.02])
    assert model.file == pytest.approx(0.02, rel=0.25)
    local = benchmark.fit([row for row in rows if row.case < 2000])
    assert local.file < 0.005
    assert model.turn == pytest.approx(local.turn, rel=0.2)


def test_one_level_is_faster_where_files_are_slow_and_boxes_connect_too_many() -> None:
    """Constants of a fast file system, but for the delay that was planted: real runs of which either scheme wins."""
    rows = benchmark.read_rows(benchmark.DATA)
    model = dataclasses.replace(benchmark.fit([row for row in rows if row.case < 2000]), file=0.5)
    slow = benchmark.judge([row for row in rows if row.delay == 0.5], model)
    assert slow.cases == 20
    assert 6 <= slow.two_level_faster <= 14
    assert slow.ordered >= 18
    assert np.exp(np.abs(np.log(slow.ratios))).max() < 1.5


def test_too_few_or_wrong_runs_are_refused() -> None:
    generator = np.random.default_rng(5)
    runs = [((counts(generator, 2),), 1.0) for _ in range(4)]
    with pytest.raises(DataError, match="expected at least 5 runs to fit 4 constants"):
        fit_constants(runs)
    with pytest.raises(DataError, match="more than 0 seconds"):
        fit_constants([*runs[:3], (runs[3][0], 0.0)])


def _write_run(directory: Path, number: int, ranks: tuple[int, int], *, two_level: bool, waiting: float) -> Path:
    """A run of the model's own: exports, and profiling files whose start-up takes what the model says."""
    case = dataclasses.replace(benchmark.Case.draw(number), ranks=ranks, vertices=(700 + 90 * number, 900))
    meshes = case.meshes()
    place = directory / f"run-{number}"
    (place / "exports").mkdir(parents=True)
    (place / "precice-profiling").mkdir()
    (place / "precice-config.xml").write_text(case.configuration(two_level=two_level))
    for mesh in meshes.values():
        points = mesh.points("")
        for rank, (begin, end) in enumerate(zip(mesh.offsets[:-1], mesh.offsets[1:], strict=True)):
            names = ["PosX", "PosY", "PosZ"][: case.dimensions]
            lines = [";".join(f"{value:.6g}" for value in point) + f";{rank};0" for point in points[begin:end]]
            text = "\n".join([";".join([*names, "Rank", "Heat"]), *lines]) + "\n"
            (place / "exports" / f"{mesh.name}-{mesh.participant}.{rank}_init.csv").write_text(text)
    seconds = start_up(benchmark.count(case, meshes, 2)[two_level], TRUE).seconds
    for name, size, waits in (("A", ranks[0], waiting), ("B", ranks[1], 0.0)):
        for rank in range(size):
            _write_profile(place / "precice-profiling", name, rank, size, seconds=seconds, waits=waits)
    return place


def _write_profile(folder: Path, name: str, rank: int, size: int, *, seconds: float, waits: float) -> None:
    """Connecting takes a tenth of the start-up, first data and exports come after it."""
    head = {"name": name, "rank": rank, "size": size, "unix_us": "1000", "tinit": "", "mode": "all"}
    events = ["_GLOBAL", "initialize", "connectPrimaries", "repartitioning", "initalizeCouplingScheme", "handleExports"]
    own = round(1e6 * seconds * (1.0 if rank == size - 1 else 0.8))
    wait, tenth = round(1e6 * waits), round(1e5 * seconds)
    connected = wait + tenth
    ready = wait + own
    records = [f"N{number}:{event}" for number, event in enumerate(events)]
    records += ["B0:0", "B1:0", "B2:0", f"E2:{connected}", f"B3:{connected}", f"E3:{ready}", f"B4:{ready}"]
    records += [f"E4:{ready + 500_000}", f"B5:{ready + 500_000}", f"E5:{ready + 900_000}", f"E1:{ready + 900_000}"]
    text = "\n".join([json.dumps(head | {"compression": False, "file_version": 2}), *records]) + "\n"
    (folder / f"{name}-{rank}-{size}.txt").write_text(text)


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    splits = [(2, 2), (3, 5), (6, 4), (8, 3), (4, 9), (12, 2), (2, 12)]
    return [
        _write_run(tmp_path / "runs", number, ranks, two_level=number % 2 == 0, waiting=number * 0.3)
        for number, ranks in enumerate(splits)
    ]


def test_constants_are_fitted_written_and_read(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "constants.json"
    command = ["partners", *map(str, runs), "--fit-constants", str(file), "--cores", "2"]
    assert main(command) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "7 runs within a factor of 1.0" in shown
    assert "default: no run tells it" in shown
    told = json.loads(file.read_text())
    # The exports round coordinates, and a vertex on the edge of a box may be in or out.
    assert told["largest_factor"] < 1.02
    model = read_constants(file)
    assert model.turn == pytest.approx(TRUE.turn, rel=0.1)
    assert model.file == pytest.approx(TRUE.file, rel=0.1)
    analysed = ["partners", str(runs[1] / "exports"), "--config", str(runs[1] / "precice-config.xml"), "--cores", "2"]
    assert main([*analysed, "--constants", str(file), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["cost_model_warning"] is None
    assert report["links"][0]["one_level"]["seconds"] == pytest.approx(told["runs"][1]["estimated"])
    assert main([*analysed, "--constants", str(file), "--constants", "file=7", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost_model"] == told["constants"] | {"file": 7.0}


def test_default_constants_are_warned_of(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["partners", str(runs[0] / "exports"), "--config", str(runs[0] / "precice-config.xml")]
    assert main(command) == 0
    assert "default constants" in " ".join(capsys.readouterr().out.split())
    assert main([*command, "--format", "json"]) == 0
    assert "--fit-constants" in json.loads(capsys.readouterr().out)["cost_model_warning"]
    assert main([*command, "--constants", "vertex=1e-6"]) == 0
    assert "default constants" not in capsys.readouterr().out


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["partners", *map(str, arguments)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("precice-lb: error: ")
    assert told.err.count("\n") == 1
    return told.err


def test_runs_that_do_not_fit_are_refused(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "constants.json"
    fit = (*runs, "--fit-constants", file, "--cores", "2")
    assert "directories of several runs, found 1" in _refused(capsys, runs[0], "--fit-constants", file)
    assert "at least 5 runs" in _refused(capsys, *runs[:3], "--fit-constants", file, "--cores", "2")
    assert "at least 1 core" in _refused(capsys, *runs, "--fit-constants", file, "--cores", "0")
    profile = runs[2] / "precice-profiling" / "A-1-6.txt"
    kept = profile.read_text()
    profile.write_text(kept.replace('"all"', '"fundamental"'))
    assert 'expected <profiling mode="all"/>, found mode="fundamental"' in _refused(capsys, *fit)
    profile.write_text(kept[: kept.index("E1")])
    assert "expected a whole initialize" in _refused(capsys, *fit)
    profile.unlink()
    assert "expected profiling files of all 6 ranks of A" in _refused(capsys, *fit)
    profile.write_text(kept)
    settings = runs[3] / "precice-config.xml"
    settings.rename(tmp_path / "elsewhere.xml")
    assert "expected the precice-config.xml" in _refused(capsys, *fit)
    (tmp_path / "elsewhere.xml").rename(settings)
    (runs[4] / "exports").rename(tmp_path / "exports")
    assert "expected the meshes of the run" in _refused(capsys, *fit)
    shutil.copytree(runs[3] / "exports", runs[4] / "exports")
    assert "meshes and profiling files of the same ranks" in _refused(capsys, *fit)
    far = runs[4] / "exports"
    for path in far.glob("A-Mesh*"):
        path.unlink()
    assert 'expected mesh "A-Mesh" of A' in _refused(capsys, *fit)
    assert not file.exists()


def test_ranks_without_a_pair_are_refused(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for path in (runs[0] / "exports").glob("A-Mesh*"):
        lines = path.read_text().splitlines()
        path.write_text("\n".join([lines[0], *(f"9{line}" for line in lines[1:])]) + "\n")
    with pytest.raises(DataError, match="found no pair"):
        read_start_up_runs(runs[:1])


def test_a_wrong_file_of_constants_is_refused(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (runs[0] / "exports", "--config", runs[0] / "precice-config.xml", "--constants")
    file = tmp_path / "constants.json"
    assert "FileNotFoundError" in _refused(capsys, *command, file)
    file.write_text('{"format": "another", "format_version": 1, "constants": {}}')
    assert 'expected "format": "precice-lb-start-up"' in _refused(capsys, *command, file)
    for constants in ({"speed": 1.0}, {"turn": -1.0}):
        told = {"format": "precice-lb-start-up", "format_version": 1, "constants": constants}
        file.write_text(json.dumps(told))
        assert "expected numbers of at least 0" in _refused(capsys, *command, file)


def _measured_run(place: Path, binary: Path, case: benchmark.Case, *, two_level: bool) -> float:
    place.mkdir()
    benchmark.write_meshes(case.meshes(), place)
    cores = len(benchmark.os.sched_getaffinity(0))
    return benchmark.run(case, place, binary, two_level=two_level, cores=cores, delay=0.0)


@pytest.mark.precice
@pytest.mark.mpi
@pytest.mark.slow("seven runs of libprecice")
def test_constants_are_fitted_to_runs_of_libprecice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    export = '<export:csv directory="exports"/>'
    text = benchmark.CONFIGURATION.replace("<provide-mesh", f"{export}<provide-mesh")
    monkeypatch.setattr(benchmark, "CONFIGURATION", text)
    binary = benchmark.compile_client(tmp_path)
    places = []
    for number, ranks in enumerate([(2, 2), (3, 2), (2, 4), (4, 4), (6, 3), (3, 8), (8, 2)]):
        case = dataclasses.replace(benchmark.Case.draw(number), ranks=ranks, vertices=(2000 * 2**number, 5000))
        places.append(tmp_path / f"run-{number}")
        _measured_run(places[-1], binary, case, two_level=number % 2 == 0)
    command = ["partners", *map(str, places), "--fit-constants", str(tmp_path / "constants.json"), "--format", "json"]
    assert main([*command, "--cores", "2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["median_factor"] < 2
    assert [run["scheme"] for run in told["runs"]] == ["two levels", "one level"] * 3 + ["two levels"]


@pytest.mark.precice
@pytest.mark.mpi
def test_a_run_of_libprecice_is_read_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = benchmark.CONFIGURATION.replace("<provide-mesh", '<export:csv directory="exports"/><provide-mesh')
    monkeypatch.setattr(benchmark, "CONFIGURATION", text)
    case = dataclasses.replace(benchmark.Case.draw(3), ranks=(2, 3), vertices=(3000, 2000))
    place = tmp_path / "run"
    seconds = _measured_run(place, benchmark.compile_client(tmp_path), case, two_level=True)
    (run,) = read_start_up_runs([place], cores=2)
    (found,) = run.counts
    wanted = benchmark.count(case, case.meshes(), 2)[True]
    assert dataclasses.replace(found, kept=wanted.kept) == wanted
    assert found.kept == pytest.approx(wanted.kept, rel=0.01)
    assert run.ranks == {"A": 2, "B": 3}
    # Exports are a part of initialize, but not of the start-up; both participants begin it together here.
    assert run.seconds == pytest.approx(seconds, rel=0.4)
    assert seconds == max(parts["initialize"] for parts in measured_start_up([place]).values())
