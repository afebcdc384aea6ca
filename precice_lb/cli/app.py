"""The command line's root, to which every subcommand adds itself."""

from __future__ import annotations

from cyclopts import App, Parameter

__all__ = ["app"]


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("precice_lb")
    except metadata.PackageNotFoundError:
        return "unknown: not installed, imported from its source"


app = App(
    name="precice-lb",
    help="Find the split of ranks between the participants of a coupled preCICE simulation.",
    help_format="plaintext",
    version=_version,
    default_parameter=Parameter(negative_iterable=()),
)
