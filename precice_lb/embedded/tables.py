"""Text tables in preCICE's form (``io/TXTTableWriter.cpp``): iterations, convergence, watch-points."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from precice_lb.embedded.errors import CouplingError

__all__ = ["ConvergenceLog", "IterationsLog", "Table"]


class Table:
    """A file in the working directory, started anew, whose rows are complete as soon as they are written.

    Parameters
    ----------
    name
        Name of the file.
    columns
        Headings.

    Raises
    ------
    CouplingError
        If the file cannot be written.
    """

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        # Absolute: a solver may change its working directory.
        self._path = Path(name).absolute()
        try:
            self._path.write_text("".join(f"  {column}" for column in columns))
        except OSError as error:
            raise CouplingError(f"cannot write {self._path}: {error.strerror}; make the directory writable") from error

    def write(self, row: Sequence[float | int]) -> None:
        """Append a row: whole numbers six, others fifteen characters wide."""
        cells = [f"{cell:6d}" if isinstance(cell, int) else f"{cell:15.8e}" for cell in row]
        # A full disk must not end the simulation: preCICE does not look, either.
        with contextlib.suppress(OSError), self._path.open("a") as file:
            file.write("\n" + "  ".join(cells))


class IterationsLog(Table):
    """``precice-<P>-iterations.log``: a row for each time window.

    Parameters
    ----------
    participant
        Name of the participant.
    more
        Further columns, those of the acceleration.
    """

    def __init__(self, participant: str, more: Sequence[str]) -> None:
        columns = ("TimeWindow", "TotalIterations", "Iterations", "Convergence", *more)
        super().__init__(f"precice-{participant}-iterations.log", columns)


class ConvergenceLog(Table):
    """``precice-<P>-convergence.log``: a row for each iteration.

    Parameters
    ----------
    participant
        Name of the participant.
    measures
        A column for each convergence measure.
    """

    def __init__(self, participant: str, measures: Sequence[str]) -> None:
        super().__init__(f"precice-{participant}-convergence.log", ("TimeWindow", "Iteration", *measures))
