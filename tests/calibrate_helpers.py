"""Small cases to calibrate: a configuration of two participants, plain scripts as solvers, a study file."""

from __future__ import annotations

import textwrap
from pathlib import Path

CONFIGURATION = """\
<?xml version="1.0" encoding="UTF-8"?>
<precice-configuration>
  <!-- kept as it is -->
  <data:scalar name="Heat" />
  <data:scalar name="Flux" />
  <mesh name="A-Mesh" dimensions="2"><use-data name="Heat" /><use-data name="Flux" /></mesh>
  <mesh name="B-Mesh" dimensions="2"><use-data name="Heat" /><use-data name="Flux" /></mesh>
  <participant name="Left">
    <provide-mesh name="A-Mesh" />
    <receive-mesh name="B-Mesh" from="Right" />
    <write-data name="Heat" mesh="A-Mesh" />
    <read-data name="Flux" mesh="A-Mesh" />
    <mapping:nearest-neighbor direction="read" from="B-Mesh" to="A-Mesh" constraint="consistent" />
  </participant>
  <participant name="Right">
    <provide-mesh name="B-Mesh" />
    <receive-mesh name="A-Mesh" from="Left" />
    <write-data name="Flux" mesh="B-Mesh" />
    <read-data name="Heat" mesh="B-Mesh" />
    <mapping:nearest-neighbor direction="read" from="A-Mesh" to="B-Mesh" constraint="consistent" />
  </participant>
  <m2n:sockets acceptor="Left" connector="Right" exchange-directory="." />
  <coupling-scheme:parallel-explicit>
    <participants first="Left" second="Right" />
    <time-window-size value="1" />
    <max-time-windows value="1000" />
    <exchange data="Heat" mesh="A-Mesh" from="Left" to="Right" />
    <exchange data="Flux" mesh="B-Mesh" from="Right" to="Left" />
  </coupling-scheme:parallel-explicit>
</precice-configuration>
"""

# Leaves the file a recorder would leave, and what a test wants to look at.
SOLVER = """\
import json, os, pathlib, sys
name = sys.argv[1]
here = pathlib.Path.cwd()
store = pathlib.Path(os.environ["PRECICE_LB_DIR"], "00")
store.mkdir(exist_ok=True)
told = [os.environ.get(name) for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")]
size = next(filter(None, told), "1")
(store / f"{name}-0-{size}.h5").write_bytes(b"")
(here / f"{name}-seen.json").write_text(json.dumps({k: v for k, v in os.environ.items()}))
os.write(1, f"{name} says hello\\n".encode())  # in one piece, since ranks share the log
"""


def write_case(directory: Path, solver: str = SOLVER) -> Path:
    """Write a case of Left and Right whose solver is one script; return its directory."""
    case = directory / "case"
    case.mkdir(parents=True)
    (case / "precice-config.xml").write_text(CONFIGURATION)
    (case / "solver.py").write_text(textwrap.dedent(solver))
    return case


def write_study(
    directory: Path,
    *,
    runs: str = "",
    launcher: str = "oversubscribe = true",
    extra: str = "",
    left: str = "",
    right: str = "",
) -> Path:
    """Write a study of `write_case`'s case with four ranks; the arguments are added to their tables."""
    study = directory / "study.toml"
    study.write_text(
        f"""\
[case]
directory = "case"

[runs]
windows = 7
warmup_windows = 2
time_limit_seconds = 300
{runs}

[budget]
ranks = 4

[launcher]
{launcher}

{extra}

[[participants]]
name = "Left"
command = "python solver.py Left"
degrees_of_freedom = 1000
{left}

[[participants]]
name = "Right"
command = "python solver.py Right"
{right}
"""
    )
    return study
