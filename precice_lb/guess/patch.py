"""Patched copies of a configuration: with the fields that carry predictions for a better first guess."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError
from precice_lb.guess.obstacles import obstacles
from precice_lb.guess.routes import RELAXATIONS, Route, carriers, guess_name, is_added, shifted_name
from precice_lb.precice_xml.edits import Edit, apply, insert_before, insert_behind, set_attribute, written
from precice_lb.precice_xml.elements import fail, is_true, load
from precice_lb.precice_xml.reader import parse_configuration
from precice_lb.precice_xml.records import Configuration, CouplingScheme, Element

_SLIDE = "RS-SLIDE"
_LIMITS = {"limit", "abs-limit", "rel-limit"}


def patch_guess(source: str | Path, target: str | Path, *, limits: float = 1.0) -> None:
    """Write a copy of `source` in which predictions travel beside the data of implicit coupling schemes.

    Beside each field whose last value is a solver's first guess, the copy has ``Shifted-…``, its values less what is
    predicted of them, which is accelerated in its place, and ``Guess-of-…``, the prediction. With relaxation as the
    acceleration, convergence is judged by the shifted values too. In a serial scheme one field of the first solver gets
    ``Guess-of-…`` alone, to say that it takes part. IQN-IMVJ gets the restart mode RS-SLIDE in place of RS-SVD, its
    default, which in preCICE 3.4 takes more iterations with data beside the accelerated, and of RS-LS, which is alike.
    Everything else stays as it is, byte for byte.

    Parameters
    ----------
    source, target
        Paths of the configuration to read and of the copy to write.
    limits
        Factor on the limits of all convergence measures of implicit schemes. Windows that need fewer iterations end
        less far below their limits: one half makes up for it.

    Raises
    ------
    ConfigurationError
        If `source` cannot be read, is patched already, or is `target`, or if `limits` is no factor from 0 to 1.
    UnsupportedConfigurationError
        If something stands in the way of a first guess (see `obstacles`).
    """
    path, copy = Path(source), Path(target)
    if copy.resolve() == path.resolve():
        raise ConfigurationError(f"{copy}: expected the name of a copy, found the configuration itself; give another")
    if not 0.0 < limits <= 1.0:
        raise ConfigurationError(f"expected a factor on the limits above 0 and of at most 1, found {limits:g}")
    text, encoding = load(path)
    configuration = parse_configuration(text, path)
    for data in configuration.data.values():
        if is_added(data.name):
            fail(path, data.line, "a configuration that is not patched", f'data "{data.name}"', "patch its original")
    if found := obstacles(configuration):
        more = f" (and {len(found) - 1} more, see precice-lb guess check)" if len(found) > 1 else ""
        raise UnsupportedConfigurationError(f"{path}, {found[0]}{more}")
    patched = apply(text, [*_edits(configuration), *_limit_edits(configuration, limits)])
    # What cannot be read must not be left to a run.
    parse_configuration(patched, copy)
    copy.write_bytes(patched.encode(encoding))


def _edits(configuration: Configuration) -> Iterator[Edit]:
    ways = carriers(configuration)
    guessed, shifted = _places(ways), _places([way for way in ways if way.shifted])
    root = configuration.root
    beside: list[tuple[tuple[str, ...], Element]] = []
    for data in root.named("data:scalar", "data:vector"):
        beside.append(((data.attributes["name"],), data))
    for mesh in root.named("mesh"):
        beside += [((mesh.attributes["name"], use.attributes["name"]), use) for use in mesh.children]
    for participant in root.named("participant"):
        for each in participant.named("write-data", "read-data"):
            end = (each.tag, participant.attributes["name"], each.attributes["mesh"], each.attributes["name"])
            beside.append((end, each))
    for place, element in beside:
        if place in guessed:
            yield _named_beside(configuration.text, element, place in shifted)
    for element, scheme in zip(root.named("coupling-scheme:"), configuration.coupling_schemes, strict=True):
        yield from _in_scheme(configuration.text, element, scheme, [way for way in ways if way.scheme is scheme])


def _places(ways: Sequence[Route]) -> set[tuple[str, ...]]:
    """Say where data is named on its ways: itself, its meshes, and where solvers write and read it."""
    found: set[tuple[str, ...]] = set()
    for way in ways:
        exchange, data = way.exchange, way.exchange.data
        found |= {(data,), (way.write_mesh, data), (exchange.mesh, data), (way.read_mesh, data)}
        found.add(("write-data", exchange.source, way.write_mesh, data))
        found.add(("read-data", exchange.target, way.read_mesh, data))
    return found


def _named_beside(text: str, element: Element, shifted: bool) -> Edit:
    name = element.attributes["name"]

    def named(other: str, *kept: str) -> str:
        rest = {key: value for key, value in element.attributes.items() if key in kept}
        return written(element.tag, {"name": other, **rest})

    added = [named(shifted_name(name), "mesh", "waveform-degree")] if shifted else []
    return insert_behind(text, element, *added, named(guess_name(name), "mesh"))


def _in_scheme(text: str, element: Element, scheme: CouplingScheme, ways: Sequence[Route]) -> Iterator[Edit]:
    sent = {way.exchange: way.shifted for way in ways}
    for each, exchange in zip(element.named("exchange"), scheme.exchanges, strict=True):
        if exchange in sent:
            guess = {name: each.attributes[name] for name in ("data", "mesh", "from", "to")}
            guess |= {"data": guess_name(exchange.data), "initialize": "true", "substeps": "false"}
            shifted = {**each.attributes, "data": shifted_name(exchange.data)}
            both = [shifted, guess] if sent[exchange] else [guess]
            yield insert_behind(text, each, *(written("exchange", values) for values in both))
    judged = [each for each in element.children if each.tag.endswith("-convergence-measure")]
    named = [(each, "data") for each in judged if scheme.acceleration in RELAXATIONS]
    named += [(each, "name") for acceleration in element.named("acceleration:") for each in acceleration.named("data")]
    of_shifted = {(exchange.mesh, exchange.data) for exchange, is_shifted in sent.items() if is_shifted}
    for each, key in named:
        if (each.attributes["mesh"], each.attributes[key]) in of_shifted:
            yield set_attribute(text, each, key, shifted_name(each.attributes[key]))
    for acceleration in element.named("acceleration:IQN-IMVJ") if of_shifted else ():
        yield from _restart_mode(text, acceleration)


def _limit_edits(configuration: Configuration, factor: float) -> Iterator[Edit]:
    for scheme in configuration.root.named("coupling-scheme:") if factor < 1.0 else ():
        for measure in scheme.children:
            if measure.tag.endswith("-convergence-measure"):
                for key in sorted(measure.attributes.keys() & _LIMITS):
                    value = f"{factor * float(measure.attributes[key]):.6g}"
                    yield set_attribute(configuration.text, measure, key, value)


def _restart_mode(text: str, acceleration: Element) -> Iterator[Edit]:
    """Restart IQN-IMVJ by a mode that is none the worse for data beside the accelerated; others are."""
    if is_true(acceleration.attributes.get("always-build-jacobian", "")):
        return
    modes = acceleration.named("imvj-restart-mode")
    if not modes:
        restart = written("imvj-restart-mode", {"type": _SLIDE})
        yield insert_before(text, acceleration.children[0], restart)
    elif modes[0].attributes.get("type") in ("RS-SVD", "RS-LS"):
        yield set_attribute(text, modes[0], "type", _SLIDE)
