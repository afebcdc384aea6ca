"""What is started after the last call of a solver, when asked for."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from precice_lb.record.tables import note, setting

_FILES = {"recommend": "recommendation.json", "summary": "summary.txt"}
_LAUNCHER_PREFIXES = ("PMI", "OMPI_", "HYD", "MPIR_", "MPI_LOCAL")


def at_end_action(metadata: dict[str, Any], directory: Path) -> Callable[[], None] | None:
    """Choose what ``PRECICE_LB_AT_END`` asks for, once the store is complete; None on all but the primary rank."""
    what = setting("PRECICE_LB_AT_END", "", *_FILES)
    if metadata["rank"] != 0 or not what:
        return None
    case = Path(metadata["configuration_path"]).parent
    return functools.partial(_start, case, metadata["participant"], directory, what)


def _start(case: Path, participant: str, directory: Path, what: str) -> None:
    log = directory / f"at-end-{participant.replace(os.sep, '_')}.log"
    # Each with its value in one word: a participant may be named like an option.
    options = [f"--store={directory}", f"--participant={participant}", f"--write={what}"]
    # The process outlives this one and is no rank of its MPI job.
    environment = {
        name: text
        for name, text in os.environ.items()
        if name != "PRECICE_LB_AT_END" and not name.startswith(_LAUNCHER_PREFIXES)
    }
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "precice_lb", "at-end", str(case), *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    # It is meant to be running still when this process ends; Popen would warn of that.
    process.returncode = 0
    note(f"when the last participant has finished, {case}/{_FILES[what]} will be written (log: {log})", sys.stdout)
