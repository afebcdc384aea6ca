"""Cases in which the embedded backend and libprecice must agree: generated over what combines, and hand-written.

``python embedded_cases.py FILE`` runs all of them on libprecice and records the results in FILE.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from embedded_helpers import points, run_batch, write_configuration

LIMIT = 1e-6
BOTH_WAYS = "Heat:A>B Force:B>A"
CONVERGENCE = (
    '<max-iterations value="40" /><relative-convergence-measure limit="1e-6" data:Heat />'
    '<relative-convergence-measure limit="1e-6" data:Force />'
)
ACCELERATIONS = {
    "plain": "",
    "constant": '<acceleration:constant><relaxation value="0.8" /></acceleration:constant>',
    "aitken": "<acceleration:aitken><data name:Force /></acceleration:aitken>",
    "IQN-ILS": '<acceleration:IQN-ILS><data name:Force /><initial-relaxation value="0.5" /></acceleration:IQN-ILS>',
}


@dataclass(frozen=True)
class Case:
    name: str
    exchanges: list[tuple[str, str, str, str]]
    ranks: dict[str, int]
    configuration: dict[str, Any] = field(default_factory=dict)
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    vertices: tuple[int, ...] = (13, 9, 7, 6, 5)
    watched: bool = True

    @property
    def is_implicit(self) -> bool:
        return any(not kind.endswith("explicit") for kind, *_ in self.exchanges)

    @property
    def is_quasi_newton(self) -> bool:
        return "IQN" in self.configuration.get("iteration", "")

    def all_roles(self) -> dict[str, dict[str, Any]]:
        items = [item.split(":") for *_, what in self.exchanges for item in what.split()]
        dimensions = self.configuration.get("dimensions", 2)
        return {
            name: {
                "points": points(self.vertices[number], dimensions, number),
                "writes": list(dict.fromkeys(data for data, way in items if way.split(">")[0] == name)),
                "reads": list(dict.fromkeys(data for data, way in items if way.split(">")[1] == name)),
                **self.roles.get(name, {}),
            }
            for number, name in enumerate(self.ranks)
        }

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        place = "0.3; 0.01; 0" if self.configuration.get("dimensions") == 3 else "0.3; 0.01"
        watch = f'<watch-point mesh="A-Mesh" name="Place" coordinate="{place}" />'
        write_configuration(
            directory / "precice-config.xml",
            participants={name: [watch] if name == "A" and self.watched else [] for name in self.ranks},
            exchanges=self.exchanges,
            **self.configuration,
        )


def surface(count: int, seed: int) -> list[list[float]]:
    """A grid of count x count vertices in 3-D with scatter."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(0, 1, count), np.linspace(0, 1, count), indexing="ij")
    vertices = np.stack([x.ravel(), y.ravel(), 0.1 * np.sin(3 * x + y).ravel()], axis=1)
    return (vertices + rng.uniform(-0.03, 0.03, vertices.shape)).tolist()


