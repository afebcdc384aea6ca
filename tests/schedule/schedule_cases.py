"""Couplings of participants that sleep: measured with a real preCICE, to be predicted and measured again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from clock_helpers import emulated_clock
from precice_xml_helpers import scheme

from precice_lb.case import parse_configuration
from precice_lb.schedule import Schedule

SLEEPER = Path(__file__).with_name("schedule_sleeper.py")
COSTS = {"A": 0.1, "B": 0.05, "C": 0.2, "D": 0.3}
Link = tuple[str, str]


@dataclass(frozen=True)
class Scheme:
    """One coupling scheme; ``one_way`` keeps the first participant's data alone."""

    kind: str
    pair: str
    size: float = 0.1
    one_way: bool = False
    from_first: bool = False

    @property
    def links(self) -> list[Link]:
        """Who sends to whom."""
        first, *others = self.pair
        back = [] if self.one_way else [(other, first) for other in others]
        return [*((first, other) for other in others), *back]


@dataclass(frozen=True, eq=False)
class Case:
    """A coupling with seconds per iteration of each participant, in windows that repeat."""

    name: str
    schemes: tuple[Scheme, ...]
    #: Predicted seconds per window.
    seconds: float
    changed: dict[str, float] = field(default_factory=dict)
    varying: dict[str, list[float]] = field(default_factory=dict)
    #: What the cycle mean predicts, where the load varies.
    cycle_mean: float | None = None

    @property
    def names(self) -> str:
        return "".join(sorted({name for scheme in self.schemes for name in scheme.pair}))

    @property
    def costs(self) -> dict[str, list[float]]:
        """Seconds per iteration in windows that repeat."""
        return {n: self.varying.get(n, [self.changed.get(n, COSTS.get(n, 0.1))]) for n in self.names}

    def configuration(self, max_time: float = 10.0) -> str:
        """Text of a configuration that both libprecice and the embedded backend may read."""
        links = sorted({link for scheme in self.schemes for link in scheme.links})
        lines = ['<?xml version="1.0" encoding="UTF-8" ?>', "<precice-configuration>"]
        # Nothing to be written to a disk that others keep busy.
        lines += ['<log enabled="false" />', '<profiling mode="off" />']
        lines += [f'<data:scalar name="From{n}" />' for n in sorted({source for source, _ in links})]
        for n in self.names:
            used = sorted({n for source, _ in links if source == n} | {source for source, to in links if to == n})
            lines += [
                f'<mesh name="{n}-Mesh" dimensions="2">',
                *(f'<use-data name="From{u}" />' for u in used),
                "</mesh>",
            ]
        for n in self.names:
            lines += [f'<participant name="{n}">', f'<provide-mesh name="{n}-Mesh" />']
            for source in [source for source, to in links if to == n]:
                lines.append(f'<receive-mesh name="{source}-Mesh" from="{source}" />')
            for source in [source for source, to in links if to == n]:
                lines.append(f'<read-data name="From{source}" mesh="{n}-Mesh" />')
                lines.append(
                    f'<mapping:nearest-neighbor direction="read" from="{source}-Mesh" to="{n}-Mesh" '
                    'constraint="consistent" />'
                )
            if any(source == n for source, _ in links):
                lines.append(f'<write-data name="From{n}" mesh="{n}-Mesh" />')
            lines.append("</participant>")
        pairs = sorted({"".join(sorted(link)) for link in links})
        lines += [f'<m2n:sockets acceptor="{a}" connector="{b}" exchange-directory="." />' for a, b in pairs]
        for each in self.schemes:
            size = 'method="first-participant"' if each.from_first else f'value="{each.size}"'
            text = scheme(each.kind, each.pair, each.links, f"<time-window-size {size} />\n")
            lines.append(text.replace('max-time value="10"', f'max-time value="{max_time:.12g}"'))
        return "\n".join([*lines, "</precice-configuration>", ""])

    def schedule(self) -> Schedule:
        return Schedule.from_config(parse_configuration(self.configuration()))

    def per_window(self, schedule: Schedule, windows: int) -> dict[str, np.ndarray]:
        """Compute seconds per window of each participant."""
        return {n: np.resize(c, windows) * schedule.iterations[n] for n, c in self.costs.items()}

    def steady(self, schedule: Schedule) -> dict[str, float]:
        return {n: float(np.mean(c)) * schedule.iterations[n] for n, c in self.costs.items()}

    @property
    def window_size(self) -> float:
        """Simulated time after which all windows end together; sizes of a case are multiples of 0.1 up to 0.6."""
        sizes = [round(10 * s.size) for s in self.schemes if not s.from_first] or [1]
        return float(np.lcm.reduce(sizes)) / 10


