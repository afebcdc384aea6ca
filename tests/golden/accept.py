"""Accept texts that have changed: python tests/golden/accept.py [NAME ...], without a name all of them."""

from __future__ import annotations

import sys
from pathlib import Path

TEXTS = Path(__file__).parent / "texts"


def main(names: list[str]) -> int:
    """Put each changed text in place of the kept one."""
    changed = {path.name.removesuffix(".new.txt"): path for path in sorted(TEXTS.glob("*.new.txt"))}
    for name in names or changed:
        if name not in changed:
            print(f"{name}: no changed text; changed are: {', '.join(changed) or 'none'}")
            return 1
        changed[name].replace(TEXTS / f"{name}.txt")
        print(f"accepted {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
