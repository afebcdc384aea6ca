"""Cases, stores and measurements with planted costs for the tests of what people see."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from store_helpers import START, row, write_store

HOSTILE = ("<script>alert(1)</script>", "[bold red]x[/]", "a|b", "two\nlines", "n" * 500, "$x^2$_y_`z`", "\x1b[31mred")

CONFIGURATION = """<?xml version="1.0" encoding="UTF-8" ?>
<precice-configuration>
  <data:scalar name="Pressure" />
  <data:scalar name="Flux" />
  <mesh name="Inner-Mesh" dimensions="2"><use-data name="Pressure" /><use-data name="Flux" /></mesh>
  <mesh name="Outer-Mesh" dimensions="2"><use-data name="Pressure" /><use-data name="Flux" /></mesh>
  <participant name="Inner">
    <provide-mesh name="Inner-Mesh" />
    <receive-mesh name="Outer-Mesh" from="Outer" />
    <write-data name="Flux" mesh="Inner-Mesh" />
    <read-data name="Pressure" mesh="Inner-Mesh" />
    <mapping:nearest-neighbor direction="read" from="Outer-Mesh" to="Inner-Mesh" constraint="consistent" />
  </participant>
  <participant name="Outer">
    <provide-mesh name="Outer-Mesh" />
    <receive-mesh name="Inner-Mesh" from="Inner" />
    <write-data name="Pressure" mesh="Outer-Mesh" />
    <read-data name="Flux" mesh="Outer-Mesh" />
    <mapping:nearest-neighbor direction="read" from="Inner-Mesh" to="Outer-Mesh" constraint="consistent" />
  </participant>
  <m2n:sockets acceptor="Inner" connector="Outer" exchange-directory=".." />
  <coupling-scheme:{scheme}-explicit>
    <participants first="Inner" second="Outer" />
    <time-window-size value="{window}" />
    <max-time value="1" />
    <exchange data="Pressure" mesh="Outer-Mesh" from="Outer" to="Inner" />
    <exchange data="Flux" mesh="Inner-Mesh" from="Inner" to="Outer" />
  </coupling-scheme:{scheme}-explicit>
</precice-configuration>
"""


def configuration(scheme: str = "parallel", window: float = 0.1) -> str:
    return CONFIGURATION.format(scheme=scheme, window=window)


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
