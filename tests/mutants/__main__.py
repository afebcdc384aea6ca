"""Plant bugs at random places of the package and print those that its tests do not notice.

    python -m mutants [SUBPACKAGE ...] [--seed N] [--count 150] [--jobs 2] [--minutes 40] [--survivors]

A subpackage's mutants are tried against its own tests, `modules` being those that lie in no subpackage.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from .places import Mutant, sample
from .runs import Outcome, Runner, TestsFailError

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "precice_lb"
UNCHANGED = Path(__file__).parent / "unchanged.toml"
DIRECTORY = ROOT / "build" / "mutants"
MODULES = "modules"
# Decisions of some subpackages are worked out by hand in `tests/decisions`, texts of others are kept in `tests/golden`.
# What reads studies and configurations is tested beside those who use it.
_FURTHER_TESTS = {
    "campaign": ["tests/decisions"],
    "case": [
        "tests/campaign/test_calibrate_layouts.py",
        "tests/campaign/test_calibrate_study.py",
        "tests/campaign/test_calibrate_versions.py",
        "tests/campaign/test_study_files.py",
        "tests/chain/test_chain_study.py",
        "tests/golden",
        "tests/guess/test_guess_patch.py",
        "tests/recommend",
        "tests/schedule",
        "tests/split",
    ],
    "chain": ["tests/decisions"],
    "cli": ["tests/campaign/test_launch_scripts.py", "tests/golden"],
    "models": ["tests/decisions"],
    "recommend": ["tests/decisions"],
    "report": ["tests/golden"],
    "schedule": ["tests/decisions"],
    "split": ["tests/decisions"],
    "store": ["tests/formats"],
}
_TESTS_OF_MODULES = ["tests/check", "tests/cli", "tests/export", "tests/golden"]


@dataclasses.dataclass
class Result:
    """What the tests of one subpackage said.

    Attributes
    ----------
    subpackage : str
    tried : int
        Number of mutants that the tests ran against.
    survivors : list of Mutant
        Those that no test noticed.
    unchanged : int
        Number of sampled mutants that are known to change nothing; they are not tried.
    not_tried : int
        Number of mutants for which the time did not suffice.
    seconds : float
        Time that all of it took.
    """

    subpackage: str
    tried: int
    survivors: list[Mutant]
    unchanged: int
    not_tried: int
    seconds: float

    def row(self) -> str:
        """Return this subpackage's line of the table, in the columns of `_HEADER`."""
        share = len(self.survivors) / self.tried if self.tried else 0.0
        minutes = self.seconds / 60
        return (
            f"{self.subpackage:<10} {self.tried:>6} {len(self.survivors):>9} {share:>6.1%} {self.unchanged:>9}"
            f" {self.not_tried:>9} {minutes:>7.1f}"
        )


_HEADER = f"{'package':<10} {'tried':>6} {'survivors':>9} {'share':>6} {'unchanged':>9} {'not tried':>9} {'minutes':>7}"


def subpackages() -> list[str]:
    """Return the names of all subpackages, and `modules`."""
    names = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    return [*sorted(names), MODULES]


def modules_of(subpackage: str) -> list[Path]:
    """Return the modules of a subpackage, relative to the repository's root."""
    paths = PACKAGE.glob("*.py") if subpackage == MODULES else (PACKAGE / subpackage).rglob("*.py")
    return sorted(path.relative_to(ROOT) for path in paths)


def tests_of(subpackage: str) -> list[str]:
    """Return the files and folders of a subpackage's tests, relative to the repository's root."""
    if subpackage == MODULES:
        files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("test_*.py")]
        return [*sorted(files), *_TESTS_OF_MODULES]
    return [f"tests/{subpackage}", *_FURTHER_TESTS.get(subpackage, [])]


