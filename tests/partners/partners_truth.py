"""Coupled cases, and what libprecice makes of them: connections, and the vertices that each rank keeps.

    python tests/partners/partners_truth.py tests/data/partners/truth.json.gz

runs the random cases of that file on the libprecice that is there, and writes what it made of them. Every case is a
real run: each rank lists its TCP connections after ``initialize()``, and ``<export:csv>`` writes the received meshes.
Coordinates are thousandths, which the export's six digits keep, and no two vertices of a mesh coincide, so that the
exported vertices are recognised. Several cases of the same ranks share one start of the ranks.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Spec = dict[str, Any]

GRID = 1000
_ORDER = ["provide", "receive", "read", "write", "mapping"]


def configuration(spec: Spec, directory: str = ".") -> str:
    """Write the case as a precice-config.xml."""
    lines = ['<?xml version="1.0"?>', '<precice-configuration experimental="true">', '<log enabled="false"/>']
    names = list(spec["meshes"])
    data = [f"D{index}" for index in range(len(spec["links"]))]
    lines += [f'<data:scalar name="{field}"/>' for field in (*data, "Unused")]
    uses: dict[str, set[str]] = {name: set() for name in names}
    sections: dict[str, list[str]] = {"A": [], "B": []}
    exchanges = []
    for name, mesh in spec["meshes"].items():
        sections[mesh["owner"]].append(f'<provide-mesh name="{name}"/>')
    for field, link in zip(data, spec["links"], strict=True):
        mesh, provider, receiver, read = link["mesh"], link["provider"], link["receiver"], link["direction"] == "read"
        uses[mesh].add(field)
        access = ' api-access="true"' if link["regions"] is not None else ""
        sections[receiver].append(
            f'<receive-mesh name="{mesh}" from="{provider}" safety-factor="{link["safety"]}" '
            f'geometric-filter="{link["filter"]}"{access}/>'
        )
        sections[provider].append(f'<{"write" if read else "read"}-data name="{field}" mesh="{mesh}"/>')
        locals_ = [m["local"] for m in link["mappings"] if m["local"]]
        for local in locals_ or [mesh]:
            uses[local].add(field)
            sections[receiver].append(f'<{"read" if read else "write"}-data name="{field}" mesh="{local}"/>')
        sections[receiver] += [_mapping(mapping, mesh, read) for mapping in link["mappings"]]
        start, end = (provider, receiver) if read else (receiver, provider)
        exchanges.append(f'<exchange data="{field}" mesh="{mesh}" from="{start}" to="{end}"/>')
    for name in names:
        uses[name] = uses[name] or {"Unused"}
        used = "".join(f'<use-data name="{field}"/>' for field in sorted(uses[name]))
        lines.append(f'<mesh name="{name}" dimensions="{spec["dimensions"]}">{used}</mesh>')
    for who, body in sections.items():
        order = sorted(body, key=lambda line: _ORDER.index(line[1:].split("-")[0].split(":")[0]))
        lines += [
            f'<participant name="{who}">',
            *order,
            f'<export:csv directory="{directory}/exports"/>',
            "</participant>",
        ]
    two = "true" if spec["two_level"] else "false"
    lines.append(f'<m2n:sockets acceptor="A" connector="B" exchange-directory="{directory}"')
    lines.append(f'use-two-level-initialization="{two}"/>')
    lines += [
        '<coupling-scheme:parallel-explicit><participants first="A" second="B"/><max-time-windows value="1"/>',
        '<time-window-size value="1"/>',
        *exchanges,
        "</coupling-scheme:parallel-explicit>",
        "</precice-configuration>",
    ]
    return "\n".join(lines) + "\n"


def _mapping(mapping: dict[str, Any], mesh: str, read: bool) -> str:
    local = mapping["local"]
    ends = {"from": mesh if read else local, "to": local if read else mesh}
    named = "".join(f' {key}="{value}"' for key, value in ends.items() if value)
    polynomial, body, cluster = "", "", ""
    if mapping["basis"] is not None:
        function, parameters = mapping["basis"]
        attributes = "".join(f' {key}="{value}"' for key, value in parameters.items())
        polynomial = ' polynomial="off"' if function.startswith(("compact", "gaussian", "inverse")) else ""
        body = f"<basis-function:{function}{attributes}/>"
        cluster = ' vertices-per-cluster="15"' if mapping["kind"] == "rbf-pum-direct" else ""
    constraint = "consistent" if read else "conservative"
    start = f'<mapping:{mapping["kind"]} direction="{"read" if read else "write"}"{named} constraint="{constraint}"'
    return f"{start}{polynomial}{cluster}>{body}</mapping:{mapping['kind']}>"


def run_rank(directory: Path, who: str) -> None:
    """Initialise all cases of a directory as one rank of one participant, recorded where meshes are asked for."""
    from mpi4py import MPI

    precice = importlib.import_module("precice_lb" if "PRECICE_LB_MESHES" in os.environ else "precice")

    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    for place in sorted(directory.iterdir()):
        if not place.is_dir():
            continue
        spec = json.loads((place / "spec.json").read_text())
        os.environ["PRECICE_LB_DIR"] = str(place / "store")
        participant = precice.Participant(who, str(place / "precice-config.xml"), rank, size)
        for name, mesh in spec["meshes"].items():
            if mesh["owner"] == who:
                _set_mesh(participant, name, mesh, rank)
        for link in spec["links"]:
            if link["receiver"] == who and link["regions"] is not None:
                participant.set_mesh_access_region(link["mesh"], np.array(link["regions"][rank]).ravel())
        participant.initialize()
        (place / f"{who}-{rank}.json").write_text(json.dumps(_connections()))
        participant.finalize()
        MPI.COMM_WORLD.Barrier()


def _set_mesh(participant: Any, name: str, mesh: dict[str, Any], rank: int) -> None:
    start = sum(mesh["counts"][:rank])
    count = mesh["counts"][rank]
    points = np.array(mesh["points"], dtype=float)[start : start + count] / GRID
    if not count:
        return
    ids = participant.set_mesh_vertices(name, points)
    calls = {"edges": "set_mesh_edges", "triangles": "set_mesh_triangles", "tetrahedra": "set_mesh_tetrahedra"}
    for kind, cells in mesh["cells"].items():
        mine = np.array([cell for cell in cells if start <= cell[0] < start + count], dtype=int)
        if len(mine) and participant.requires_mesh_connectivity_for(name):
            getattr(participant, calls[kind])(name, ids[mine - start])


def _connections() -> list[tuple[str, str]]:
    """Local and remote end of every TCP connection of this process, open or just closed by the other side."""
    inodes = set()
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    # The kernel may list a connection twice while others come and go.
    ends = set()
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and not fields[2].endswith(":0000"):
                ends.add((fields[1][-4:], fields[2][-4:]))
    return sorted(ends)


def collect(place: Path, spec: Spec) -> dict[str, Any]:
    """What a run made of a case: connections per pair of ranks, and each receiver rank's vertices per mesh."""
    ends = {
        (remote, local): rank
        for rank in range(spec["ranks"][0])
        for local, remote in json.loads((place / f"A-{rank}.json").read_text())
    }
    count = Counter(
        (ends[local, remote], rank)
        for rank in range(spec["ranks"][1])
        for local, remote in json.loads((place / f"B-{rank}.json").read_text())
        if (local, remote) in ends
    )
    kept = {}
    for link in spec["links"]:
        place_of = {tuple(point): index for index, point in enumerate(spec["meshes"][link["mesh"]]["points"])}
        ranks, stem = spec["ranks"]["AB".index(link["receiver"])], f"{link['mesh']}-{link['receiver']}"
        kept[link["mesh"]] = rows = []
        for rank in range(ranks):
            name = f"{stem}.{rank}_init.csv" if ranks > 1 else f"{stem}.init.csv"
            lines = (place / "exports" / name).read_text().splitlines()[1:]
            cells = [line.split(";")[: spec["dimensions"]] for line in lines]
            rows.append(sorted(place_of[tuple(round(float(cell) * GRID) for cell in row)] for row in cells))
    return {"connections": [[a, b, n] for (a, b), n in sorted(count.items())], "kept": kept}


