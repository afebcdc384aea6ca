"""Random coupled cases, and what libprecice makes of them: connections, and the vertices that each rank keeps.

    python tests/partners/partners_truth.py tests/data/partners/truth.json.gz [--cases 200] [--seed 8]

Every case is a real run on libprecice: each rank lists its TCP connections after ``initialize()``, and
``<export:csv>`` writes the received meshes. Coordinates are thousandths, which the export's six digits keep, and no two
vertices of a mesh coincide, so that the exported vertices are recognised. Several cases share one start of the ranks.
"""

from __future__ import annotations

import argparse
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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Spec = dict[str, Any]

GRID = 1000
_ORDER = ["provide", "receive", "read", "write", "mapping"]
RANKS = [(2, 2), (2, 3), (3, 2), (4, 4), (3, 5), (2, 6), (8, 2), (1, 4), (4, 1), (1, 1), (6, 5), (8, 8), (5, 3), (4, 7)]
NEAREST = ["nearest-neighbor", "nearest-projection", "linear-cell-interpolation"]
KERNELS: list[tuple[str, str, dict[str, str]]] = [
    ("rbf-global-direct", "compact-polynomial-c2", {"support-radius": "0.2"}),
    ("rbf-global-direct", "compact-tps-c2", {"support-radius": "0.35"}),
    ("rbf-global-direct", "gaussian", {"shape-parameter": "100"}),
    ("rbf-global-direct", "gaussian", {"support-radius": "0.06"}),
    ("rbf-global-direct", "inverse-multiquadrics", {"shape-parameter": "0.005"}),
    ("rbf-pum-direct", "compact-polynomial-c0", {"support-radius": "0.3"}),
    ("rbf", "thin-plate-splines", {}),
]


def random_case(generator: np.random.Generator, ranks: tuple[int, int]) -> Spec:
    """Two participants with meshes received in one direction or both, and one or two meshes mapped to or from each."""
    dimensions = int(generator.integers(2, 4))
    two_level = min(ranks) > 1 and bool(generator.random() < 0.8)
    spec: Spec = {"dimensions": dimensions, "ranks": list(ranks), "two_level": two_level, "meshes": {}, "links": []}
    shape = _shape(generator, dimensions)
    ends = [("A", "B"), ("B", "A")]
    chosen = ends if generator.random() < 0.4 else [ends[int(generator.integers(2))]]
    for number, (provider, receiver) in enumerate(chosen):
        own = [f"{receiver}-{number}{letter}" for letter in ("x", "y")[: 1 + int(generator.random() < 0.4)]]
        mesh = f"{provider}-{number}"
        for name in (mesh, *own):
            count = ranks["AB".index(name[0])]
            spec["meshes"][name] = _random_mesh(generator, name[0], count, dimensions, shape)
        spec["links"].append(_random_link(generator, spec, provider, receiver, mesh, own))
    _without_unused_cells(spec)
    return spec


def _shape(generator: np.random.Generator, dimensions: int) -> dict[str, Any]:
    """A line or plane area in two dimensions, a wavy surface or a volume in three."""
    kind = str(generator.choice(["line", "area"] if dimensions == 2 else ["surface", "volume"]))
    return {"kind": kind, "wave": float(generator.random() * 6), "step": int(generator.choice([1, 1, 50]))}


def _random_mesh(
    generator: np.random.Generator, who: str, ranks: int, dimensions: int, shape: dict[str, Any]
) -> dict[str, Any]:
    count = int(generator.integers(12, 26)) * max(ranks, 2)
    free = 1 if shape["kind"] == "line" else (3 if shape["kind"] == "volume" else 2)
    points = generator.integers(0, GRID + 1, (count, free))
    # Coordinates on a coarse grid let boxes touch.
    points[:, 0] -= points[:, 0] % shape["step"]
    if free < dimensions:
        angle = points.sum(axis=1) / GRID * shape["wave"]
        points = np.column_stack([points, np.round(120 * np.sin(angle)).astype(int) + generator.integers(0, 30, count)])
    points = np.unique(points, axis=0)
    generator.shuffle(points)
    rank_of = _random_partition(generator, points, ranks)
    order = np.argsort(rank_of, kind="stable")
    counts = np.bincount(rank_of, minlength=ranks)
    mesh: dict[str, Any] = {"owner": who, "points": points[order].tolist(), "counts": counts.tolist()}
    mesh["cells"] = _cells(points[order] / GRID, counts, shape["kind"])
    return mesh