def listed_as_unchanged() -> list[dict[str, str]]:
    """Return the entries of `unchanged.toml`: a mutant's path, before and after, and the reason."""
    listed: list[dict[str, str]] = tomllib.loads(UNCHANGED.read_text(encoding="utf-8")).get("mutant", [])
    return listed


def known_unchanged() -> set[tuple[str, str, str]]:
    """Return the keys of the mutants that are known to change nothing."""
    return {(entry["path"], entry["before"], entry["after"]) for entry in listed_as_unchanged()}


def _describe(mutant: Mutant) -> str:
    return f"{mutant.path}:{mutant.line}\n    - {mutant.before}\n    + {mutant.after}"


def _keep(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write outcomes to a file, also after each single one: a run that is stopped loses nothing."""
    entries = []
    for outcome in outcomes:
        entry = {"key": outcome.mutant.key, "line": outcome.mutant.line, "verdict": outcome.verdict}
        entries.append(entry | {"seconds": round(outcome.seconds, 1), "failed_test": outcome.failed_test})
    path.write_text(json.dumps(entries, indent=1), encoding="utf-8")


def try_subpackage(subpackage: str, options: argparse.Namespace) -> Result:
    """Plant bugs in a subpackage, run its tests against each, and print and keep what survives."""
    begin = time.monotonic()
    kept = DIRECTORY / f"{subpackage}-{options.seed}.json"
    sampled = sample(ROOT, modules_of(subpackage), options.count, options.seed)
    unchanged = known_unchanged()
    mutants = [mutant for mutant in sampled if mutant.key not in unchanged]
    number_unchanged = len(sampled) - len(mutants)
    if options.survivors and kept.exists():
        survived = {tuple(entry["key"]) for entry in json.loads(kept.read_text()) if entry["verdict"] == "survived"}
        mutants = [mutant for mutant in mutants if mutant.key in survived]
    runner = Runner(ROOT, DIRECTORY, tests_of(subpackage), options.jobs)
    seconds = runner.prepare()
    print(f"{subpackage}: {len(mutants)} mutants, tests take {seconds:.0f} s", flush=True)
    outcomes = []
    for outcome in runner.run(mutants, until=begin + 60 * options.minutes):
        outcomes.append(outcome)
        _keep(outcomes, kept)
        if outcome.verdict == "survived":
            print(f"survived: {_describe(outcome.mutant)}", flush=True)
        if len(outcomes) % 25 == 0:
            print(f"{subpackage}: {len(outcomes)} of {len(mutants)} tried", flush=True)
    return Result(
        subpackage=subpackage,
        tried=len(outcomes),
        survivors=[outcome.mutant for outcome in outcomes if outcome.verdict == "survived"],
        unchanged=number_unchanged,
        not_tried=len(mutants) - len(outcomes),
        seconds=time.monotonic() - begin,
    )


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutants", description="Plant bugs and see whether tests notice.")
    parser.add_argument("subpackages", nargs="*", metavar="SUBPACKAGE", help="default: all")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="default: random")
    parser.add_argument("--count", type=int, default=150, help="mutants in each subpackage (default: 150)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    parser.add_argument("--minutes", type=float, default=40.0, help="longest time for a subpackage (default: 40)")
    parser.add_argument("--survivors", action="store_true", help="try again those that survived with this seed")
    options = parser.parse_args(arguments)
    known = subpackages()
    for name in options.subpackages:
        if name not in known:
            parser.error(f"expected one of {', '.join(known)}, found {name!r}; name subpackages of precice_lb")
    options.subpackages = options.subpackages or known
    return options


def main(arguments: Sequence[str]) -> int:
    """Try each subpackage and print a table of all."""
    options = _parse(arguments)
    print(f"seed {options.seed}", flush=True)
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    results = []
    for name in options.subpackages:
        try:
            results.append(try_subpackage(name, options))
        except TestsFailError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        print(_HEADER, results[-1].row(), sep="\n", flush=True)
    print(f"\nseed {options.seed}", _HEADER, *[result.row() for result in results], sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