def _generated() -> Iterable[Case]:
    schemes = ("serial-explicit", "parallel-explicit", "serial-implicit", "parallel-implicit")
    mappings = ("nearest-neighbor", "rbf-global-direct")
    ranks = ((1, 1), (1, 2), (2, 3))
    directions = ("read", "write")
    everything = itertools.product(*map(enumerate, (schemes, mappings, (2, 3), ranks, directions)))
    for number, ((a, scheme), (b, mapping), (c, dimensions), (d, (left, right)), (e, direction)) in enumerate(
        everything
    ):
        if (a + b + c + d + e) % 2:
            continue
        acceleration = list(ACCELERATIONS)[(number // 2) % 4] if scheme.endswith("implicit") else "plain"
        configuration: dict[str, Any] = {
            "mapping": mapping,
            "dimensions": dimensions,
            "vector": ["Force"] if number % 3 else [],
            "initialize": ["Force"] if number % 5 == 0 else [],
            "end": '<max-time-windows value="2" />',
            "iteration": CONVERGENCE + ACCELERATIONS[acceleration],
        }
        if direction == "write":
            configuration |= {"write_direction": ["Force"], "conservative": ["Force"]}
        if mapping == "rbf-global-direct":
            configuration["inside_mapping"] = "<basis-function:thin-plate-splines />"
        roles: dict[str, dict[str, Any]] = {"A": {}, "B": {}}
        if dimensions == 3:
            roles = {"A": {"points": surface(5, 1)}, "B": {"points": surface(4, 2)}}
        if number % 4 == 0:
            roles["B"]["step"] = 0.04
        yield Case(
            f"{scheme} {acceleration} {mapping} {dimensions}-D {left}+{right} {direction}",
            [(scheme, "A", "B", BOTH_WAYS)],
            {"A": left, "B": right},
            configuration,
            roles,
        )


def _written(block: str) -> Case:
    """Read a case: its name; couplings as in "serial-implicit AB; multi BAC Load:B>C", ranks as in "A2 B3"; keys."""
    name, couplings, *lines = block.split("\n")
    couplings, _, ranks = couplings.partition(" | ")
    exchanges = []
    for coupling in couplings.split("; "):
        kind, members, *data = coupling.split(" ")
        exchanges.append((kind, members[0], ",".join(members[1:]), " ".join(data) or BOTH_WAYS))
    keys = {
        key: json.loads(text) if text[0] in "{[03" else text for key, text in (line.split(" = ", 1) for line in lines)
    }
    keys["iteration"] = keys.get("iteration", "CONVERGENCE").replace("CONVERGENCE", CONVERGENCE)
    names = sorted({member for _, first, others, _ in exchanges for member in (first, *others.split(","))})
    counts = dict.fromkeys(names, 1) | {part[0]: int(part[1:]) for part in ranks.split()}
    return Case(name, exchanges, counts, keys, keys.pop("roles", {}), tuple(keys.pop("vertices", Case.vertices)))


_FILE = Path(__file__).parents[1] / "data" / "embedded-cases.txt"
WRITTEN = [_written(block) for block in _FILE.read_text(encoding="utf-8").strip().split("\n\n")]
ONE = {"A": 1, "B": 1}
GUESSES = {"Guess-of-Heat": False, "Guess-of-Force": False, "Guess-of-Load": False, "Guess-of-Shift": False}


def _guessed(name: str, way: tuple[str, str, str], ranks: dict[str, int], iteration: str, **more: Any) -> Case:
    """Each data with a second field that is initialised, sent once per time window and not accelerated."""
    flows = [BOTH_WAYS, *(["Load:A>C Shift:C>A"] if "C" in ranks else [])]
    what = " ".join(f"{item} Guess-of-{item}" for flow in flows for item in flow.split())
    configuration = {"initialize": list(GUESSES), "substeps": GUESSES, "vector": ["Force", "Guess-of-Force"], **more}
    configuration = {"end": '<max-time-windows value="4" />', "iteration": CONVERGENCE + iteration, **configuration}
    step = {"A": {"step": 0.04}, "B": {"step": 0.03}}
    # Without it, iterations end at rounding, and quasi-Newton multiplies that.
    roles = {name: {"bend": bend, **step.get(name, {})} for name, bend in (("A", -0.6), ("B", 0.6), ("C", 0.4))}
    return Case(f"predictions, {name}", [(*way, what)], ranks, configuration, roles)


PREDICTIONS = [
    *(
        _guessed(f"{scheme} {acceleration} {sum(ranks.values())} ranks", (scheme, "A", "B"), ranks, iteration)
        for scheme in ("serial-implicit", "parallel-implicit")
        for acceleration, iteration in ACCELERATIONS.items()
        for ranks in (ONE, {"A": 2, "B": 3})
        if ranks is ONE or acceleration == "IQN-ILS"
    ),
    _guessed("multi", ("multi", "A", "B,C"), dict.fromkeys("ABC", 1), ACCELERATIONS["constant"]),
]
CASES = [*_generated(), *WRITTEN, *PREDICTIONS]


def run_cases(mpiexec: str, directory: Path, backend: str, cases: Iterable[Case]) -> dict[str, dict[str, np.ndarray]]:
    """Results of cases by name; those of the same rank counts run in the same processes."""
    groups: dict[tuple[tuple[str, int], ...], list[Case]] = {}
    for one in cases:
        groups.setdefault(tuple(one.ranks.items()), []).append(one)
    results = {}
    for ranks, group in groups.items():
        places = {f"{CASES.index(one):03d}": one for one in group}
        for place, one in places.items():
            if not (directory / place).exists():
                one.write(directory / place)
        roles = {place: one.all_roles() for place, one in places.items()}
        found = run_batch(mpiexec, directory, backend, dict(ranks), roles)
        results.update({places[place].name: values for place, values in found.items()})
    return results


def kept(one: Case, key: str) -> bool:
    """Whether a result is kept as data: in generated cases what is read at the ends of time windows is enough."""
    what = key.partition("|")[2]
    if "many windows" in one.name and what.endswith("@window"):
        return False
    return (
        "@" not in what
        or what.endswith(("@window", "@end"))
        or (what.endswith("@0.5") and one in WRITTEN and one.vertices == Case.vertices)
    )


def record(file: Path) -> None:
    """Run all cases on libprecice and keep the results, with the version."""
    import subprocess

    version = subprocess.run(
        [sys.executable, "-c", "import precice; print(precice.get_version_information().decode())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split(";")[0]
    with tempfile.TemporaryDirectory() as directory:
        mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or "mpiexec"
        results = run_cases(mpiexec, Path(directory), "libprecice", CASES)
    chosen = {
        f"{one.name}|{key}": values for one in CASES for key, values in results[one.name].items() if kept(one, key)
    }
    # One array of all numbers: thousands of small ones would be mostly headers.
    shapes = json.dumps({key: np.shape(values) for key, values in chosen.items()})
    numbers = np.concatenate([np.ravel(values).astype(float) for values in chosen.values()])
    np.savez_compressed(file, version=np.array(version.strip()), shapes=np.array(shapes), numbers=numbers)


def recorded(file: Path) -> tuple[str, dict[str, dict[str, np.ndarray]]]:
    """Version of preCICE, and what `record` has kept of it, by case."""
    results: dict[str, dict[str, np.ndarray]] = {one.name: {} for one in CASES}
    with np.load(file) as content:
        version, numbers, position = str(content["version"]), content["numbers"], 0
        for key, shape in json.loads(str(content["shapes"])).items():
            case, _, what = key.partition("|")
            size = int(np.prod(shape))
            results[case][what] = numbers[position : position + size].reshape(shape)
            position += size
    return version, results


if __name__ == "__main__":
    record(Path(sys.argv[1]))
