"""The embedded backend's first guess: the iterations and values of a change of variables by both solvers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from conftest import FULL_COUNTS
from embedded_cases import ACCELERATIONS, BOTH_WAYS, SUBSTEPS, Case
from embedded_helpers import points, run_batch

pytestmark = pytest.mark.mpi

Results = dict[str, dict[str, np.ndarray]]
KINDS = ("linear", "quadratic")
# Absolute limits: relative ones are of the norm of what is exchanged.
LIMITS = '<max-iterations value="40" />' + "".join(
    f'<absolute-convergence-measure limit="1e-4" data:{data} />' for data in ("Heat", "Force")
)
# Columns that are far from depending on each other, so that rounding stays what it is.
USED = {
    **ACCELERATIONS,
    "IQN-ILS": ACCELERATIONS["IQN-ILS"].replace(
        "</", '<time-windows-reused value="1" /><filter type="QR2" limit="1e-1" /></'
    ),
}
ENDS_ONLY = {"Heat": False, "Force": False}
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as they come": ({}, {}),
    "initial data and substeps": ({"initialize": ["Heat", "Force"]}, SUBSTEPS),
    "waveforms of degree 3 and 2": ({"degrees": {"Heat": 3, "Force": 2}}, SUBSTEPS),
    "waveforms of degree 0": ({"degrees": {"Heat": 0, "Force": 0}, "substeps": ENDS_ONLY}, SUBSTEPS),
    "a cut window": ({"end": '<max-time value="0.45" />'}, SUBSTEPS),
    "long windows": ({"window": 1e5 / 3, "substeps": ENDS_ONLY}, {name: {"step": 7e3, "pace": 3e-6} for name in "AB"}),
}


def _case(
    name: str,
    exchanges: list[tuple[str, str, str, str]],
    ranks: dict[str, int],
    acceleration: str,
    configuration: dict[str, Any],
    roles: dict[str, dict[str, Any]],
) -> Case:
    """A case in which all have the same mesh, and feed back so that it takes some iterations."""
    iteration = {"iteration": LIMITS + USED[acceleration], "end": '<max-time-windows value="5" />'}
    alike = {
        participant: {"points": points(13, 2, 1), "bend": bend}
        for participant, bend in zip(ranks, (-1.5, 1.5, 0.5), strict=False)
    }
    merged = {participant: {**role, **roles.get(participant, {})} for participant, role in alike.items()}
    configuration = {**iteration, "vector": ["Force"], **configuration}
    return Case(f"{name} {acceleration}", exchanges, ranks, configuration, merged, watched=False)


def _examples() -> Iterable[Case]:
    for scheme, number in itertools.product(("serial-implicit", "parallel-implicit"), range(len(VARIANTS))):
        variant = list(VARIANTS)[number]
        for acceleration in (("constant", "aitken")[number % 2], "IQN-ILS"):
            for ranks in ({"A": 1, "B": 1}, {"A": 2, "B": 3})[: 1 + (number == 1)]:
                name = f"{scheme}, {variant}, {sum(ranks.values())} ranks,"
                yield _case(name, [(scheme, "A", "B", BOTH_WAYS)], ranks, acceleration, *VARIANTS[variant])
    three = dict.fromkeys("ABC", 1)
    # The controller sends initial data to one of the two.
    several = f"{BOTH_WAYS} Load:A>C Shift:C>A"
    yield _case("multi", [("multi", "A", "B,C", several)], three, "constant", {"initialize": ["Heat"]}, SUBSTEPS)
    chain = [("serial-implicit", "A", "B", BOTH_WAYS), ("parallel-explicit", "B", "C", "Load:B>C Shift:C>B")]
    yield _case("implicit with explicit", chain, three, "aitken", {}, SUBSTEPS)


EXAMPLES = {one.name: one for one in list(_examples())[:: 1 if FULL_COUNTS else 6]}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, mpiexec: str) -> dict[str, Results]:
    """Of all examples, by what made the guess."""
    directory = tmp_path_factory.mktemp("guess")
    found: dict[str, Results] = {}
    groups: dict[tuple[int, ...], dict[str, Case]] = {}
    for one in EXAMPLES.values():
        one.write(directory / one.name)
        groups.setdefault(tuple(one.ranks.values()), {})[one.name] = one
    for group in groups.values():
        ranks = next(iter(group.values())).ranks
        roles = {name: one.all_roles() for name, one in group.items()}
        for way in ("embedded", *(f"{way}-{kind}" for way in ("native", "shifted") for kind in KINDS)):
            found.setdefault(way, {}).update(run_batch(mpiexec, directory, way, ranks, roles))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_iterations_and_values_are_those_of_shifted_variables(
    name: str, kind: str, results: dict[str, Results]
) -> None:
    native, shifted = (results[f"{way}-{kind}"][name] for way in ("native", "shifted"))
    assert set(native) == set(shifted)
    assert not [key for key in native if key.endswith("|error")]
    for key, values in shifted.items():
        if key.endswith("|table"):
            assert native[key].tolist() == values.tolist(), key
        else:
            # Between time windows' ends, quasi-Newton multiplies rounding.
            tolerance = 1e-9 if EXAMPLES[name].is_quasi_newton and not key.endswith(("@window", "@end")) else 1e-12
            np.testing.assert_allclose(native[key], values, rtol=0.0, atol=tolerance, err_msg=key)


@pytest.mark.parametrize("name", EXAMPLES)
def test_guesses_save_iterations_and_end_with_the_same(name: str, results: dict[str, Results]) -> None:
    held = results["embedded"][name]
    log = "precice-B-iterations|table"
    for kind in KINDS:
        guessed = results[f"native-{kind}"][name]
        # Before the first time window nothing is known; before the fourth one, three converged values and the initial.
        assert guessed[log][0].tolist() == held[log][0].tolist()
        assert (guessed[log][3:, 2] < held[log][3:, 2]).any()
        for key in held:
            if key.endswith("@window"):
                np.testing.assert_allclose(guessed[key], held[key], atol=1e-3, err_msg=key)