def _noise(names: str, windows: int = 64) -> dict[str, list[float]]:
    generator = np.random.default_rng(11)
    drawn = {n: (1 + 0.1 * generator.standard_normal(windows)).clip(0.5) for n in names}
    return {n: (0.1 * factors / factors.mean()).tolist() for n, factors in drawn.items()}


def _chain(names: str) -> tuple[Scheme, ...]:
    return tuple(Scheme("parallel-explicit", a + b) for a, b in pairwise(names))


SERIAL_AB = Scheme("serial-implicit", "AB")

#: Measured before with preCICE 3.4.1, all of them.
CASES = [
    Case("two serial-explicit", (Scheme("serial-explicit", "AB"), Scheme("serial-explicit", "BC")), 0.25),
    Case("two parallel-explicit", _chain("ABC"), 0.2),
    Case("serial-implicit, parallel-explicit", (SERIAL_AB, Scheme("parallel-explicit", "BC")), 0.3),
    Case("the same with C = 0.5", (SERIAL_AB, Scheme("parallel-explicit", "BC")), 0.5, {"C": 0.5}),
    Case("serial-implicit, serial-explicit", (SERIAL_AB, Scheme("serial-explicit", "BC")), 0.5),
    Case("multi", (Scheme("multi", "BAC"),), 0.4),
    Case("one direction", (Scheme("serial-explicit", "AB", one_way=True),), 0.2, {"A": 0.02, "B": 0.2}),
    Case(
        "program order matters",
        (SERIAL_AB, Scheme("serial-explicit", "AD"), Scheme("serial-explicit", "BC")),
        0.8,
    ),
    Case(
        "the same, parallel-implicit",
        (Scheme("parallel-implicit", "AB"), Scheme("serial-explicit", "AD"), Scheme("serial-explicit", "BC")),
        0.5,
    ),
    Case("alternating load", _chain("AB"), 0.25, {"B": 0.2}, {"A": [0.1, 0.3]}, cycle_mean=0.2),
    Case("noise, two participants", _chain("AB"), 0.106, varying=_noise("AB"), cycle_mean=0.1),
    Case("noise, chain of five", _chain("ABCDE"), 0.111, varying=_noise("ABCDE"), cycle_mean=0.1),
]

#: Time windows of different size, and sizes told by first participants.
MIXED = [
    Case(
        "windows of 1 and 2",
        (Scheme("parallel-explicit", "AB"), Scheme("parallel-explicit", "BC", size=0.2)),
        0.2,
    ),
    Case(
        "windows of 2 and 3",
        (Scheme("serial-explicit", "AB", size=0.2), Scheme("serial-explicit", "BC", size=0.3)),
        0.9,
        {"A": 0.1, "B": 0.075, "C": 0.2},
    ),
    Case("implicit windows of 1, explicit of 2", (SERIAL_AB, Scheme("serial-explicit", "BC", size=0.2)), 0.8),
    Case(
        "first participant tells its windows",
        (Scheme("serial-explicit", "AB", from_first=True, one_way=True), Scheme("parallel-explicit", "AC")),
        0.2,
    ),
]


Times = dict[str, dict[str, dict[str, np.ndarray]]]


def run_sleepers(cases: Sequence[Case], backend: str, directory: Path, *, periods: Callable[[Case], int]) -> Times:
    """Run all cases at once: sleeping takes no processor.

    Returns
    -------
    By case and participant, seconds at which the work of each time window was done ("worked") and the window ended
    ("ended"), and how long it slept in it ("slept").
    """
    files = _write(cases, backend, directory, periods, emulated=False)
    tasks = [(n, [(case.name, file)]) for case, file in zip(cases, files, strict=True) for n in case.names]
    return _results(_run(tasks, directory, dict(os.environ)))


