"""What recording, results, partners and splits cost and answer now, beside the figures kept in data/kept.json.

    python benchmarks/kept.py [--scale small] [--only recorder splits ...]
    python benchmarks/kept.py --keep

Costs are printed with their ratio to the kept ones. Answers have to be the kept ones, or the exit code is 1; ``--keep``
keeps what was measured. Every measurement is a process of its own, and costs are medians over several.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from kept_parts.measurements import MEASUREMENTS, ROOT, Figures

KEPT = ROOT / "benchmarks" / "data" / "kept.json"
#: Of window times and gaps: the last bits of logarithms differ from processor to processor.
ROUNDING = 1e-12
ROW = "{:52} {:>24} {:>24} {:>8}"


def measure(name: str, scale: str) -> Figures:
    """Measure in processes of their own: medians of costs, and answers, which all have to agree on."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PRECICE_LB_")}
    # The backend that is on every machine, patient on a busy one; threads would compete for its cores.
    environment |= {"PRECICE_LB_BACKEND": "embedded", "PRECICE_LB_TIMEOUT": "300"}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--scale", scale, "--one", name]
    repeats: list[Figures] = []
    for _ in range(MEASUREMENTS[name][1][scale]):
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name} could not be measured")
        repeats.append(json.loads(done.stdout))
    answers = repeats[0]["answers"]
    if any(repeat["answers"] != answers for repeat in repeats):
        answers = dict.fromkeys(answers, "not the same in all runs")
    costs = {key: statistics.median(repeat["costs"][key] for repeat in repeats) for key in repeats[0]["costs"]}
    return {"answers": answers, "costs": costs}


def same_answer(now: Any, kept: Any) -> bool:
    """Whether an answer is the kept one."""
    if isinstance(now, float) and isinstance(kept, float):
        return math.isclose(now, kept, rel_tol=ROUNDING, abs_tol=ROUNDING)
    return bool(now == kept)


def compare(now: Figures, kept: Figures) -> tuple[list[str], int]:
    """Write the table of one measurement, and count answers that are not the kept ones."""
    rows, different = [], 0
    answers, costs = kept.get("answers", {}), kept.get("costs", {})
    for key in {**now["answers"], **answers}:
        mine, theirs = now["answers"].get(key, "none"), answers.get(key, "none")
        same = same_answer(mine, theirs)
        different += not same
        rows.append(ROW.format(f"  {key}", as_text(mine, 12), as_text(theirs, 12), "same" if same else "DIFFERS"))
    for key, cost in now["costs"].items():
        ratio = f"{cost / costs[key]:.2f}" if costs.get(key) else ""
        rows.append(ROW.format(f"  {key}", as_text(cost, 4), as_text(costs.get(key, "none"), 4), ratio))
    return rows, different


def as_text(value: Any, digits: int) -> str:
    """Write a figure of the table."""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def machine() -> dict[str, Any]:
    """Return what costs depend on: cores, how busy they are, and versions."""
    numpy = importlib.metadata.version("numpy")
    load = round(os.getloadavg()[0], 1)
    return {"cores": os.cpu_count(), "load": load, "python": platform.python_version(), "numpy": numpy}


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table; the exit code is 1 where an answer is not the kept one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=("full", "small"), default="full", help="small: within a minute, for tests")
    parser.add_argument("--only", nargs="+", choices=sorted({name.partition(",")[0] for name in MEASUREMENTS}))
    parser.add_argument("--keep", action="store_true", help="keep what was measured")
    parser.add_argument("--file", type=Path, default=KEPT, help="where figures are kept")
    parser.add_argument("--one", choices=MEASUREMENTS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(MEASUREMENTS[options.one][0](options.scale)))
        return 0
    document = json.loads(options.file.read_text()) if options.file.exists() else {}
    kept = document.setdefault(options.scale, {})
    names = [name for name, (_, repeats) in MEASUREMENTS.items() if repeats[options.scale]]
    if options.only:
        names = [name for name in names if name.partition(",")[0] in options.only]
    print(ROW.format("quantity", "now", "kept", "ratio"))
    different = 0
    for name in names:
        begin = machine()
        now, before = measure(name, options.scale), kept.get(name, {})
        rows, changed = compare(now, before)
        print(
            f"{name} (load {begin['load']}, kept at {before.get('machine', {}).get('load', 'none')})", *rows, sep="\n"
        )
        sys.stdout.flush()
        different += changed
        kept[name] = {**now, "machine": begin}
    if options.keep:
        options.file.write_text(json.dumps(document, indent=2) + "\n")
        print(f"kept in {options.file}")
        return 0
    print(f"answers that are not the kept ones: {different}" if different else "all answers are the kept ones")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
