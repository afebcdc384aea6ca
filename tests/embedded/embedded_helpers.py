"""Cases for the embedded backend: a configuration writer, a launcher, and (run as a script) a small solver.

``python embedded_helpers.py case.json PARTICIPANT`` is the solver: on either backend it does what the case says and
saves everything that the coupling answered, per rank.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from precice_lb.case import M2N
from precice_lb.case.elements import Element

SECONDS = 400
STARTED: list[subprocess.Popen[str]] = []


def write_configuration(
    path: Path,
    *,
    participants: Mapping[str, Sequence[str]],
    exchanges: Sequence[tuple[str, str, str, str]],
    dimensions: int = 2,
    vector: Sequence[str] = (),
    degrees: Mapping[str, int] | None = None,
    end: str = '<max-time-windows value="3" />',
    window: float | str | Sequence[float] = 0.1,
    write_direction: bool | Sequence[str] = False,
    conservative: Sequence[str] = (),
    mapping: str = "nearest-neighbor",
    inside_mapping: str = "",
    initialize: Sequence[str] = (),
    substeps: Mapping[str, bool] | None = None,
    iteration: str = "",
    receive: str = "",
    directory: str = ".",
) -> Path:
    """Write a configuration in which each participant has one mesh ``<P>-Mesh``.

    ``exchanges`` are (kind of scheme, first, second, "Data:first>second Data:second>first"); in a ``multi`` scheme
    the first is the controller and the second a list as in "B,C". Each data is read by a read mapping at its
    receiver, or, where ``write_direction`` holds, written by a write mapping at its sender. ``iteration`` is what
    implicit schemes have more, where ``data:Heat`` and ``name:Heat`` stand for the attributes of a data with its mesh.
    """
    data: list[str] = []
    tags: dict[str, list[str]] = {name: [] for name in participants}
    meshes: dict[str, list[str]] = {name: [] for name in participants}
    m2ns: list[str] = []
    schemes: list[str] = []

    def add(lines: list[str], line: str, *, first: bool = False) -> None:
        if line not in lines:
            lines.insert(0 if first else len(lines), line)

    for kind, first, second, what in exchanges:
        lines = []
        homes: dict[str, str] = {}
        for item in what.split():
            name, way = item.split(":")
            sender, receiver = way.split(">")
            data += [name] if name not in data else []
            for end_of_it in (sender, receiver):
                meshes[end_of_it] += [name] if name not in meshes[end_of_it] else []
            add(tags[sender], f'<write-data name="{name}" mesh="{sender}-Mesh" />')
            add(tags[receiver], f'<read-data name="{name}" mesh="{receiver}-Mesh" />')
            writes = write_direction if isinstance(write_direction, bool) else name in write_direction
            mapper, other = (sender, receiver) if writes else (receiver, sender)
            add(tags[mapper], f'<receive-mesh name="{other}-Mesh" from="{other}" {receive}/>', first=True)
            constraint = "conservative" if name in conservative else "consistent"
            head = (
                f'<mapping:{mapping} direction="{"write" if writes else "read"}" from="{sender}-Mesh" '
                f'to="{receiver}-Mesh" constraint="{constraint}"'
            )
            add(tags[mapper], f"{head}>{inside_mapping}</mapping:{mapping}>" if inside_mapping else f"{head} />")
            homes[name] = f"{receiver if writes else sender}-Mesh"
            more = ' initialize="true"' if item in initialize or name in initialize else ""
            if substeps is not None and name in substeps:
                more += f' substeps="{str(substeps[name]).lower()}"'
            lines.append(f'<exchange data="{name}" mesh="{homes[name]}" from="{sender}" to="{receiver}"{more} />')
        partners = second.split(",")
        for partner in partners:
            m2ns.append(f'<m2n:sockets acceptor="{first}" connector="{partner}" exchange-directory="{directory}" />')
        members = f'<participants first="{first}" second="{second}" />'
        if kind == "multi":
            members = f'<participant name="{first}" control="true" />' + "".join(
                f'<participant name="{partner}" />' for partner in partners
            )
        if not kind.endswith("explicit"):
            for name, home in homes.items():
                iteration = iteration.replace(f"data:{name} ", f'data="{name}" mesh="{home}" ')
                iteration = iteration.replace(f"name:{name} ", f'name="{name}" mesh="{home}" ')
            lines.append(iteration)
        size = window
        if not isinstance(window, str):
            number = window if isinstance(window, float) else window[len(schemes)]
            size = f'<time-window-size value="{number}" />'
        schemes.append(
            f"<coupling-scheme:{kind}>\n{members}\n{size}\n{end}\n" + "\n".join(lines) + f"\n</coupling-scheme:{kind}>"
        )
    text = ["<precice-configuration>", '<log enabled="false" />']
    for name in data:
        degree = f' waveform-degree="{degrees[name]}"' if degrees and name in degrees else ""
        text.append(f'<data:{"vector" if name in vector else "scalar"} name="{name}"{degree} />')
    for name, used in meshes.items():
        uses = "".join(f'<use-data name="{one}" />' for one in used)
        text.append(f'<mesh name="{name}-Mesh" dimensions="{dimensions}">{uses}</mesh>')
    for name, inside in tags.items():
        body = "\n".join([f'<provide-mesh name="{name}-Mesh" />', *inside, *participants[name]])
        text.append(f'<participant name="{name}">\n{body}\n</participant>')
    path.write_text("\n".join([*text, *m2ns, *schemes, "</precice-configuration>", ""]))
    return path


def m2n(directory: Path, connector: str = "B", acceptor: str = "A", **attributes: str) -> M2N:
    """Make the rendezvous of two participants in a directory."""
    element = Element("m2n:sockets", 0, attributes)
    return M2N("sockets", acceptor, connector, str(directory), False, element)


def points(count: int, dimensions: int, seed: int) -> list[list[float]]:
    """Vertices along the first axis with some scatter: contiguous parts of them overlap between participants."""
    rng = np.random.default_rng(seed)
    result = rng.uniform(-0.03, 0.03, (count, dimensions))
    result[:, 0] += np.linspace(0.0, 1.0, count)
    return result.tolist()


def field(vertices: np.ndarray, components: int, data: str, now: float, feedback: np.ndarray | float) -> np.ndarray:
    """Return what the solver writes for a data at a time, given the first component of what it has read."""
    phase = vertices.sum(axis=1) * 3.0 + now + sum(map(ord, data)) % 7
    values = np.stack([np.sin(phase + axis) + 0.25 * feedback for axis in range(components)], axis=1)
    return values[:, 0] if components == 1 else values


def case(
    directory: Path, configuration: Path, roles: Mapping[str, Mapping[str, Any]], backend: str = "embedded"
) -> Path:
    """Write a case file: what each participant's solver does."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"case-{backend}.json"
    content = {"backend": backend, "configuration": str(configuration), "roles": roles}
    path.write_text(json.dumps(content))
    return path


