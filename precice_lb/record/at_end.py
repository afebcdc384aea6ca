"""What is started after the last call of a solver, when asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from precice_lb.record.notes import note, warn_once

__all__ = ["at_end_action"]

_LAUNCHER_PREFIXES = ("PMI", "OMPI_", "HYD", "MPIR_", "MPI_LOCAL")


def at_end_action(metadata: dict[str, Any], directory: Path) -> Callable[[Path], None] | None:
    """Choose what ``PRECICE_LB_AT_END`` asks for.

    Parameters
    ----------
    metadata : dict
        Metadata of this rank.
    directory : Path
        The store directory.

    Returns
    -------
    callable or None
        To be called with the store file when it is complete; None on all but the primary rank.
    """
    value = os.environ.get("PRECICE_LB_AT_END", "")
    if not value or metadata["rank"] != 0:
        return None
    if value != "recommend":
        warn_once(f"PRECICE_LB_AT_END is ignored: expected recommend, found {value!r}")
        return None
    case = Path(metadata["configuration_path"]).parent
    participant = metadata["participant"]

    def start(_: Path) -> None:
        log = directory / f"at-end-{participant.replace(os.sep, '_')}.log"
        arguments = ["at-end", str(case), "--store", str(directory), "--participant", participant]
        # The process outlives this one and is no rank of its MPI job.
        environment = {
            name: text
            for name, text in os.environ.items()
            if name != "PRECICE_LB_AT_END" and not name.startswith(_LAUNCHER_PREFIXES)
        }
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "precice_lb", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        # It is meant to be running still when this process ends; Popen would warn of that.
        process.returncode = 0
        files = f"{case}/recommendation.json and recommendation.md"
        note(f"when the last participant has finished, {files} will be written (log: {log})", sys.stdout)

    return start
