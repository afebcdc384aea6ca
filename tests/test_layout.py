"""Ranks and threads: what may be given out, and how it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layout, Layouts, layouts_of

COUNTS = st.integers(1, 12)
LAYOUT = st.builds(Layout, COUNTS, COUNTS)
FREE = st.one_of(
    st.builds(Layouts, st.none(), COUNTS),
    st.builds(Layouts, COUNTS, st.none()),
    st.builds(Layouts, COUNTS, COUNTS),
    st.lists(LAYOUT, min_size=1, max_size=5, unique_by=lambda each: each.cores).map(
        lambda pairs: Layouts(None, None, tuple(pairs))
    ),
)


@given(FREE, st.integers(0, 30), st.integers(0, 150))
def test_the_allowed_cores_are_those_that_have_a_layout(layouts, low, high):
    allowed = layouts.allowed(low, high)
    for cores in range(low, high + 1):
        if cores in allowed:
            assert layouts.of(cores).cores == cores
        else:
            with pytest.raises(InfeasibleError, match=f"found {cores}$"):
                layouts.of(cores)


@given(st.lists(LAYOUT, min_size=1, max_size=6, unique_by=lambda each: each.cores))
def test_what_was_measured_can_be_had_again(measured):
    layouts = layouts_of(measured)
    assert [layouts.of(each.cores) for each in measured] == measured


@pytest.mark.parametrize(("measured", "expected"), [
    ([Layout(4), Layout(8)], Layouts()),
    ([Layout(1)], Layouts()),
    ([Layout(1, 4)], Layouts(1, None)),
    ([Layout(1, 1), Layout(1, 4)], Layouts(1, None)),
    ([Layout(2, 4), Layout(2, 8)], Layouts(2, None)),
    ([Layout(2, 4)], Layouts(None, 4)),
    ([Layout(2, 4), Layout(8, 4)], Layouts(None, 4)),
    ([Layout(2, 4), Layout(4, 8)], Layouts(None, None, (Layout(2, 4), Layout(4, 8)))),
])  # fmt: skip
def test_layouts_of_measurements(measured, expected):
    assert layouts_of(measured) == expected


def test_as_many_cores_in_two_ways_and_nothing_fixed_are_refused():
    with pytest.raises(InfeasibleError, match=r"one way to use 8 cores, found two: 2 x 4 threads and 4 x 2 threads"):
        layouts_of([Layout(4, 2), Layout(2, 4)])
    with pytest.raises(InfeasibleError, match="both free"):
        Layouts(None, None)