def start(
    mpiexec: str, case_file: Path, participant: str, ranks: int, extra: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start one participant's solver in the directory of the case file."""
    command = [sys.executable, "-W", "error", str(Path(__file__).resolve()), str(case_file), participant]
    if ranks > 1:
        command = [mpiexec, "-n", str(ranks), *command]
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "PRECICE_LB_TIMEOUT": "300", **(extra or {})}
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, cwd=case_file.parent, env=environment, start_new_session=True, **streams)
    STARTED.append(process)
    return process


def end_all() -> None:
    """Kill what a test that failed has left running."""
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def finish(process: subprocess.Popen[str], seconds: float = SECONDS) -> tuple[int, str]:
    """Wait for a solver; kill all its ranks if it does not end."""
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise AssertionError(f"did not end within {seconds} s:\n{output}") from None
    return process.returncode, output


def solver(case_file: Path, name: str) -> None:
    """Couple as the case file says, and save what came back."""
    content = json.loads(case_file.read_text())
    precice, rank, size = _backend(content["backend"])
    saved = _couple(precice, content["configuration"], content["roles"][name], name, rank, size)
    np.savez(case_file.with_name(f"{case_file.stem}-{name}-{rank}.npz"), **saved)


def _backend(name: str) -> tuple[Any, int, int]:
    modules = {"libprecice": "precice", "embedded": "precice_lb.embedded"}
    precice = importlib.import_module(modules[name])
    rank, size = 0, 1
    if "PMI_RANK" in os.environ or "OMPI_COMM_WORLD_RANK" in os.environ or name == "libprecice":
        from mpi4py import MPI

        rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    return precice, rank, size


