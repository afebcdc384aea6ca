"""Samples of profiling files, laid out as runs leave them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from precice_lb.cli import main
from precice_lb.store.reader import find_stores, read_store
from precice_lb.store.records import RankFile

DATA = Path(__file__).parent / "data" / "profiling"


def case(directory: Path, run: str) -> Path:
    """Lay out a sample as a run leaves it."""
    folder = directory / "precice-profiling"
    folder.mkdir(parents=True)
    for path in (DATA / run).iterdir():
        shutil.copy(path, folder if path.suffix == ".txt" else directory)
    return directory


def report(directory: Path, name: str) -> Path:
    """Lay out what somebody reported."""
    return shutil.copytree(DATA.parent / "reports" / name, directory / name)


def followed(directory: Path, run: str) -> Path:
    """Lay out a sample whose configuration asks for the usual folder; return that folder."""
    text = (case(directory, run) / "precice-config.xml").read_text()
    (directory / "precice-config.xml").write_text(text.replace(' directory="prof"', ""))
    return directory / "precice-profiling"


def database(directory: Path, run: str) -> Path:
    """Lay out a merged sample with its configuration and logs beside it."""
    directory.mkdir(parents=True)
    path = directory / "profiling.db"
    path.write_bytes(gzip.decompress((DATA / "databases" / f"{run}.db.gz").read_bytes()))
    for other in (DATA / run).iterdir():
        if other.suffix != ".txt":
            shutil.copy(other, directory)
    return path


def imported(directory: Path) -> dict[str, RankFile]:
    """The stores below a directory by participant and rank."""
    stores = map(read_store, find_stores([directory]))
    return {f"{store.metadata['participant']}-{store.metadata['rank']}": store for store in stores}


def summaries(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    """What `summary` says of the runs there, as JSON."""
    assert main(["summary", *map(str, arguments), "--format", "json"]) == 0
    runs: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return runs


def summed_up(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """What it says of the one run there."""
    (run,) = summaries(capsys, *arguments)
    return run