def _random_partition(generator: np.random.Generator, points: NDArray[np.int64], ranks: int) -> NDArray[np.int64]:
    style = str(generator.choice(["strips", "blocks", "scattered", "some empty"], p=[0.3, 0.35, 0.15, 0.2]))
    if style == "scattered":
        return generator.integers(0, ranks, len(points))
    along = points[:, int(generator.integers(points.shape[1]))]
    used = ranks if style != "some empty" else max(1, ranks - int(generator.integers(1, 3)))
    rank_of = np.argsort(np.argsort(along, kind="stable"), kind="stable") * used // len(points)
    if style == "blocks" and used > 3:
        half = used // 2
        low = points[:, 0] < np.median(points[:, 0])
        rank_of = np.where(low, rank_of * half // used, half + rank_of * (used - half) // used)
    return generator.permutation(ranks)[rank_of]


def _cells(points: NDArray[np.float64], counts: NDArray[np.int64], kind: str) -> dict[str, list[list[int]]]:
    """Triangulate each rank's vertices; a line gets the edges between neighbours."""
    from scipy.spatial import Delaunay, QhullError

    found: list[list[int]] = []
    name = {"line": "edges", "area": "triangles", "surface": "triangles", "volume": "tetrahedra"}[kind]
    start = 0
    for count in counts:
        own = points[start : start + count]
        if kind == "line":
            order = np.argsort(own[:, 0], kind="stable")
            found += [[int(start + a), int(start + b)] for a, b in itertools.pairwise(order)]
        elif count > points.shape[1] + 1:
            try:
                corners = Delaunay(own[:, :2] if kind != "volume" else own).simplices
            except QhullError:
                corners = np.empty((0, 3), int)
            for cell in corners:
                edges = own[cell[1:]] - own[cell[0]]
                if np.linalg.det(edges @ edges.T) > 1e-10:
                    found.append([int(start + each) for each in cell])
        start += int(count)
    return {name: found}


def _without_unused_cells(spec: Spec) -> None:
    """Forget cells that no mapping looks at, so that the recording stays small."""
    used = {link["mesh"] for link in spec["links"] for m in link["mappings"] if m["kind"] in NEAREST[1:]}
    for name, mesh in spec["meshes"].items():
        if name not in used:
            mesh["cells"] = {}


def _random_link(
    generator: np.random.Generator, spec: Spec, provider: str, receiver: str, mesh: str, own: list[str]
) -> dict[str, Any]:
    direction = str(generator.choice(["read", "write"]))
    link: dict[str, Any] = {"mesh": mesh, "provider": provider, "receiver": receiver, "direction": direction}
    link["safety"] = float(generator.choice([0.0, 0.05, 0.2, 0.5, 1.0], p=[0.05, 0.2, 0.25, 0.3, 0.2]))
    link["filter"] = str(generator.choice(["on-secondary-ranks", "no-filter"], p=[0.8, 0.2]))
    if not spec["two_level"] and generator.random() < 0.3:
        link["filter"] = "on-primary-rank"
    link["regions"] = None
    link["mappings"] = []
    if generator.random() < 0.2:
        link["regions"] = _random_regions(generator, spec, receiver)
        link["direction"] = direction = "read"
        if generator.random() < 0.5:
            kernel = generator.random() < 0.5
            kind, basis = ("rbf-pum-direct", [KERNELS[5][1], KERNELS[5][2]]) if kernel else ("nearest-neighbor", None)
            link["mappings"] = [{"kind": kind, "local": None, "basis": basis}]
        return link
    for local in own[: 1 if direction == "write" else len(own)]:
        if generator.random() < 0.55:
            kinds = [*NEAREST, "nearest-neighbor-gradient"] if direction == "read" else NEAREST
            link["mappings"].append({"kind": str(generator.choice(kinds)), "local": local, "basis": None})
        else:
            kind, function, parameters = KERNELS[int(generator.integers(len(KERNELS)))]
            link["mappings"].append({"kind": kind, "local": local, "basis": [function, parameters]})
    return link


def _random_regions(generator: np.random.Generator, spec: Spec, receiver: str) -> list[list[list[float]]]:
    ranks = spec["ranks"]["AB".index(receiver)]
    low = generator.integers(0, 600, (ranks, spec["dimensions"]))
    high = low + generator.integers(200, 500, low.shape)
    # The last dimension of lines and surfaces is thin.
    low[:, -1], high[:, -1] = -GRID, 2 * GRID
    return (np.stack([low, high], axis=2) / GRID).tolist()


def configuration(spec: Spec, directory: str = ".") -> str:
    """Write the case as a precice-config.xml."""
    lines = ['<?xml version="1.0"?>', '<precice-configuration experimental="true">', '<log enabled="false"/>']
    names = list(spec["meshes"])
    data = [f"D{index}" for index in range(len(spec["links"]))]
    lines += [f'<data:scalar name="{each}"/>' for each in (*data, "Unused")]
    uses: dict[str, set[str]] = {name: set() for name in names}
    sections: dict[str, list[str]] = {"A": [], "B": []}
    exchanges = []
    for name, mesh in spec["meshes"].items():
        sections[mesh["owner"]].append(f'<provide-mesh name="{name}"/>')
    for each, link in zip(data, spec["links"], strict=True):
        mesh, provider, receiver, read = link["mesh"], link["provider"], link["receiver"], link["direction"] == "read"
        uses[mesh].add(each)
        access = ' api-access="true"' if link["regions"] is not None else ""
        sections[receiver].append(
            f'<receive-mesh name="{mesh}" from="{provider}" safety-factor="{link["safety"]}" '
            f'geometric-filter="{link["filter"]}"{access}/>'
        )
        sections[provider].append(f'<{"write" if read else "read"}-data name="{each}" mesh="{mesh}"/>')
        locals_ = [m["local"] for m in link["mappings"] if m["local"]]
        for local in locals_ or [mesh]:
            uses[local].add(each)
            sections[receiver].append(f'<{"read" if read else "write"}-data name="{each}" mesh="{local}"/>')
        sections[receiver] += [_mapping(mapping, mesh, read) for mapping in link["mappings"]]
        start, end = (provider, receiver) if read else (receiver, provider)
        exchanges.append(f'<exchange data="{each}" mesh="{mesh}" from="{start}" to="{end}"/>')
    for name in names:
        uses[name] = uses[name] or {"Unused"}
        used = "".join(f'<use-data name="{each}"/>' for each in sorted(uses[name]))
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
        own = np.array([cell for cell in cells if start <= cell[0] < start + count], dtype=int)
        if len(own) and participant.requires_mesh_connectivity_for(name):
            getattr(participant, calls[kind])(name, ids[own - start])


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
    found = set()
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and not fields[2].endswith(":0000"):
                found.add((fields[1][-4:], fields[2][-4:]))
    return sorted(found)


def collect(place: Path, spec: Spec) -> dict[str, Any]:
    """What a run made of a case: connections per pair of ranks, and each receiver rank's vertices per mesh."""
    ends: dict[tuple[str, str], int] = {}
    for rank in range(spec["ranks"][0]):
        for local, remote in json.loads((place / f"A-{rank}.json").read_text()):
            ends[(remote, local)] = rank
    count: dict[tuple[int, int], int] = {}
    for rank in range(spec["ranks"][1]):
        for local, remote in json.loads((place / f"B-{rank}.json").read_text()):
            if (local, remote) in ends:
                pair = (ends[(local, remote)], rank)
                count[pair] = count.get(pair, 0) + 1
    kept = {}
    for link in spec["links"]:
        points = spec["meshes"][link["mesh"]]["points"]
        place_of = {tuple(point): index for index, point in enumerate(points)}
        ranks = spec["ranks"]["AB".index(link["receiver"])]
        rows = []
        for rank in range(ranks):
            stem = f"{link['mesh']}-{link['receiver']}"
            name = f"{stem}.{rank}_init.csv" if ranks > 1 else f"{stem}.init.csv"
            lines = (place / "exports" / name).read_text().splitlines()[1:]
            cells = [line.split(";")[: spec["dimensions"]] for line in lines]
            rows.append(sorted(place_of[tuple(round(float(cell) * GRID) for cell in row)] for row in cells))
        kept[link["mesh"]] = rows
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
            while any(process.poll() is None for process in started):
                broken = [process for process in started if process.poll()]
                if broken or time.monotonic() > deadline:
                    break
                time.sleep(0.05)
        finally:
            for process in started:
                if process.poll() is None:
                    process.terminate()
        problems = [process.communicate()[1] for process in started]
        done = []
        for place, spec in zip(places, specs, strict=True):
            complete = all(
                (place / f"{who}-{r}.json").exists() for who, n in zip("AB", ranks, strict=True) for r in range(n)
            )
            done.append(collect(place, spec) if complete else {"problem": "".join(problems)[-2000:]})
        return done


def main() -> int:
    """Write the recorded truth, or serve as one rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs=2)
    parser.add_argument("output", nargs="?", type=Path)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--mpiexec", default=str(Path(sys.executable).parent / "mpiexec"))
    arguments = parser.parse_args()
    if arguments.worker:
        run_rank(Path(arguments.worker[1]), arguments.worker[0])
        return 0
    import precice

    generator = np.random.default_rng(arguments.seed)
    kept: list[dict[str, Any]] = []
    refused = 0
    while len(kept) < arguments.cases:
        ranks = RANKS[(len(kept) // arguments.batch) % len(RANKS)]
        specs = [random_case(generator, ranks) for _ in range(arguments.batch)]
        results = run_cases(specs, arguments.mpiexec)
        for spec, result in zip(specs, results, strict=True):
            if "problem" in result:
                refused += 1
                kinds = [mapping["basis"] or mapping["kind"] for link in spec["links"] for mapping in link["mappings"]]
                print(ranks, spec["two_level"], kinds, result["problem"][-300:], file=sys.stderr)
            elif len(kept) < arguments.cases:
                kept.append({"spec": spec, "truth": result})
        print(f"{len(kept)} cases kept, {refused} that preCICE refused or that came after one", flush=True)
    version = precice.get_version_information().decode().partition(";")[0]
    text = json.dumps({"precice": version, "cases": kept}, separators=(",", ":"))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
