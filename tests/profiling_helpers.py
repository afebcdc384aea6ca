"""Samples of profiling files, laid out as runs leave them."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from profiling_peer import differences, event_totals, totals_of

from precice_lb.cli import main
from precice_lb.store import RankFile, find_stores, read_store

__all__ = ["differences", "event_totals", "totals_of"]
DATA = Path(__file__).parent / "data" / "profiling"


def to_json(text: str) -> str:
    """Write a text file as preCICE 3.2 would have written it (its src/profiling/EventUtils.cpp)."""
    lines = text.splitlines(keepends=True)
    meta = json.loads(lines[0])
    known = [key for key in ("name", "rank", "size", "unix_us", "tinit", "mode") if key in meta]
    fields = ",\n".join(f'  "{key}": "{meta[key]}"' for key in known)
    records = []
    for line in lines[1:]:
        kind, parts = line[0], line[1:].rstrip("\n").split(":")
        if kind == "N":
            records.append(f'{{"et":"n","en":"{line.partition(":")[2].rstrip()}","eid":{parts[0]}}}')
        elif kind == "D":
            records.append(f'{{"et":"d","eid":{parts[0]},"ts":{parts[1]},"dn":{parts[2]},"dv":"{parts[3]}"}}')
        else:
            records.append(f'{{"et":"{kind.lower()}","eid":{parts[0]},"ts":{parts[1]}}}')
    return '{\n  "meta":{\n' + fields + '\n  },\n  "events":[\n  ' + ",".join(records) + "]}"


def with_header(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], other: Path | None = None) -> None:
    """Change the header of a text file, in place or as another one."""
    head, rest = path.read_text().split("\n", 1)
    (other or path).write_text(json.dumps(json.loads(head) | change(json.loads(head))) + "\n" + rest)


def later(seconds: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Let a run begin so much later."""
    return lambda head: {"unix_us": str(int(head["unix_us"]) + seconds * 1_000_000)}


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
    """Write what precice-profiling merged of a sample."""
    path = directory / "profiling.db"
    path.write_bytes(gzip.decompress((DATA / "databases" / f"{run}.db.gz").read_bytes()))
    return path


def imported(directory: Path) -> dict[str, RankFile]:
    """The stores below a directory, of which there is at least one, by participant and rank."""
    stores = [read_store(path) for path in find_stores([directory])]
    assert stores
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
