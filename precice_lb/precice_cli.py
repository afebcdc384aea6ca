"""What ``precice-cli`` needs of a tool to have it as a sub-command: `make_parser` and `run`.

``precice-cli`` is built of argparse parsers that its tools make; ours hands on all words as they are.
"""

from __future__ import annotations

import argparse


def make_parser(add_help: bool = True) -> argparse.ArgumentParser:
    """Make the parser of ``precice-cli lb``.

    Parameters
    ----------
    add_help : bool
        Whether it has ``--help``; ``precice-cli`` adds its own.

    Returns
    -------
    argparse.ArgumentParser
        Its namespace has ``words``, the arguments of ``precice-lb``.
    """
    parser = argparse.ArgumentParser(
        prog="precice-cli lb",
        description="Find the split of ranks between the participants of a coupled preCICE simulation (precice_lb).",
        add_help=add_help,
    )
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="command …",
        help="A command of precice-lb and its options, such as summary, recommend or check; "
        "'precice-cli lb COMMAND --help' has those of a command, 'precice-lb --help' lists all.",
    )
    return parser


def run(namespace: argparse.Namespace) -> int:
    """Run the command that was parsed.

    Parameters
    ----------
    namespace : argparse.Namespace
        Of `make_parser`.

    Returns
    -------
    int
        The exit code of ``precice-lb``.
    """
    from precice_lb.__main__ import main

    return main(namespace.words or ["--help"])
