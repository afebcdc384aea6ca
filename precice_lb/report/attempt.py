"""Rendering that may fail without harm to the results: those are written before."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TypeVar

from precice_lb.exceptions import PreciceLBError
from precice_lb.report.text import visible

__all__ = ["attempted"]

Made = TypeVar("Made")


def attempted(what: str, make: Callable[[], Made]) -> Made | None:
    """Make something that the results do not depend on."""
    try:
        return make()
    except BrokenPipeError:
        # Nobody reads any more: that ends the command, which is no failure.
        raise
    except Exception as error:
        if os.environ.get("PRECICE_LB_DEBUG") == "1":
            raise
        known = isinstance(error, PreciceLBError | OSError)
        cause = f"{error}" if known else f"{type(error).__name__}: {error}"
        remedy = "" if known else "; please report this defect, PRECICE_LB_DEBUG=1 shows where it is"
        print(f"precice-lb: warning: {what} could not be made: {visible(cause)}{remedy}", file=sys.stderr)
        return None
