"""Cases, stores and measurements with planted costs for the tests of what people see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import record_helpers
from store_helpers import START, row, write_store

from precice_lb.cli import main

HOSTILE = ("<script>alert(1)</script>", "[bold red]x[/]", "a|b", "two\nlines", "n" * 500, "$x^2$_y_`z`", "\x1b[31mred")


def configuration(scheme: str = "parallel", window: float = 0.1) -> str:
    """Text of precice-config.xml of Inner and Outer."""
    text = record_helpers.configuration(f"{scheme}-explicit", windows=10)
    for name, short in (("Inner", "A"), ("Outer", "B")):
        text = text.replace(f'"{short}-', f'"{name}-').replace(f'"{short}"', f'"{name}"')
    return text.replace('<time-window-size value="0.1"/>', f'<time-window-size value="{window}"/>')


def compute_seconds(participant: str, ranks: int) -> float:
    """The planted law: Inner has twice the work of Outer."""
    return {"Inner": 0.02 + 3.2 / ranks, "Outer": 0.02 + 1.6 / ranks}[participant]


def write_run(
    directory: Path, split: Mapping[str, int], *, start: int = START, windows: int = 4, **more: Any
) -> list[Path]:
    """Stores of one coupled run under parallel coupling: whoever is faster waits for the other."""
    own = {who: compute_seconds(who, ranks) for who, ranks in split.items()}
    longest = max(own.values())
    text = more.pop("text", configuration())
    paths = []
    for who, ranks in split.items():
        for rank in range(ranks):
            wait = longest - own[who] + 1e-4
            rows = [row(w, own[who] - 2e-4, wait + 2e-4, wait, 1e-4) for w in range(1, windows + 1)]
            paths.append(
                write_store(
                    directory, rows, who, rank, ranks, configuration=text, started_unix_ns=start, seconds=5.0, **more
                )
            )
    return paths


def write_campaign(directory: Path, splits: list[dict[str, int]], **more: Any) -> None:
    """Several runs, a minute apart."""
    for number, split in enumerate(splits):
        run = f"run-{number}"
        write_run(directory / run, split, start=START + number * 60 * 10**9, run=run, **more)


def write_recommended_split(
    directory: Path, split: Mapping[str, int], changes: Mapping[str, object] | None = None
) -> None:
    """Write recommendation.json with the keys from which later commands go on, some of them changed."""
    values = {
        "format": "precice-lb-recommendation",
        "format_version": 1,
        "split": split,
        "total_ranks": sum(split.values()),
        "unit": "ranks",
    }
    (directory / "recommendation.json").write_text(json.dumps({**values, **(changes or {})}))


def write_csv(path: Path, samples: Mapping[str, np.ndarray]) -> Path:
    import csv

    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["participant", "ranks", "seconds"])
        for name, rows in samples.items():
            writer.writerows([name, int(ranks), float(seconds)] for ranks, seconds in rows)
    return path


def falling(work: float, counts: tuple[int, ...] = (2, 4, 6, 8, 12)) -> np.ndarray:
    return np.array([(p, 0.01 + work / p) for p in counts])


def precice_lb(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "precice_lb", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run a command that must be refused in one line; return the line."""
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("precice-lb: error: ")
    assert err.count("\n") == 1
    return err


def recommended(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    """Run recommend and return what it prints as JSON."""
    assert main(["recommend", *map(str, arguments), "--format", "json"]) == 0
    return dict(json.loads(capsys.readouterr().out))
