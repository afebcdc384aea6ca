"""What is said of the start of a segment is what solvers read there, on both backends."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from record_helpers import environment

from precice_lb.chain.check import starts
from precice_lb.precice_xml import read_configuration

SOLVER = """
import json, sys
import numpy as np
import precice

name, partner = sys.argv[1:]
participant = precice.Participant(name, "precice-config.xml", 0, 1)
mesh = f"{name}-Mesh"
ids = participant.set_mesh_vertices(mesh, np.zeros((1, 2)))

def write(value):
    for data in ("Heat", "Force"):
        participant.write_data(mesh, f"{name}-{data}", ids, np.array([value]))

if participant.requires_initial_data():
    write(1.0)
participant.initialize()
seen = None
while participant.is_coupling_ongoing():
    participant.requires_writing_checkpoint()
    dt = participant.get_max_time_step_size()
    if seen is None:
        moments = (0.0, 0.5 * dt, dt)
        seen = {
            data: [participant.read_data(mesh, data, ids, moment)[0] for moment in moments]
            for data in (f"{partner}-Heat", f"{partner}-Force")
        }
    write(2.0)
    participant.advance(dt)
    participant.requires_reading_checkpoint()
participant.finalize()
with open(f"{name}.json", "w") as file:
    json.dump(seen, file)
"""
# What is read at the start, in the middle and at the end of the first window, in its first iteration.
READ = {"kept": [[1.0, 1.0, 1.0], [1.0, 1.5, 2.0]], "late": [[0.0, 1.0, 2.0]], "zero": [[0.0, 0.0, 0.0]]}
# Of data from A and from B, those that are initialised.
INITIALISED = [((), ()), (("Heat", "Force"), ()), ((), ("Force",)), (("Heat",), ("Heat",))]


def configuration(kind: str, initialised: dict[str, tuple[str, ...]]) -> str:
    """Two solvers that exchange two fields in both directions."""
    names = [f"{name}-{data}" for name in "AB" for data in ("Heat", "Force")]
    used = "".join(f'<use-data name="{name}" />' for name in names)
    parts = [*(f'<data:scalar name="{name}" />' for name in names)]
    parts += [f'<mesh name="{name}-Mesh" dimensions="2">{used}</mesh>' for name in "AB"]
    exchanges = []
    for name, partner in ("AB", "BA"):
        parts.append(
            f'<participant name="{name}"><provide-mesh name="{name}-Mesh" />'
            f'<receive-mesh name="{partner}-Mesh" from="{partner}" />'
            f'<mapping:nearest-neighbor direction="read" from="{partner}-Mesh" to="{name}-Mesh" '
            'constraint="consistent" />'
        )
        for data in ("Heat", "Force"):
            parts.append(f'<write-data name="{name}-{data}" mesh="{name}-Mesh" />')
            parts.append(f'<read-data name="{partner}-{data}" mesh="{name}-Mesh" />')
            start = str(data in initialised[name]).lower()
            way = f'from="{name}" to="{partner}"'
            exchanges.append(f'<exchange data="{name}-{data}" mesh="{name}-Mesh" {way} initialize="{start}" />')
        parts.append("</participant>")
    limit = '<max-iterations value="2" />' if "implicit" in kind else ""
    return "\n".join(
        [
            '<?xml version="1.0"?><precice-configuration><log enabled="false" />',
            *parts,
            '<m2n:sockets acceptor="A" connector="B" exchange-directory="." />',
            f'<coupling-scheme:{kind}><participants first="A" second="B" /><max-time-windows value="2" />',
            '<time-window-size value="1" />',
            *exchanges,
            f"{limit}</coupling-scheme:{kind}></precice-configuration>",
        ]
    )


@pytest.mark.parametrize("kind", ["serial-explicit", "parallel-explicit", "serial-implicit", "parallel-implicit"])
@pytest.mark.parametrize("initialised", INITIALISED)
@pytest.mark.parametrize("backend", ["embedded", pytest.param("libprecice", marks=pytest.mark.precice)])
def test_solvers_read_what_is_said(tmp_path, kind, initialised, backend):
    path = tmp_path / "precice-config.xml"
    path.write_text(configuration(kind, dict(zip("AB", initialised, strict=True))))
    (tmp_path / "solver.py").write_text(SOLVER)
    command = [sys.executable, "-m", "precice_lb", "run", "solver.py"]
    variables = environment(PRECICE_LB_BACKEND=backend, PRECICE_LB_RECORD="0")
    running = [
        subprocess.Popen([*command, *pair], cwd=tmp_path, env=variables, stderr=subprocess.PIPE, text=True)
        for pair in ("AB", "BA")
    ]
    try:
        for process in running:
            _, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
    finally:
        for process in running:
            process.kill()
            process.wait()
    read = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in "AB"}
    for start in starts(read_configuration(path)):
        assert read[start.exchange.target][start.exchange.data] in READ[start.kind], start
