"""One door in Python: any data, every option, the machine's words, and the names of before."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from precice_lb.case import case_from
from precice_lb.exceptions import DataError, InfeasibleError
from precice_lb.recommend import Machine, load_sources, recommend_split
from precice_lb.split import Constraints

DATA = {
    "Fluid": [(4, 2.1), (8, 1.10), (16, 0.58), (64, 0.19)],
    "Solid": [(4, 0.8), (8, 0.41), (16, 0.22), (64, 0.09)],
}


def frame(**columns: object) -> pd.DataFrame:
    """The same measurements as a long table."""
    rows = [(name, ranks, seconds) for name, pairs in DATA.items() for ranks, seconds in pairs]
    return pd.DataFrame(rows, columns=["participant", "ranks", "seconds"]).assign(**columns)


def test_all_kinds_of_data_give_the_same_split(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    frame().to_csv(path, index=False)
    kinds = (DATA, path, str(path), load_sources([path]), frame(), frame().sample(frac=1, random_state=0))
    found = [recommend_split(data, 96, learner="bayes") for data in kinds]
    assert [each.split for each in found[1:-1]] == [found[0].split] * (len(found) - 2)
    # In another order of the participants other curves are drawn.
    assert found[-1].split["Fluid"] == pytest.approx(found[0].split["Fluid"], abs=2)
    assert [each.window_seconds for each in found] == pytest.approx([found[0].window_seconds] * len(found), rel=0.02)


def test_a_frame_has_parameters_and_standard_errors() -> None:
    table = pd.concat([frame(level=7, mesh="fine"), frame(level=8, mesh="fine", standard_error=0.01)])
    table.loc[table.level == 8, "seconds"] *= 4
    one, other = (
        recommend_split(table, 96, learner="bayes", parameter={"level": level}).window_seconds for level in (7, 8)
    )
    assert other == pytest.approx(4 * one, rel=0.05)
    for levels, said in (("12345", "1 to 5"), ("abcde", "a, b, c, d, …")):
        with pytest.raises(DataError, match=rf"expected a value of level to recommend for, .* \({said}\)"):
            recommend_split(pd.concat([frame(level=int(k) if k.isdigit() else k) for k in levels]), 96)


def test_the_machine_is_a_whole_or_words_or_constraints() -> None:
    words = {"nodes": 4, "cores_per_node": 16, "multiple": {"Fluid": 4}}
    constraints = Constraints(unit="nodes", cores_per_node=16, multiple={"Fluid": 4})
    found = [
        recommend_split(DATA, learner="bayes", machine=Machine(**words)),  # type: ignore[arg-type]
        recommend_split(DATA, learner="bayes", **words),
        recommend_split(DATA, 4, learner="bayes", machine=constraints),
    ]
    assert found[0].unit == "nodes"
    assert found[0].split["Fluid"] % 4 == 0
    assert found[0].split == found[1].split == found[2].split
    with pytest.raises(InfeasibleError, match="found machine and nodes; name one"):
        recommend_split(DATA, machine=Machine(nodes=4, cores_per_node=16), nodes=4)
    with pytest.raises(InfeasibleError, match=r"budget as one of ranks, cores or nodes .*, found none of them"):
        recommend_split(DATA, machine=constraints)


def test_a_case_says_what_a_study_does() -> None:
    case = case_from(
        {
            "machine": {"nodes": 4, "cores_per_node": 16},
            "participants": {"Fluid": {"multiple": 4, "maximum_ranks": 40}, "Solid": {"degrees_of_freedom": 10.0}},
            "runs": {"learner": {"name": "pmnf", "n_terms": 1}},
        }
    )
    found = recommend_split(DATA, case=case)
    words = {"nodes": 4, "cores_per_node": 16, "multiple": {"Fluid": 4}, "maximum": {"Fluid": 40}, "within": 0.05}
    same = recommend_split(DATA, **words, learner={"name": "pmnf", "n_terms": 1})
    assert found.measurements.degrees_of_freedom == {"Solid": 10.0}
    values, expected = found.to_dict(), same.to_dict()
    for one in (values, expected):
        one["measurements"].pop("degrees_of_freedom")
    assert values == expected
    with pytest.raises(InfeasibleError, match="found a case and nodes; name one"):
        recommend_split(DATA, case=case, nodes=4)
