"""Compare the fields that a run has written with a tutorial's reference results, or write these anew.

In the directory of a tutorial, after a run of its run.sh scripts: python3 ../tools/reference.py [--write]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

REFERENCE = Path("reference-results/fields.json")
SAMPLES = 20


def facts(path: Path) -> dict[str, dict[str, Any]]:
    """Sum up each array of an .npz file that is not empty: its shape, its root mean square, evenly spaced samples."""
    found = {}
    for name, values in np.load(path).items():
        if not values.size:
            continue
        flat = values.astype(float).ravel()
        at = np.linspace(0, flat.size - 1, min(SAMPLES, flat.size)).astype(int)
        found[name] = {
            "shape": list(values.shape),
            "root_mean_square": float(np.sqrt(np.mean(flat**2))),
            "samples": flat[at].tolist(),
        }
    return found


def difference(mine: dict[str, Any], reference: dict[str, Any]) -> float:
    """Return the largest difference, relative to the largest value; infinite if there is nothing to compare."""
    if mine["shape"] != reference["shape"]:
        return float("inf")
    values, expected = (np.array([each["root_mean_square"], *each["samples"]]) for each in (mine, reference))
    return float(np.abs(values - expected).max() / (np.abs(expected).max() or 1.0))


def versions() -> dict[str, str]:
    """Name the versions that fields were computed with."""
    found = {"Python": platform.python_version(), "numpy": np.__version__, "libprecice": "none: the embedded backend"}
    with contextlib.suppress(ImportError):
        import precice

        found["libprecice"] = precice.get_version_information().decode().split(";")[0]
    return found


def refused(message: str) -> int:
    """Say why there is nothing to compare."""
    print(message, file=sys.stderr)
    return 2


def main() -> int:
    """Compare or write; 1 if a field differs, 2 if there is nothing to compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the reference results")
    parser.add_argument("--tolerance", type=float, help="of relative differences (default: the one written, or 1e-6)")
    options = parser.parse_args()
    fields = {}
    for path in sorted(Path().glob("*/*.npz")):
        try:
            fields[path.name] = facts(path)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            return refused(
                f"{path}: expected the fields of a run, cannot read them ({error}); run ./clean.sh and run.sh again"
            )
    if not fields:
        return refused(
            "expected results in */*.npz, found none: run the run.sh scripts first, and this where README.md is"
        )
    if options.write:
        REFERENCE.parent.mkdir(exist_ok=True)
        written = {
            "made_with": versions(),
            "tolerance": 1e-6 if options.tolerance is None else options.tolerance,
            "fields": fields,
        }
        REFERENCE.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        print(f"{REFERENCE}: {len(fields)} files of fields")
        return 0
    if not REFERENCE.is_file():
        return refused(f"expected {REFERENCE} in {Path.cwd()}, found none: run this in the directory of a tutorial")
    expected, code = json.loads(REFERENCE.read_text(encoding="utf-8")), 0
    tolerance = expected.get("tolerance", 1e-6) if options.tolerance is None else options.tolerance
    for file, reference in expected["fields"].items():
        if file not in fields:
            print(f"{file}: expected in */{file}, found none: run all run.sh scripts", file=sys.stderr)
            code = 1
            continue
        for name, array in reference.items():
            mine = fields[file].get(name)
            off = difference(mine, array) if mine else float("inf")
            if not off <= tolerance:
                found = f"differs from {REFERENCE} by {off:.1e} (relative)" if mine else f"is in {REFERENCE} alone"
                print(f"{file}: {name} {found}", file=sys.stderr)
                code = 1
    if code == 0:
        print(f"{', '.join(expected['fields'])}: as in {REFERENCE}")
    return code


if __name__ == "__main__":
    sys.exit(main())
