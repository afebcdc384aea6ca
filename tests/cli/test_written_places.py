"""Commands write below the places that they are given alone, whatever names the data have."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_helpers import configuration
from store_helpers import START, row, write_store

from precice_lb.cli import main

# As parts of paths these would lead out of any directory.
NAMES = {"Inner": "../../../escaped", "Outer": "/tmp/precice-lb-escaped"}
WAYS_OUT = [Path(name) for name in NAMES.values()]


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    """Record two runs whose participants and runs are called like places elsewhere."""
    text = configuration()
    for name, way_out in NAMES.items():
        text = text.replace(f'"{name}', f'"{way_out}')
    place = tmp_path / "some" / "deep" / "stores"
    for number, ranks in enumerate((1, 2)):
        start = START + number * 60 * 10**9
        for name in NAMES.values():
            for rank in range(ranks):
                rows = [row(window, 0.2 / ranks, 0.1, 0.05, 0.01) for window in range(1, 6)]
                more = {"configuration": text, "started_unix_ns": start, "run": f"../../{number}"}
                write_store(place / str(number), rows, name, rank, ranks, **more)
    return place


@pytest.mark.parametrize(
    "command",
    [
        ["recommend", "STORES", "--ranks", "4", "-o", "OUT"],
        ["report", "STORES", "-o", "OUT/page", "--figures", "OUT/figures"],
        ["export", "STORES", "--merged", "-o", "OUT"],
        ["export", "STORES", "-o", "OUT/trace.json"],
        ["export", "STORES", "--format", "csv", "-o", "OUT/runs.csv"],
        ["summary", "STORES", "-o", "OUT/summary.md"],
        ["check", "STORES", "-o", "OUT/check.json"],
        ["compare", "STORES/0", "STORES/1", "-o", "OUT/compare.txt"],
    ],
    ids=" ".join,
)
def test_files_lie_below_the_place_that_is_named(
    command: list[str], stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "some" / "deep" / "out"
    monkeypatch.chdir(stores.parent)
    if not command[-1].endswith("OUT"):
        out.mkdir()
    before = set(tmp_path.rglob("*"))

    assert main([word.replace("STORES", str(stores)).replace("OUT", str(out)) for word in command]) in (0, 1)

    written = set(tmp_path.rglob("*")) - before
    assert any(path.is_file() for path in written)
    assert [path for path in written if path != out and not path.is_relative_to(out)] == []
    assert not WAYS_OUT[1].exists()
