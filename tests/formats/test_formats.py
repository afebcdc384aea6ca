"""Files of today's formats are read with what is in them, by the doors that users take: tests/data/formats."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from archive_helpers import DATA, unpack

from precice_lb.campaign import read_study
from precice_lb.cli import main
from precice_lb.dataset import load_runs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STORES = ["rank", "spool", "merged"]


@pytest.fixture
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Stores of the format that the test is given."""
    return unpack(f"formats/{request.param}.zip", tmp_path)


def result(*arguments: str | Path, code: int = 0) -> Any:
    """What a command says as JSON, which it writes beside its first source."""
    path = Path(arguments[1]).with_suffix(".json")
    assert main([*map(str, arguments), "--format", "json", "--output", str(path)]) == code
    return json.loads(path.read_text())


def table(source: Path) -> list[dict[str, str]]:
    """Rows of ``precice-lb export --format csv``."""
    path = source.with_suffix(".csv")
    assert main(["export", str(source), "--format", "csv", "-o", str(path)]) == 0
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("stores", STORES, indirect=True)
def test_every_call_is_read(stores: Path) -> None:
    measured = {
        (row["participant"], *(int(row[key]) for key in ("rank", "window", "iteration")), row["quantity"]): row
        for row in table(stores)
    }
    assert len(measured) == 3 * 4 * 2 * 5  # ranks, windows, iterations, quantities
    for (who, rank, window, iteration, quantity), row in measured.items():
        factor = 2 if who == "B" else 1
        wait = window / 100
        planted = {
            "solve": factor * (window / 10 + rank / 100 + iteration / 1000),
            "wait": wait,
            "mapping": 0.002,
            "overhead": 0.018,
            "advance": wait + 0.02,
        }
        assert float(row["seconds"]) == pytest.approx(planted[quantity], rel=1e-9)
        assert (row["run"], row["ranks"]) == ("planted", "1" if who == "B" else "2")
        assert (row["version"], row["threads"]) == (("gpu", "2") if who == "B" else ("", "1"))


@pytest.mark.parametrize("stores", STORES, indirect=True)
def test_what_a_run_says_of_itself_is_read(stores: Path) -> None:
    (run,) = load_runs([stores])
    assert (run.name, run.warmup_stated) == ("planted", 1)
    stated = {
        "backend": "embedded",
        "working_directory": "/planted",
        "command": "solver.py",
        "timing_source": "planted",
        "degrees_of_freedom": {"A": 1000, "B": 500},
        "parameters": {"level": 3},
        "finished": stores.name != "spool",
    }
    assert set(run.participants) == {"A", "B"}
    for name, part in run.participants.items():
        assert {key: part.metadata[key] for key in stated} == stated
        # Both iterations of each window, mean of the ranks.
        assert part.windows.tolist() == [1, 2, 3, 4]
        factor, more = (1, 0.013) if name == "A" else (2, 0.003)
        planted = [factor * (0.2 * w + more) + 2 * (w / 100 + 0.02) for w in part.windows]
        assert part.window_seconds.tolist() == pytest.approx(planted)


@pytest.mark.parametrize("stores", STORES, indirect=True)
def test_sections_and_meshes_are_read(stores: Path) -> None:
    (run,) = result("summary", stores, "--per-rank")
    for name, ranks in (("A", 2), ("B", 1)):
        part = run["participants"][name]
        # Once a window: 10 ms and 20 ms.
        assert part["sections_per_rank"] == {
            "assemble": pytest.approx([0.01] * ranks),
            "solve: Ω": pytest.approx([0.02] * ranks),
        }
        assert [rank["interface_vertices"] for rank in part["per_rank"]] == [4] * ranks
    directory = stores.parent / "partners"
    assert main(["partners", str(stores), "-o", str(directory), "--format", "json"]) == 0
    links = {link["mesh"]: link for link in json.loads((directory / "partners.json").read_text())["links"]}
    # A square each: the second of A begins where the first, which is that of B, ends.
    assert {mesh: link["mesh_vertices"] for mesh, link in links.items()} == {"A-Mesh": 8, "B-Mesh": 4}
    assert {mesh: link["level_2_pairs"] for mesh, link in links.items()} == {"A-Mesh": 2, "B-Mesh": 2}


@pytest.mark.parametrize("stores", STORES, indirect=True)
def test_counts_guesses_and_time_in_mpi_are_read(stores: Path) -> None:
    (run,) = result("summary", stores, "--per-rank")
    for name, cells in (("A", [100, 101]), ("B", [100])):
        part = run["participants"][name]
        assert part["counts_per_rank"] == {"cells": cells, "porous": [7] * len(cells)}
        assert [rank["mpi_seconds"] for rank in part["per_rank"]] == pytest.approx([0.01] * len(cells))
    assert list(run["facts"]) == ["first guess of A", "first guess of B"]
    assert all(fact.startswith("linear in 3 windows, 2 iterations; cost ") for fact in run["facts"].values())


def law(participant: str, ranks: int) -> float:
    """Seconds of the pulse: those of tutorials/pulse/law.json when it was run."""
    work, surface = {"Inner": (1.8, 0.09), "Outer": (0.6, 0.05)}[participant]
    return 0.005 + work / ranks + surface / ranks**0.5 + 0.006 * math.log2(ranks)


def test_a_campaign_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = unpack("runs/pulse.zip", tmp_path)
    # Without an option: budget, parameters and degrees of freedom are those of the study.
    assert main(["recommend", str(campaign), "--format", "json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["total_ranks"], values["parameters"]) == (6, {"refine": 1})
    assert values["alternatives"]["degrees-of-freedom"]["split"] == {"Inner": 2, "Outer": 4}
    # Worth their ranks: 4 and 2, by the law 0.512 s.
    assert values["split"] == {"Inner": 4, "Outer": 2}
    measured = {tuple(run["split"].items()): run["measured"] for run in values["comparisons"]}
    splits = [{"Inner": 4, "Outer": 1}, {"Inner": 2, "Outer": 2}, {"Inner": 3, "Outer": 3}]
    assert measured == {
        tuple(split.items()): pytest.approx(max(law(*count) for count in split.items()), rel=0.03) for split in splits
    }


@pytest.mark.parametrize("name", ["study", "versions"])
def test_every_key_of_a_study_is_read(name: str) -> None:
    path = DATA / "formats" / "study" / f"{name}.toml"
    written = tomllib.loads(path.read_text())

    study = read_study(path)

    read = study.model_dump(mode="json", exclude={"launcher"})
    read["launcher"] = {}
    for key in written["launcher"]:
        value = getattr(study.launcher, key)
        read["launcher"][key] = list(value) if isinstance(value, tuple) else value
    assert _subset(read, written) == written


def _subset(read: Any, written: Any) -> Any:
    """What was read of the keys that were written."""
    if isinstance(written, dict):
        return {key: _subset(read[key], value) for key, value in written.items()}
    if isinstance(written, list):
        return [_subset(one, other) for one, other in zip(read, written, strict=True)]
    return read
