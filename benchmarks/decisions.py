"""What decisions cost, set by set, beside what is kept of the last version in `benchmarks/data/decisions.csv`.

    python benchmarks/decisions.py --jobs 2
    python benchmarks/decisions.py --sets published --write

Each set is one command of `real_curves.py` or `regret.py`, with its seed and its number of pairs. All decisions go
through `recommend_split`. `bayes-alone` is kept from before that was so, and from before the present model.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import real_curves
import regret

KEPT = Path(__file__).parent / "data" / "decisions.csv"
SEED = 2026
FAMILIES = ["--seed", str(SEED), "--learners", "bayes", "line", "equal", "oracle"]
#: Published curves at budgets of so many times the last reading, and random families at budgets of so many ranks.
PUBLISHED = {
    "published": ["--pairs", "600"],
    "published-free": ["--pairs", "600", "--free", "--budgets", "3"],
    "published-quarter": ["--pairs", "600", "--read-up-to", "0.25", "--budgets", "4"],
    "published-once": ["--pairs", "300", "--readings", "1"],
}
RANDOM = {
    "seen": ["--pairs", "100", *FAMILIES],
    "unseen": ["--pairs", "75", "--families", "unseen", "--budgets", "512", *FAMILIES],
}
KEY = ("set", "budget", "contestant")
FIGURES = ("mean", "low", "high", "p95", "covered", "refused")

Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    """Run sets and print their figures."""
    parser = argparse.ArgumentParser(description="Regret of decisions beside what is kept.")
    parser.add_argument("--sets", nargs="+", choices=(*PUBLISHED, *RANDOM), default=(*PUBLISHED, *RANDOM))
    parser.add_argument("--pairs", help="in place of the number of each set")
    parser.add_argument("--jobs", default="1", help="processes")
    parser.add_argument("--write", action="store_true", help="keep these figures")
    options = parser.parse_args(argv)
    kept = {tuple(row[key] for key in KEY): row for row in _kept()}
    for name in options.sets:
        for row in measured(name, ["--jobs", options.jobs, *(["--pairs", options.pairs] if options.pairs else [])]):
            key = tuple(row[key] for key in KEY)
            before = f"kept {kept[key]['mean']} [{kept[key]['low']}, {kept[key]['high']}]" if key in kept else ""
            print(", ".join(key), f"{row['mean']} [{row['low']}, {row['high']}]", before, sep="  ", flush=True)
            kept[key] = row
    if options.write:
        with KEPT.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, (*KEY, "pairs", "seed", *FIGURES), lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept.values())


def measured(name: str, more: Sequence[str]) -> list[Row]:
    """Run one set; mean regret and its interval, 95th percentile and coverage are in percent."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "figures.json"
        if name in PUBLISHED:
            real_curves.main([*PUBLISHED[name], *more, "--output", str(output)])
            found = json.loads(output.read_text(encoding="utf-8"))
            return [
                _row(name, f"{budget:g}", contestant, found["pairs"], found["seed"], *figures)
                for contestant, by in found["learners"].items()
                for budget, *figures in zip(
                    found["budgets"], by["regret_percent"], by["coverage_percent"], by["refused"], strict=True
                )
            ]
        regret.main([*RANDOM[name], *more, "--output", str(output)])
        (found,) = json.loads(output.read_text(encoding="utf-8"))
    pairs, covered = sum(found["pairs_per_family"].values()), found["coverage_percent"]["pooled"]
    return [
        _row(name, budget, contestant, pairs, found["seed"], regrets, covered.get(contestant, {}).get(budget), refused)
        for contestant, by in found["regret_percent"]["pooled"].items()
        for (budget, regrets), refused in zip(by.items(), found["refused"][contestant].values(), strict=True)
    ]


def _row(
    name: str, budget: str, contestant: str, pairs: int, seed: int,
    regrets: dict[str, float], covered: float | None, refused: int,
) -> Row:  # fmt: skip
    row = {"set": name, "budget": budget, "contestant": contestant, "pairs": pairs, "seed": seed, "refused": refused}
    row |= {key: f"{regrets[key]:.2f}" for key in FIGURES if key in regrets}
    return row | {"covered": "" if covered is None else f"{covered:.0f}"}


def _kept() -> list[Row]:
    if not KEPT.is_file():
        return []
    with KEPT.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
