"""Read all profiling directories below a directory, such as the tests of precice/profiling and preCICE.

    git clone https://github.com/precice/profiling
    python benchmarks/profiles.py profiling/tests/cases

prints what each holds by participant and rank: calls of `advance`, and whether waits are in it; then how many were read
and how many refused, each with the reason. Exit code 1 if any was refused.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling import find_profiles, read_profile
from precice_lb.ingest.profiling.find import profiles_below


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args(arguments).directory
    counts = {"read": 0, "refused": 0}
    for source in sorted({path.parent for path in profiles_below(directory)}):
        try:
            line = ", ".join(read(source))
            counts["read"] += 1
        except DataError as error:
            line = f"refused: {error}"
            counts["refused"] += 1
        print(f"{source.relative_to(directory)}: {line}")
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["refused"] else 0


def read(source: Path) -> Iterator[str]:
    """Read everything and say what it is."""
    headers, left_out = find_profiles([source])
    for header in headers:
        profile = read_profile(header.path)
        waits = "with" if profile.tells_waits else "without"
        yield f"{header.participant}-{header.rank}-{header.size} {len(profile.calls)} calls {waits} waits"
    yield from left_out


if __name__ == "__main__":
    raise SystemExit(main())
