"""Who does what in coupling schemes, and how long these go on."""

from __future__ import annotations

import pytest
from precice_xml_helpers import configuration, scheme

from precice_lb.case import Roles, parse_configuration, roles_of

ACCELERATED = (
    '    <relative-convergence-measure data="FromA" mesh="A-Mesh" limit="1e-3" />\n    <acceleration:constant>'
    '<relaxation value="0.5" /></acceleration:constant>\n'
)


def roles(names: str, *schemes: str) -> Roles:
    return roles_of(configuration(names, schemes))


def test_nothing_is_known_of_what_cannot_be_read() -> None:
    unknown = roles_of("<no")
    assert (unknown.participants, unknown.second, unknown.serial_pair, unknown.never_waiting) == ((), set(), (), set())
    assert unknown.accelerator("A") is None


@pytest.mark.parametrize(
    ("kind", "second", "pair"),
    [
        ("serial-explicit", {"B"}, ("A", "B")),
        ("serial-implicit", {"B"}, ("A", "B")),
        ("parallel-explicit", set(), ()),
        ("multi", set(), ()),
    ],
)
def test_who_is_second(kind: str, second: set[str], pair: tuple[str, ...]) -> None:
    known = roles("AB", scheme(kind, "AB"))
    assert (known.participants, known.second, known.serial_pair) == (("A", "B"), second, pair)
    beside = roles("ABC", scheme(kind, "AB"), scheme("parallel-explicit", "BC"))
    assert (beside.second, beside.serial_pair) == (second, ())


def test_who_accelerates_while_others_wait() -> None:
    for kind, controller in (("parallel-implicit", "B"), ("multi", "A")):
        known = roles("AB", scheme(kind, "AB", None, ACCELERATED))
        assert {name: known.accelerator(name) for name in "AB"} == {
            name: None if name == controller else controller for name in "AB"
        }
    assert roles("AB", scheme("parallel-implicit", "AB")).accelerator("A") is None


def test_who_never_waits() -> None:
    one_way = scheme("parallel-explicit", "BC", [("C", "B")])
    assert roles("ABC", scheme("serial-implicit", "AB"), one_way).never_waiting == {"C"}
    assert roles("AB", scheme("serial-implicit", "AB", [("A", "B")])).never_waiting == set()


@pytest.mark.parametrize(
    ("old", "new", "windows"),
    [
        ("", "", 100),
        ('value="10"', 'value="0.95"', 10),
        ('<max-time value="10" />', '<max-time-windows value="7" /><max-time value="1" />', 7),
        ('<max-time value="10" />', '<max-time-windows value="70" /><max-time value="1" />', 10),
        ('<time-window-size value="0.1" />', '<time-window-size method="first-participant" />', None),
    ],
)
def test_a_coupling_goes_on_for_so_many_windows(old: str, new: str, windows: int | None) -> None:
    text = configuration("AB", [scheme("serial-explicit", "AB")]).replace(old or "\0", new)
    case = parse_configuration(text)
    assert case.coupling_schemes[0].windows == case.windows == windows
