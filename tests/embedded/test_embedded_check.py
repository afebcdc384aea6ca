"""What the embedded backend refuses, before anything runs, and that preCICE's own rules hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from embedded_helpers import write_configuration

from precice_lb.case import parse_configuration
from precice_lb.embedded import Participant
from precice_lb.embedded.allowed import check_supported
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError

EXPLICIT = [("parallel-explicit", "A", "B", "Heat:A>B Force:B>A")]


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = write_configuration(tmp_path / "c.xml", participants={"A": [], "B": []}, exchanges=EXPLICIT)
    return path.read_text()


def check(text: str, participant: str = "A", size: int = 1) -> None:
    check_supported(parse_configuration(text), participant, size)


def test_the_supported_is_accepted(text: str) -> None:
    check(text)
    harmless = text.replace(
        '<log enabled="false" />',
        '<log><sink type="stream" output="stdout" filter="%Severity% > debug" enabled="true" /></log>\n'
        '<profiling mode="all" flush-every="10" />',
    ).replace(
        '<provide-mesh name="A-Mesh" />',
        '<intra-comm:sockets network="eth0" />\n<provide-mesh name="A-Mesh" />',
    )
    assert harmless.count("\n") > text.count("\n") + 1
    check(harmless, size=4)


UNSUPPORTED = {
    "other mapping": (
        "mapping:nearest-neighbor",
        "mapping:linear-cell-interpolation",
        "mapping:linear-cell-interpolation",
    ),
    "projection": ("mapping:nearest-neighbor", "mapping:nearest-projection", "mapping:nearest-projection"),
    "bounds": ('<data:scalar name="Heat"', '<data:scalar lower-bound="0" name="Heat"', "lower-bound"),
    "wait": ("<precice-configuration>", '<precice-configuration wait-in-finalize="1">', "wait-in-finalize"),
    "scaled": ('constraint="consistent"', 'constraint="scaled-consistent-surface"', "scaled-consistent-surface"),
    "just in time": ('from="B-Mesh" to="A-Mesh"', 'from="B-Mesh"', "just-in-time"),
    "MPI ports": ("m2n:sockets", "m2n:mpi", "m2n:mpi"),
    "two-level": ("<m2n:sockets", '<m2n:sockets use-two-level-initialization="on"', "use-two-level-initialization"),
    "degree": ('<data:scalar name="Heat"', '<data:scalar waveform-degree="4" name="Heat"', "waveform-degree"),
    "API access": ("<receive-mesh", '<receive-mesh api-access="true"', "api-access"),
    "remeshing": (
        "<precice-configuration>",
        '<precice-configuration experimental="1" allow-remeshing="1">',
        "allow-remeshing",
    ),
    "watch integral": (
        '<provide-mesh name="B-Mesh" />',
        '<provide-mesh name="B-Mesh" />\n<watch-integral mesh="B-Mesh" name="here" scale-with-connectivity="0" />',
        "watch-integral",
    ),
    "export": ('<provide-mesh name="A-Mesh" />', '<provide-mesh name="A-Mesh" />\n<export:vtu />', "export:vtu"),
    "action": (
        '<provide-mesh name="A-Mesh" />',
        '<provide-mesh name="A-Mesh" />\n<action:multiply-by-area mesh="A-Mesh" timing="read-mapping-post">'
        '<target-data name="Force"/></action:multiply-by-area>',
        "action:multiply-by-area",
    ),
}


def assert_refused(text: str, before: str, after: str, tag: str) -> None:
    changed = text.replace(before, after)
    assert changed != text
    with pytest.raises(UnsupportedConfigurationError) as caught:
        check(changed)
    lines = [number for number, line in enumerate(changed.splitlines(), 1) if after.splitlines()[-1] in line]
    message = str(caught.value)
    assert tag in message
    assert "libprecice does it" in message
    assert any(f"line {line}:" in message for line in lines)
    assert "\n" not in message


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_only_libprecice_does_is_refused_with_tag_and_line(name: str, text: str) -> None:
    assert_refused(text, *UNSUPPORTED[name])


def test_unknown_participants_are_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r'"A", "B".*found "Aa"'):
        check(text, "Aa")


def test_parallel_participants_do_not_write_consistently(tmp_path: Path) -> None:
    path = write_configuration(
        tmp_path / "c.xml", participants={"A": [], "B": []}, exchanges=EXPLICIT, write_direction=True
    )
    check(path.read_text())
    with pytest.raises(ConfigurationError, match="consistent mapping on several ranks"):
        check(path.read_text(), size=2)


def test_one_cluster_is_for_one_rank(text: str) -> None:
    head, tail = text.split("<mapping:nearest-neighbor", 1)
    attributes, rest = tail.split("/>", 1)
    changed = f"{head}<mapping:rbf{attributes}><basis-function:volume-splines /></mapping:rbf>{rest}"
    check(changed)
    with pytest.raises(UnsupportedConfigurationError, match="several ranks with <mapping:rbf"):
        check(changed, size=2)


def test_data_comes_from_one_place(text: str) -> None:
    exchange = '<exchange data="Heat" mesh="A-Mesh" from="B" to="A" />'
    with pytest.raises(UnsupportedConfigurationError, match=r'gets data "Heat" on mesh "A-Mesh" from more than one'):
        check(text.replace("</coupling-scheme", f"{exchange}</coupling-scheme"))


def test_composed_schemes_share_their_windows(tmp_path: Path) -> None:
    path = write_configuration(
        tmp_path / "c.xml",
        participants={"A": [], "B": [], "C": []},
        exchanges=[*EXPLICIT, ("serial-explicit", "B", "C", "Load:B>C")],
    )
    text = path.read_text()
    check(text, "C")
    head, tail = text.rsplit('<time-window-size value="0.1" />', 1)
    with pytest.raises(UnsupportedConfigurationError, match=r'participant "B".*do not fit together'):
        check(head + '<time-window-size value="0.2" />' + tail, "C")
    # Windows of another size are fine where the last ones end together.
    end = tail.replace('<max-time-windows value="3" />', '<max-time-windows value="1" />')
    check(head + '<time-window-size value="0.3" />' + end, "C")
    # With an end in time, preCICE's union of both windows.
    timed = text.replace('<max-time-windows value="3" />', '<max-time value="1.2" />')
    head, tail = timed.rsplit('<time-window-size value="0.1" />', 1)
    check(head + '<time-window-size value="0.25" />' + tail, "C")
    implicit = head.replace("parallel-explicit", "parallel-implicit").replace(
        '<participants first="A"', '<max-iterations value="2" /><participants first="A"'
    )
    check(implicit + '<time-window-size value="0.2" />' + tail, "C")
    with pytest.raises(UnsupportedConfigurationError, match="do not fit together"):
        check(implicit + '<time-window-size value="0.25" />' + tail, "C")


@pytest.mark.parametrize(
    "tag", ['<provide-mesh name="A-Mesh" />', '<read-data name="Force" mesh="A-Mesh" />', '<log enabled="false" />']
)
def test_nothing_is_said_twice(tag: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"found (a second|\"A-Mesh\" twice)"):
        check(text.replace(tag, tag + tag))


ITERATION = """<max-iterations value="9" /><relative-convergence-measure limit="1e-3" data:Heat />
<acceleration:IQN-ILS><data name:Force />
<initial-relaxation value="0.5" /><time-windows-reused value="2" /><filter type="QR2" limit="0.1" />
<preconditioner type="residual-sum" /></acceleration:IQN-ILS>"""
IMPLICIT = {
    "measure": ("relative-convergence", "residual-relative-convergence", "residual-relative-convergence-measure"),
    "least": ("<max-iterations", '<min-iterations value="2" /><max-iterations', "min-iterations"),
    "strict": ('limit="1e-3"', 'strict="yes" limit="1e-3"', "strict"),
    "suffices": ('limit="1e-3"', 'suffices="yes" limit="1e-3"', "suffices"),
    "other acceleration": ("IQN-ILS>", "IQN-IMVJ>", "acceleration:IQN-IMVJ"),
    "enforced": ('value="0.5" />', 'value="0.5" enforce="1" />', "enforce"),
    "nothing reused": ('reused value="2"', 'reused value="0"', "time-windows-reused"),
    "other filter": ("QR2", "QR1-absolute", "QR1-absolute"),
    "other preconditioner": ("residual-sum", "value", '"value"'),
    "frozen": ('type="residual-sum"', 'type="residual-sum" freeze-after="2"', "freeze-after"),
    "grid": ("<acceleration:IQN-ILS>", '<acceleration:IQN-ILS reduced-time-grid="0">', "reduced-time-grid"),
}


@pytest.fixture
def implicit(tmp_path: Path) -> str:
    exchanges = [("parallel-implicit", *EXPLICIT[0][1:])]
    path = write_configuration(
        tmp_path / "c.xml", participants={"A": [], "B": []}, exchanges=exchanges, iteration=ITERATION
    )
    return path.read_text()


@pytest.mark.parametrize("name", IMPLICIT)
def test_iterations_are_refused_with_tag_and_line(name: str, implicit: str) -> None:
    check(implicit)
    assert_refused(implicit, *IMPLICIT[name])


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ('limit="1e-3"', 'limit="2"', 'a number above 0 and at most 1 as "limit"'),
        (' limit="1e-3"', "", '"limit" in <relative-convergence-measure>, found none'),
        ('value="0.5"', 'value="1.5"', "initial-relaxation"),
        ('value="9"', 'value="9.0"', "a whole number"),
        ("<data name:Force />", "", "expected <data> in"),
        ("</acceleration:IQN-ILS>", "</acceleration:IQN-ILS><acceleration:aitken />", "a second"),
        ("<filter", '<filter type="QR2" /><filter', "a second"),
    ],
)
def test_iterations_that_precice_refuses_are_wrong(before: str, after: str, found: str, implicit: str) -> None:
    if before == "<data name:Force />":
        before = next(line for line in implicit.splitlines() if line.startswith("<acceleration")).split(">", 1)[1]
    changed = implicit.replace(before, after)
    assert changed != implicit
    with pytest.raises(ConfigurationError) as caught:
        check(changed)
    assert not isinstance(caught.value, UnsupportedConfigurationError)
    assert found in str(caught.value)


@pytest.mark.parametrize("participant", ["A", "B"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<acceleration:IQN-ILS><data name="Force"', '<acceleration:IQN-ILS><data name="Fo"'),
        ('<acceleration:IQN-ILS><data name="Force"', '<acceleration:IQN-ILS><data name="Heat"'),
        ('measure limit="1e-3" data="Heat"', 'measure limit="1e-3" data="Force"'),
        # In series, what the first participant sends cannot be accelerated.
        ('IQN-ILS><data name="Force" mesh="B-Mesh"', 'IQN-ILS><data name="Heat" mesh="A-Mesh"'),
    ],
)
def test_data_of_iterations_is_exchanged_as_precice_asks(
    before: str, after: str, participant: str, implicit: str, tmp_path: Path
) -> None:
    path = tmp_path / "changed.xml"
    scheme = "serial-implicit" if "A-Mesh" in after else "parallel-implicit"
    path.write_text(implicit.replace(before, after).replace("parallel-implicit", scheme))
    assert path.read_text() != implicit
    with pytest.raises(ConfigurationError, match=r"expected .* found .*; add its <exchange>") as caught:
        Participant(participant, str(path), 0, 1)
    assert not isinstance(caught.value, UnsupportedConfigurationError)


def test_participants_take_part_in_a_coupling_scheme(text: str) -> None:
    without = text.replace("</precice-configuration>", '<participant name="C" />\n</precice-configuration>')
    check(without)
    with pytest.raises(ConfigurationError, match='expected a <coupling-scheme:…> of participant "C", found none'):
        check(without, "C")


def test_rbf_mappings_have_one_basis_function(text: str) -> None:
    head, tail = text.split("<mapping:nearest-neighbor", 1)
    attributes, rest = tail.split("/>", 1)
    for inside in ("", '<basis-function:volume-splines /><basis-function:compact-polynomial-c0 support-radius="1" />'):
        mapping = f"<mapping:rbf-global-direct{attributes}>{inside}</mapping:rbf-global-direct>"
        with pytest.raises(ConfigurationError, match="basis-function"):
            check(head + mapping + rest)
