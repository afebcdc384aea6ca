"""The figures of docs/paper/paper.md.

    python benchmarks/paper_figures.py --jobs 2

regret.png  Regret of decisions on measured strong-scaling curves, by learner and budget: `real_curves.py`, whose
            results are kept as JSON (`--results`) and used again where they are there.
split.png   Window time over the split of 16 ranks, out of the profiling files of three runs of a tutorial on eight.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import real_curves
from matplotlib.figure import Figure

from precice_lb import recommend_split
from precice_lb.report.charts import landscape_chart

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "tutorials" / "adapt-your-solver" / "recorded"
LEARNERS = ("bayes", "line", "pmnf", "equal")
# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072b2", "#56b4e9", "#e69f00", "#999999")
BUDGETS = ("last reading", "twice", "three times")


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing and draw both figures."""
    parser = argparse.ArgumentParser(description="Figures of the paper.")
    parser.add_argument("--pairs", type=int, default=600, help="pairs of measured curves")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "_build" / "regret.json", help="JSON file")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "paper", help="directory of the figures")
    options = parser.parse_args(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    if not options.results.is_file():
        options.results.parent.mkdir(parents=True, exist_ok=True)
        counts = ["--pairs", str(options.pairs), "--jobs", str(options.jobs)]
        real_curves.main([*counts, "--learners", *LEARNERS, "--output", str(options.results)])
    found = json.loads(options.results.read_text(encoding="utf-8"))["learners"]
    draw_regret(found, options.output / "regret.png")
    draw_split(options.output / "split.png")


def draw_regret(learners: dict[str, Any], path: Path) -> None:
    """Bars of mean regret by budget, with their 95 % intervals."""
    figure = Figure(figsize=(6.4, 3.0), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(learners)
    for place, ((name, found), colour) in enumerate(zip(learners.items(), COLOURS, strict=False)):
        regrets = found["regret_percent"]
        means = np.array([each["mean"] for each in regrets])
        ends = [np.abs(means - [each[end] for each in regrets]) for end in ("low", "high")]
        at = np.arange(len(BUDGETS)) + (place - (len(learners) - 1) / 2) * width
        axes.bar(at, means, width, yerr=ends, color=colour, label=name, error_kw={"elinewidth": 0.8})
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(range(len(BUDGETS)), BUDGETS)
    axes.set_xlabel("budget of ranks, beside the largest count that was read")
    axes.set_ylabel("mean regret (%)")
    figure.legend(loc="outside upper center", ncols=5, fontsize="small", frameon=False)
    figure.savefig(path, dpi=160)


def draw_split(path: Path) -> None:
    """Draw the figure of the report."""
    with tempfile.TemporaryDirectory() as stores:
        command = [sys.executable, "-m", "precice_lb", "import", "precice-profiling", str(RECORDED), "--output", stores]
        subprocess.run(command, check=True)
        configuration = RECORDED.parent / "precice-config.xml"
        found = recommend_split(stores, 16, coupling=configuration, present={"Left": 8, "Right": 8})
    landscape_chart(found).figure.savefig(path)


if __name__ == "__main__":
    main()
