"""Says which split the laws of an emulated load are best for, and what a campaign's recommended split loses against it.

python optimum.py CAMPAIGN
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precice_lb import optimize_split
from precice_lb.schedule import Schedule

CASE = Path(__file__).resolve().parent
sys.path.append(str(CASE / "solver-python"))
from emulation import read_laws  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def best_split(case: Path, recommendation: Mapping[str, Any]) -> tuple[dict[str, int], float, float]:
    """Return the best split of the recommendation's total, its seconds per window, and the recommended one's regret."""
    schedule = Schedule.from_config(case / "precice-config.xml")
    counts = np.arange(1, recommendation["total_ranks"] + 1)
    seconds = {name: law.seconds(counts) for name, law in read_laws(case / "law.json").items()}
    best = optimize_split(seconds, len(counts), coupling=schedule)
    recommended = {name: seconds[name][ranks - 1] for name, ranks in recommendation["split"].items()}
    return (
        dict(best.split),
        best.window_seconds,
        float(schedule.window_seconds(recommended)) / best.window_seconds - 1.0,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description="The optimum of the laws beside a campaign's recommended split.")
    parser.add_argument("campaign", type=Path, help="directory of the campaign")
    parser.add_argument("--case", type=Path, default=CASE, help="tutorial with law.json (default: this one)")
    options = parser.parse_args(arguments)
    recommendation = json.loads((options.campaign / "recommendation.json").read_text(encoding="utf-8"))
    best, window, regret = best_split(options.case, recommendation)
    print(f"By the law of the emulated load the best split is {text(best)} ranks: {window:.4g} s per window.")
    print(f"The recommended one, {text(recommendation['split'])} ranks, takes {100 * regret:.1f} % longer by that law.")


def text(split: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {ranks}" for name, ranks in split.items())


if __name__ == "__main__":
    main()