def run_on_emulated_clock(cases: Sequence[Case], directory: Path, *, periods: Callable[[Case], int]) -> Times:
    """Run one case after the other on the embedded backend, in one process for all participants of a name.

    Returns
    -------
    As `run_sleepers`.
    """
    files = _write(cases, "precice_lb.embedded", directory, periods, emulated=True)
    return _results(_run(_one_of_each_name(cases, files), directory, emulated_clock(dict(os.environ))))


def record_on_emulated_clock(cases: Sequence[Case], directory: Path, *, periods: Callable[[Case], int]) -> list[Path]:
    """Run cases as `run_on_emulated_clock` does, but recorded; return the directory of each, with its stores."""
    files = _write(cases, "precice", directory, periods, emulated=True)
    environment = emulated_clock({**os.environ, "PRECICE_LB_BACKEND": "embedded"})
    for file in files:
        configuration = file.with_name("precice-config.xml")
        configuration.write_text(configuration.read_text().replace('<profiling mode="off" />', ""))
    _run(_one_of_each_name(cases, files), directory, environment, "-m", "precice_lb", "run")
    return [file.parent for file in files]


Task = tuple[str, Sequence[tuple[str, Path]]]


def _one_of_each_name(cases: Sequence[Case], files: Sequence[Path]) -> list[Task]:
    names = sorted({n for case in cases for n in case.names})
    return [(n, [(c.name, file) for c, file in zip(cases, files, strict=True) if n in c.names]) for n in names]


def _run(
    tasks: Sequence[Task], directory: Path, environment: dict[str, str], *start: str, limit: float = 300.0
) -> list[tuple[Task, list[str]]]:
    """Run a process for each participant, through its cases; let all go once they are ready, and return their lines."""
    runs: list[tuple[subprocess.Popen[bytes], Path]] = []
    end = time.monotonic() + limit
    try:
        for number, (n, pairs) in enumerate(tasks):
            command = [sys.executable, *start, str(SLEEPER), n, *(str(file) for _, file in pairs)]
            # Files: who waits for the others while they fill a pipe waits for ever.
            path = directory / f"{number}.out"
            with path.open("wb") as output:
                place = pairs[0][1].parent
                runs.append((subprocess.Popen(command, cwd=place, env=environment, stdout=output, stderr=output), path))
        while not all(path.read_bytes() or run.poll() is not None for run, path in runs) and time.monotonic() < end:
            time.sleep(0.05)
        (directory / "go").touch()
        codes = [run.wait(timeout=max(end - time.monotonic(), 0.0)) for run, _ in runs]
    finally:
        for run, _ in runs:
            run.kill()
            run.wait()
    texts = [path.read_text() for _, path in runs]
    assert not any(codes), "\n".join(texts)
    return [
        (task, [line for line in text.splitlines() if line.startswith("{")])
        for task, text in zip(tasks, texts, strict=True)
    ]


def _results(done: Sequence[tuple[Task, list[str]]]) -> Times:
    results: Times = {}
    for (n, pairs), lines in done:
        for (case_name, _), line in zip(pairs, lines, strict=True):
            times = {key: np.array(values) for key, values in json.loads(line).items()}
            results.setdefault(case_name, {})[n] = times
    return results


def _write(
    cases: Sequence[Case],
    backend: str,
    directory: Path,
    periods: Callable[[Case], int],
    *,
    emulated: bool,
) -> list[Path]:
    """Write each case into a directory of its own; return the files that tell its participants what to do."""
    files = []
    for index, case in enumerate(cases):
        place = directory / f"case{index}"
        place.mkdir()
        (place / "precice-config.xml").write_text(case.configuration(max_time=periods(case) * case.window_size))
        schedule = case.schedule()
        links = [link for scheme in case.schemes for link in scheme.links]
        task = {
            "backend": backend,
            "configuration": str(place / "precice-config.xml"),
            "go": str(directory / "go"),
            "emulated": emulated,
            "costs": {n: list(costs) for n, costs in case.costs.items()},
            "mean_steps": {n: case.window_size / schedule.windows[n] for n in case.names},
            "steps": dict.fromkeys(case.names, 0.1 if any(s.from_first for s in case.schemes) else 1e9),
            "writes": {n: any(source == n for source, _ in links) for n in case.names},
        }
        files.append(place / "case.json")
        files[-1].write_text(json.dumps(task))
    return files