def _couple(
    precice: Any, configuration: str, role: Mapping[str, Any], name: str, rank: int, size: int
) -> dict[str, np.ndarray]:
    participant = precice.Participant(name, configuration, rank, size)
    mesh = f"{name}-Mesh"
    # Vertices lie on some ranks in the middle.
    idle = role.get("idle", 0)
    owners = role.get("owners", size - idle)
    mine = np.zeros((0, participant.get_mesh_dimensions(mesh)))
    if idle <= rank < idle + owners:
        mine = np.array_split(np.array(role["points"]), owners)[rank - idle]
    ids = participant.set_mesh_vertices(mesh, mine)
    saved: dict[str, list[Any]] = {}

    def save(key: str, value: Any) -> None:
        saved.setdefault(key, []).append(value)

    def value(data: str, now: float, feedback: np.ndarray) -> np.ndarray:
        if "bend" in role:
            feedback = role["bend"] * (1.0 + mine[:, 0]) * np.sin(feedback)
        return field(mine, participant.get_data_dimensions(mesh, data), data, now, feedback)

    if participant.requires_initial_data():
        for data in role["writes"]:
            participant.write_data(mesh, data, ids, value(data, -1.0, np.zeros(len(mine))))
    participant.initialize()
    if role.get("mark"):
        Path(f"{name}-{rank}.initialized").touch()

        def linger(*error: Any) -> None:
            # A launcher ends the other ranks when one has failed: they say first what they know.
            traceback.print_exception(*error)
            time.sleep(3.0)

        sys.excepthook = linger
    now = 0.0
    steps = 0
    kept = 0.0
    while participant.is_coupling_ongoing():
        if participant.requires_writing_checkpoint():
            kept = now
            save("saved", steps)
        limit = participant.get_max_time_step_size()
        step = min(limit, role.get("step", limit))
        save("limit", limit)
        feedback = np.zeros(len(mine))
        for data in role["reads"]:
            for fraction in (0.0, 0.5, 1.0):
                got = participant.read_data(mesh, data, ids, fraction * step)
                save(f"{data}@{fraction}", got)
            feedback += (got if got.ndim == 1 else got[:, 0]) if len(got) else 0.0
        now += step
        if not role.get("write_first_only") or steps % role["write_first_only"] == 0:
            for data in role["writes"]:
                participant.write_data(mesh, data, ids, value(data, now, feedback))
        time.sleep(role.get("sleep", 0.0))
        participant.advance(step)
        if participant.requires_reading_checkpoint():
            now = kept
            save("repeated", steps)
        save("complete", participant.is_time_window_complete())
        if participant.is_time_window_complete():
            for data in role["reads"]:
                save(f"{data}@window", participant.read_data(mesh, data, ids, 0.0))
        steps += 1
        if steps == role.get("kill_at"):
            os.kill(os.getpid(), signal.SIGKILL)
    for data in role["reads"]:
        save(f"{data}@end", participant.read_data(mesh, data, ids, 0.0))
    if role.get("finalize", True):
        participant.finalize()
    return {key: np.array(values) for key, values in saved.items()}


def batch(batch_file: Path, name: str) -> None:
    """Couple in many cases one after the other, each in a directory of its own."""
    content = json.loads(batch_file.read_text())
    precice, rank, size = _backend(content["backend"])
    saved = {}
    for number, one in enumerate(content["cases"]):
        directory = Path(content["directories"][number])
        os.chdir(directory)
        try:
            result = _couple(precice, str(directory.parent / "precice-config.xml"), one[name], name, rank, size)
        except Exception as error:
            traceback.print_exc()
            result = {"error": np.array([f"{type(error).__name__}: {error}"])}
        saved.update({f"{number}|{key}": values for key, values in result.items()})
    os.chdir(batch_file.parent)
    np.savez(batch_file.with_name(f"{batch_file.stem}-{name}-{rank}.npz"), **saved)


def run_batch(
    mpiexec: str,
    directory: Path,
    backend: str,
    ranks: Mapping[str, int],
    cases: Mapping[str, Mapping[str, Any]],
    extra: Mapping[str, str] | None = None,
) -> dict[str, dict[str, np.ndarray]]:
    """Run cases of the same rank counts, by directory (with a ``precice-config.xml``) and roles, in one go.

    Returns what each rank saved and the tables of each participant, by directory and ``P-rank|key`` or ``P|table``.
    """
    homes = [directory / name / backend for name in cases]
    for home in homes:
        home.mkdir(parents=True)
    label = "-".join(f"{name}{count}" for name, count in ranks.items())
    file = directory / f"batch-{backend}-{label}.json"
    content = {"backend": backend, "cases": list(cases.values()), "directories": [str(home) for home in homes]}
    file.write_text(json.dumps(content))
    processes = [start(mpiexec, file, name, count, extra) for name, count in ranks.items()]
    outputs = [finish(process, 3 * SECONDS) for process in processes]
    assert all(code == 0 for code, _ in outputs), "\n".join(output for _, output in outputs)
    results: dict[str, dict[str, np.ndarray]] = {name: {} for name in cases}
    for participant, count in ranks.items():
        for rank in range(count):
            with np.load(file.with_name(f"{file.stem}-{participant}-{rank}.npz")) as saved:
                for key in saved.files:
                    number, _, what = key.partition("|")
                    results[list(cases)[int(number)]][f"{participant}-{rank}|{what}"] = saved[key]
    for name, home in zip(cases, homes, strict=True):
        for path in sorted(home.glob("precice-*.log")):
            if "convergence" not in path.name:
                results[name][f"{path.stem}|table"] = np.loadtxt(path, skiprows=1, ndmin=2)
    return results


if __name__ == "__main__":
    (batch if Path(sys.argv[1]).name.startswith("batch-") else solver)(Path(sys.argv[1]), sys.argv[2])
