"""Hold the reader of configurations against preCICE's own, on all configurations below some directories.

    python benchmarks/configurations.py DIR [DIR ...]

Directories are those of preCICE's tests or tutorials. Where ``precice-config-validate`` or ``precice-tools``
is on the path, files that only one of the two reads are listed with its reason, and the exit code is 1.

    precice-config-doc xml | python benchmarks/configurations.py --schema

prints what ``precice_lb/case/schema.txt`` is to hold for that preCICE.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from precice_lb.case import read_configuration
from precice_lb.exceptions import ConfigurationError

_CHECKERS = {"precice-config-validate": [], "precice-tools": ["check"]}
_OCCURRENCE = {"1": "1", "0..1": "?", "0..*": "*", "1..*": "+"}
_ATTRIBUTE = re.compile(r"\s([\w-]+)=\"\{(\w+)(?:: ?(.*?))?\}(\(default:)?", re.DOTALL)
_TAG = re.compile(
    r"<!-- TAG \S+(?P<about>.*?)-->|</(?P<end>[\w:-]+)>|"
    r"<(?P<tag>[\w:-]+)(?P<attributes>(?:\s+[\w:-]+=\"(?:\{.*?\}(?:\(default:'.*?'\))?|[^\"]*)\"(?=[\s/>]))*)\s*(?P<empty>/?)>",
    re.DOTALL,
)


def schema(reference: str) -> str:
    """Write tags, how often they occur and their attributes from the XML reference that preCICE prints."""
    lines, depth, occurs = [], 0, ""
    for match in _TAG.finditer(reference):
        if match["about"]:
            occurs = _OCCURRENCE[match["about"].rpartition("(can occur ")[2].partition(" ")[0]]
        elif match["end"]:
            depth -= 1
        else:
            attributes = [
                f"{name}{'' if default else '!'}:{kind}"
                + (f"={'|'.join(option.strip(chr(39)) for option in options.split(' or '))}" if options else "")
                for name, kind, options, default in _ATTRIBUTE.findall(match["attributes"])
            ]
            lines.append("  " * depth + " ".join([match["tag"] + " " + occurs, *attributes]))
            depth += not match["empty"]
    return "\n".join(lines) + "\n"


def configurations(directories: list[Path]) -> list[Path]:
    """Find files whose root is that of a preCICE configuration."""
    files = sorted({path for directory in directories for path in directory.rglob("*.xml")})
    return [path for path in files if b"<precice-configuration" in path.read_bytes().replace(b"\0", b"")]


def our_refusal(path: Path) -> str:
    """Say why our reader refuses a file; empty where it reads it."""
    try:
        read_configuration(path)
    except ConfigurationError as error:
        return str(error)
    return ""


def their_refusal(checker: list[str], path: Path) -> str:
    """Say why preCICE refuses a file, of one rank and of two; empty where it reads it or was built without a part."""
    participant = re.search(r'<participant\s+name="([^"]+)"', path.read_bytes().replace(b"\0", b"").decode("latin-1"))
    for words in ([], [participant[1] if participant else "", "2"]):
        done = subprocess.run(
            [*checker, str(path), *words], capture_output=True, text=True, errors="replace", check=False
        )
        lines = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr).splitlines()
        refusal = " ".join(line for line in lines if "ERROR" in line)
        if "requires a preCICE build" in refusal or not refusal:
            return ""
    return refusal


def main() -> int:
    """Print counts, and the files that only one of the two reads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="*", type=Path)
    parser.add_argument("--schema", action="store_true")
    arguments = parser.parse_args()
    if arguments.schema:
        print(schema(sys.stdin.read()), end="")
        return 0
    files = configurations(arguments.directories)
    checker = next(([program, *words] for name, words in _CHECKERS.items() if (program := shutil.which(name))), None)
    if checker is None:
        refusals = [reason for path in files if (reason := our_refusal(path))]
        print(f"{len(files)} configurations: {len(files) - len(refusals)} read, {len(refusals)} refused; no preCICE")
        print("\n".join(refusals))
        return 0
    counts: Counter[str] = Counter()
    for path in files:
        ours, theirs = our_refusal(path), their_refusal(checker, path)
        outcome = {(0, 0): "read by both", (1, 1): "refused by both", (1, 0): "read by preCICE alone"}.get(
            (bool(ours), bool(theirs)), "read by us alone"
        )
        counts[outcome] += 1
        if bool(ours) != bool(theirs):
            print(f"{outcome}: {path}\n    {ours or theirs}")
    print(f"{len(files)} configurations: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return int(any("alone" in outcome for outcome in counts))


if __name__ == "__main__":
    sys.exit(main())
