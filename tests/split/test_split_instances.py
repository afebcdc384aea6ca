"""Random small problems with all kinds of constraints, against an enumeration with arithmetic of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from precice_xml_helpers import configuration, scheme

from precice_lb.case import parse_configuration
from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, SharedCores, optimize_split, solve

BLOCKS = 20
EACH = 500 if FULL_COUNTS else 20


def _config(names: str, *schemes: tuple[str, str], iterations: float = 1) -> Schedule:
    text = configuration(names, [scheme(*s) for s in schemes])
    return Schedule.from_config(parse_configuration(text), dict.fromkeys(names, iterations))


# Each with turns in which its participants never work at the same time, if there are any.
SCHEDULES: list[tuple[Schedule, tuple[tuple[str, ...], ...]]] = [
    (Schedule.parallel(list("AB")), ()),
    (Schedule.serial(list("AB")), (("A",), ("B",))),
    (Schedule.parallel(list("ABC")), ()),
    (Schedule.serial(list("ABC")), (("A",), ("B",), ("C",))),
    (_config("ABC", ("serial-explicit", "AB"), ("serial-explicit", "BC")), (("A", "C"), ("B",))),
    (_config("ABC", ("serial-implicit", "AB"), ("parallel-explicit", "BC"), iterations=3), (("A",), ("B",))),
    (_config("ABC", ("serial-implicit", "AB"), ("parallel-explicit", "BC"), iterations=2.4), (("A",), ("B",))),
    (Schedule.parallel(list("ABCD")), ()),
    (Schedule.serial(list("ABCD")), (("A", "B"), ("C",))),
    (
        _config("ABCD", ("serial-implicit", "AB"), ("serial-explicit", "AD"), ("serial-explicit", "BC"), iterations=2),
        (("A",), ("B",)),
    ),
    (
        _config("ABCD", ("serial-explicit", "AB"), ("serial-explicit", "BC"), ("parallel-explicit", "BD")),
        (("A", "C"), ("B",)),
    ),
    (Schedule.parallel(list("ABCDE")), ()),
    (Schedule.serial(list("ABCDE")), (("A", "D"), ("B",), ("E",))),
    (
        _config("ABCDE", ("serial-explicit", "AB"), ("serial-implicit", "BC"), ("parallel-explicit", "CD"),
                ("serial-explicit", "DE"), iterations=2),
        (("A",), ("B",)),
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Instance:
    schedule: Schedule
    times: dict[str, Any]
    budget: int
    constraints: Constraints


def random_instance(seed: int) -> Instance:
    random = np.random.default_rng(seed)
    schedule, turns = SCHEDULES[random.integers(len(SCHEDULES))]
    names = schedule.participants
    most = {2: 24, 3: 14, 4: 9, 5: 6}[len(names)]
    unit = str(random.choice(["ranks", "cores", "nodes"]))
    given: dict[str, Any] = {"unit": unit}
    if unit == "nodes" or random.random() < 0.2:
        given["cores_per_node"] = int(random.choice([2, 4, 8]))
        chosen = [name for name in names if random.random() < 0.5]
        given["whole_nodes"] = [True, False, chosen][random.integers(3)]
    with_gpus = random.random() < 0.3
    if with_gpus:
        given["gpus_per_node"] = int(random.choice([1, 2]))
    if random.random() < 0.5:
        given["layouts"] = {name: Layouts(None, int(random.choice([1, 2]))) for name in names}
    if unit == "nodes" and (with_gpus or "layouts" in given):
        given["whole_nodes"] = True
    bounds: dict[str, dict[str, int]] = {}
    for key, values in (("multiple", (2, 3)), ("minimum", (2, 3)), ("maximum", (3, 4, 6))):
        if random.random() < 0.25:
            bounds[key] = {str(random.choice(names)): int(random.choice(values))}
    if random.random() < 0.25:
        count = int(random.integers(1, 5))
        given["allow"] = {str(random.choice(names)): [int(p) for p in random.integers(1, most + 1, count)]}
    if random.random() < 0.25:
        given |= {"memory": {str(random.choice(names)): float(random.integers(1, 40))}, "memory_per_rank": 10.0}
    if turns and random.random() < 0.5:
        given["shared"] = [SharedCores(turns, float(random.choice([0.0, 0.25])))]
    times: dict[str, Any] = {}
    for name in names:
        versions = ["cpu", "gpu"] if with_gpus and random.random() < 0.6 else [""]
        if "gpu" in versions:
            given.setdefault("gpus_per_rank", {})[f"{name}:gpu"] = 1
        times[name] = {version: random_times(random, most) for version in versions}
        if versions == [""]:
            times[name] = times[name][""]
    per_node = given.get("cores_per_node", 1) if unit == "nodes" else 1
    budget = int(random.integers(len(names), len(names) * most // 2 + 2)) // per_node + 1
    bounds["minimum"] = {name: int(random.integers(1, 3)) for name in names} | bounds.get("minimum", {})
    if random.random() < 0.3:
        bounds["maximum"] = {str(random.choice(names)): int(random.integers(2, most))} | bounds.get("maximum", {})
    return Instance(schedule, times, budget, Constraints(**given, **bounds))


def random_times(random: np.random.Generator, most: int) -> np.ndarray:
    length = int(random.integers(max(3, most - 3), most + 1))
    ranks = np.arange(1, length + 1)
    kind = random.integers(3)
    if kind == 0:  # Whole numbers make ties, and nothing makes them fall.
        return random.integers(1, 20, length).astype(float)
    if kind == 1:
        return random.uniform(0.5, 5) + random.uniform(1, 40) / ranks + random.uniform(0, 1) * ranks
    return random.uniform(1, 40) / ranks * random.uniform(1, 1.5, length)


def counts_of(instance: Instance, name: str) -> list[tuple[str, int, float]]:
    """Version, cores (which are ranks without threads) and seconds of what the bounds of one participant admit."""
    given = instance.constraints
    versions = instance.times[name] if isinstance(instance.times[name], dict) else {"": instance.times[name]}
    threads = given.layouts[name].threads or 1 if name in given.layouts else 1
    slower = 1 + next((group.overhead for group in given.shared if name in group.members), 0.0)
    found = []
    for version, seconds in versions.items():
        if version == "gpu" and given.unit != "nodes":
            continue
        for ranks in range(1, len(seconds) + 1):
            needs = [
                ranks >= given.minimum[name],
                ranks <= given.maximum.get(name, 10**9),
                ranks % (given.multiple.get(name, 1) if isinstance(given.multiple, dict) else 1) == 0,
                ranks in given.allow.get(name, [ranks]),
                ranks % threads == 0,
                ranks // threads * 10 >= given.memory.get(name, 0),
            ]
            if all(needs):
                found.append((version, ranks, seconds[ranks - 1] * slower))
    return found


def taken(instance: Instance, name: str, version: str, cores: int) -> tuple[int, int]:
    """Cores and GPUs that the ranks keep from others."""
    given = instance.constraints
    threads = given.layouts[name].threads or 1 if name in given.layouts else 1
    gpus = 1 if version == "gpu" else 0
    whole = given.whole_nodes if isinstance(given.whole_nodes, bool) else name in given.whole_nodes
    if not whole:
        return cores, cores // threads * gpus
    nodes = 0
    left = cores // threads
    while left > 0:  # Fill one node after the other.
        nodes += 1
        fit = given.cores_per_node // threads
        if gpus and given.gpus_per_node:
            fit = min(fit, given.gpus_per_node // gpus)
        if fit == 0:
            return 10**9, 10**9
        left -= fit
    return nodes * given.cores_per_node, nodes * given.gpus_per_node


def all_splits(instance: Instance, budget: int) -> list[tuple[float, tuple[tuple[str, int], ...]]]:
    """Window time, versions and ranks of every split that fits."""
    given, names = instance.constraints, instance.schedule.participants
    options = [[(*o, *taken(instance, name, *o[:2])) for o in counts_of(instance, name)] for name in names]
    if not all(options):
        return []
    if given.unit == "nodes":
        cores, gpus = budget * given.cores_per_node, budget * given.gpus_per_node
    else:
        cores, gpus = budget, 10**6
        if given.whole_nodes is True:
            cores = budget // given.cores_per_node * given.cores_per_node
    indices = np.array(list(product(*(range(len(o)) for o in options))))
    columns = [[np.array([o[k] for o in own])[indices[:, i]] for k in range(5)] for i, own in enumerate(options)]
    fits = np.ones(len(indices), dtype=bool)
    for kind, there in ((3, cores), (4, gpus)):
        use = {name: columns[i][kind].astype(int) for i, name in enumerate(names)}
        total = np.zeros(len(indices), dtype=int)
        for group in given.shared:
            total += np.max([sum(use.pop(name) for name in turn) for turn in group.turns], axis=0)
        fits &= total + sum(use.values(), np.zeros(len(indices), dtype=int)) <= there
    at = np.flatnonzero(fits)
    if not len(at):
        return []
    costs = {name: columns[i][2].astype(float)[at] for i, name in enumerate(names)}
    seconds = instance.schedule.window_seconds(costs)
    splits = [[(str(v), int(p)) for v, p in zip(c[0][at], c[1][at], strict=True)] for c in columns]
    return list(zip(seconds.tolist(), zip(*splits, strict=True), strict=True))


def check(instance: Instance, *, exact: bool) -> str:
    """Compare the answer with the enumeration, to its gap where it cannot be exact; what kind of answer it was."""
    arguments = {
        "coupling": instance.schedule,
        "constraints": instance.constraints,
    }
    message = ""
    try:
        result = optimize_split(instance.times, instance.budget, **arguments)
    except InfeasibleError as error:
        message = str(error)
    if message:
        assert all_splits(instance, instance.budget) == [], message
        if found := re.search(r"give (\d+) \w+ or more", message):
            smallest = int(found[1])
            assert smallest > instance.budget
            assert all_splits(instance, smallest) != [], message
            assert all_splits(instance, smallest - 1) == [], message
        return "infeasible"
    splits = all_splits(instance, instance.budget)
    best = min(splits)[0]
    assert best * (1 - 1e-9) <= result.window_seconds <= best * (1 + result.gap) * (1 + 1e-9)
    assert result.gap <= (1e-6 if exact else np.inf)
    chosen = tuple((result.versions.get(name, ""), result.split[name]) for name in instance.schedule.participants)
    assert any(split == chosen and seconds == pytest.approx(result.window_seconds) for seconds, split in splits)
    return "solved"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_instances_equal_brute_force(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small problems would never see the relaxation, nor too many boxes, otherwise.
    if block % 4 == 1:
        monkeypatch.setattr(solve, "DIRECT_SPLITS", 0)
    if block % 10 == 2:
        monkeypatch.setattr(solve, "MAXIMUM_BOXES", 0)
    kinds = [check(random_instance(1000 * block + i), exact=block % 10 != 2) for i in range(EACH)]
    assert kinds.count("solved") > 0.4 * EACH