def run_cases(
    specs: list[Spec], mpiexec: str, time_limit: float = 60.0, record: Path | None = None
) -> list[dict[str, Any]]:
    """Run cases of the same numbers of ranks on libprecice, and collect what it made of them.

    With ``record`` the runs are recorded too, into the directory ``store`` of each case's directory below it.
    """
    ranks = specs[0]["ranks"]
    environment = {**os.environ, **({} if record is None else {"PRECICE_LB_MESHES": "coordinates"})}
    with tempfile.TemporaryDirectory() if record is None else contextlib.nullcontext(record) as name:
        directory = Path(name)
        places = []
        for number, spec in enumerate(specs):
            place = directory / f"{number:04d}"
            place.mkdir()
            (place / "spec.json").write_text(json.dumps(spec))
            (place / "precice-config.xml").write_text(configuration(spec, str(place)))
            places.append(place)
        command = [sys.executable, __file__, "--worker"]
        started = [
            subprocess.Popen(
                [mpiexec, "-n", str(count), *command, who, str(directory)],
                cwd=directory, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )
            for who, count in zip("AB", ranks, strict=True)
        ]  # fmt: skip
        deadline = time.monotonic() + time_limit
        try:
            # Until all have ended, or one has failed.
            while None in (codes := [process.poll() for process in started]) and not any(codes):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.05)
        finally:
            for process in started:
                process.terminate()
        problems = [process.communicate()[1] for process in started]
        done = []
        for place, spec in zip(places, specs, strict=True):
            complete = all(
                (place / f"{who}-{r}.json").exists() for who, n in zip("AB", ranks, strict=True) for r in range(n)
            )
            done.append(collect(place, spec) if complete else {"problem": "".join(problems)[-2000:]})
        return done


def read_cases(path: Path) -> dict[str, Any]:
    """Read the recorded cases: each its ``spec``, and the ``truth`` of it."""
    return dict(json.loads(gzip.decompress(path.read_bytes())))


def batches(cases: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Give cases of the same ranks that share a start."""
    for _, group in itertools.groupby(cases, lambda case: case["spec"]["ranks"]):
        same = list(group)
        yield from (same[first : first + 8] for first in range(0, len(same), 8))


def main() -> int:
    """Write the recorded truth anew, or serve as one rank."""
    if sys.argv[1] == "--worker":
        run_rank(Path(sys.argv[3]), sys.argv[2])
        return 0
    precice = importlib.import_module("precice")

    path = Path(sys.argv[1])
    cases = read_cases(path)["cases"]
    for batch in batches(cases):
        results = run_cases([case["spec"] for case in batch], str(Path(sys.executable).parent / "mpiexec"))
        for case, result in zip(batch, results, strict=True):
            case["truth"] = result
    version = precice.get_version_information().decode().partition(";")[0]
    text = json.dumps({"precice": version, "cases": cases}, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
