"""``python -m precice_lb`` and ``precice-lb``."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a solver, or any other subcommand.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line, by default ``sys.argv[1:]``.

    Returns
    -------
    int
        The exit code.
    """
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    if command_line[:1] == ["run"]:
        # Not through the command line library: a solver that is recorded must not load it.
        from precice_lb.record.run import run

        return run(command_line[1:])
    from precice_lb.cli import main as cli_main

    return cli_main(command_line)


if __name__ == "__main__":
    sys.exit(main())
