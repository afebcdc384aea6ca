"""Reading a ``precice-config.xml``: the rules and defaults of preCICE 3.4 (its ``*Configuration.cpp`` files)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from precice_lb.exceptions import ConfigurationError
from precice_lb.precice_xml.coupling import read_coupling_scheme
from precice_lb.precice_xml.elements import Reader, load, parse
from precice_lb.precice_xml.records import (
    M2N,
    Configuration,
    Data,
    Element,
    Mesh,
    Participant,
    ReceivedMesh,
)
from precice_lb.precice_xml.records import Mapping as MeshMapping

_JUST_IN_TIME = ("nearest-neighbor", "rbf", "rbf-pum-direct", "coarse-graining")


def read_configuration(path: str | Path) -> Configuration:
    """Read what a preCICE 3 configuration says.

    Everything that preCICE 3 allows is read, with its defaults; whether a backend or a schedule supports it is theirs
    to say. Names are checked: of participants, meshes and data, wherever one is used.

    Parameters
    ----------
    path
        The ``precice-config.xml``.

    Returns
    -------
    Configuration
        The records, in the order of the file, and the element tree for everything else.

    Raises
    ------
    ConfigurationError
        If the file is missing, is no well-formed XML, belongs to preCICE 2, or contradicts itself: one line with what
        was expected, what was found, where, and what to do.
    """
    path = Path(path)
    text, _ = load(path)
    return parse_configuration(text, path)


def parse_configuration(text: str, path: str | Path = "precice-config.xml") -> Configuration:
    """Read a configuration whose text is at hand, as `read_configuration` does; the same text is read once.

    Parameters
    ----------
    text : str
        All of the file.
    path : path
        For messages.

    Returns
    -------
    Configuration

    Raises
    ------
    ConfigurationError
        As `read_configuration`.
    """
    return _parsed(text, Path(path))


@lru_cache(maxsize=64)
def _parsed(text: str, path: Path) -> Configuration:
    root = parse(path, text)
    reader = Reader(path)
    _check_root(reader, root)
    data: dict[str, Data] = {}
    meshes: dict[str, Mesh] = {}
    participants: dict[str, Participant] = {}
    for element in root.named("data:scalar", "data:vector"):
        record = _read_data(reader, element)
        reader.add(data, record.name, record, element)
    for element in root.named("mesh"):
        mesh = _read_mesh(reader, element, data)
        reader.add(meshes, mesh.name, mesh, element)
    names = [reader.text(element, "name") for element in root.named("participant")]
    for element in root.named("participant"):
        participant = _read_participant(reader, element, meshes, names)
        reader.add(participants, participant.name, participant, element)
    _check_received(reader, root, participants)
    m2ns: list[M2N] = []
    for element in root.named("m2n:"):
        m2ns.append(_read_m2n(reader, element, names, m2ns))
    schemes = tuple(
        read_coupling_scheme(reader, element, meshes, participants, m2ns) for element in root.named("coupling-scheme:")
    )
    return Configuration(path, text, data, meshes, participants, tuple(m2ns), schemes, root)


def root_children(text: str) -> tuple[Element, ...]:
    """Elements of a configuration whatever preCICE thinks of them; none of text that is not XML."""
    try:
        return parse(Path("precice-config.xml"), text).children
    except ConfigurationError:
        return ()


def _check_root(reader: Reader, root: Element) -> None:
    old = [e for e in (root, *root.children) if e.tag == "solver-interface"]
    if old:
        reader.fail(old[0], "a configuration of preCICE 3", "one of preCICE 2", "port it to preCICE 3")
    if root.tag != "precice-configuration":
        reader.fail(root, "<precice-configuration>", "another root element", "give a preCICE configuration")
    reader.check(root)


def _read_data(reader: Reader, element: Element) -> Data:
    degree = reader.integer(element, "waveform-degree", "1", least=0)
    return Data(reader.text(element, "name"), element.tag == "data:vector", degree, element.line)


def _read_mesh(reader: Reader, element: Element, data: Mapping[str, Data]) -> Mesh:
    dimensions = int(reader.text(element, "dimensions"))
    used = tuple(reader.known(child, "name", "data", data) for child in element.children)
    return Mesh(reader.text(element, "name"), dimensions, used, element.line)


def _read_participant(
    reader: Reader, element: Element, meshes: Mapping[str, Mesh], participants: list[str]
) -> Participant:
    provides = tuple(reader.known(child, "name", "mesh", meshes) for child in element.named("provide-mesh"))
    receives = tuple(
        ReceivedMesh(
            name=reader.known(child, "name", "mesh", meshes),
            provider=reader.known(child, "from", "participant", participants),
            safety_factor=reader.number(child, "safety-factor", "0.5", least=0),
            geometric_filter=reader.text(child, "geometric-filter", "on-secondary-ranks"),
            api_access=reader.boolean(child, "api-access") or reader.boolean(child, "direct-access"),
            line=child.line,
        )
        for child in element.named("receive-mesh")
    )
    used = (*provides, *(mesh.name for mesh in receives))
    for child in element.named("provide-mesh", "receive-mesh"):
        if used.count(child.attributes["name"]) > 1:
            reader.fail(child, "every mesh once", f'"{child.attributes["name"]}" twice', "remove one")

    def pair(child: Element) -> tuple[str, str]:
        mesh = reader.known(child, "mesh", "mesh of this participant", used)
        return mesh, reader.known(child, "name", f'data of mesh "{mesh}"', meshes[mesh].data)

    mappings = tuple(_read_mapping(reader, child, used, provides) for child in element.named("mapping:"))
    for position, mapping in enumerate(mappings):
        for other in mappings[:position]:
            same = mapping.target == other.target and mapping.source == other.source
            # One of them just in time.
            mixed = mapping.target == other.target and None in (mapping.source, other.source)
            if same or (mixed and mapping.direction == other.direction == "write"):
                reader.fail(
                    mapping.element, "one mapping to a mesh from another", f"a second to {mapping.target}", "remove one"
                )

    return Participant(
        name=reader.text(element, "name"),
        provides=provides,
        receives=receives,
        reads=tuple(pair(child) for child in element.named("read-data")),
        writes=tuple(pair(child) for child in element.named("write-data")),
        mappings=mappings,
        line=element.line,
    )


def _read_mapping(reader: Reader, element: Element, meshes: tuple[str, ...], provides: tuple[str, ...]) -> MeshMapping:
    def mesh(name: str) -> str | None:
        # preCICE takes an empty name for none at all: a just-in-time mapping.
        if not element.attributes.get(name):
            return None
        return reader.known(element, name, "mesh of this participant", meshes)

    source, target = mesh("from"), mesh("to")
    kind, direction = element.tag.partition(":")[2], reader.text(element, "direction")
    if source is None and target is None:
        reader.fail(element, 'a mesh as "from" or "to"', "neither", "name the meshes")
    reads, constraint = direction == "read", element.attributes["constraint"]
    # Without a mesh on the solver's side it is just in time.
    if None in (source, target):
        if (source if reads else target) is None or constraint != ("consistent" if reads else "conservative"):
            expected = (
                'direction="read" constraint="consistent" without "to", or "write" and "conservative" without "from"'
            )
            reader.fail(element, expected, "another just-in-time mapping", "correct it, or name both meshes")
        if kind not in _JUST_IN_TIME:
            remedy = "name both meshes, or take another mapping"
            reader.fail(element, f"one of {', '.join(_JUST_IN_TIME)} for just-in-time mapping", f'"{kind}"', remedy)
    for name, role in ((source, "receives" if reads else "provides"), (target, "provides" if reads else "receives")):
        if name is not None and (name in provides) != (role == "provides"):
            reader.fail(
                element, f'a mesh that the participant {role} as "{"from" if name == source else "to"}" of '
                f'direction="{direction}"', f'"{name}"', "turn the direction, or provide and receive the meshes so"
            )  # fmt: skip
    return MeshMapping(
        kind=kind,
        direction=direction,
        constraint=reader.text(element, "constraint"),
        source=source,
        target=target,
        line=element.line,
        element=element,
    )


def _check_received(reader: Reader, root: Element, participants: Mapping[str, Participant]) -> None:
    for owner in root.named("participant"):
        for element in owner.named("receive-mesh"):
            mesh, provider = element.attributes["name"], element.attributes["from"]
            if mesh not in participants[provider].provides:
                reader.fail(
                    element, f'a participant that provides mesh "{mesh}"', f'"{provider}"', "add <provide-mesh> there"
                )


def _read_m2n(reader: Reader, element: Element, participants: list[str], before: list[M2N]) -> M2N:
    acceptor = reader.known(element, "acceptor", "participant", participants)
    connector = reader.known(element, "connector", "participant", participants)
    if acceptor == connector:
        reader.fail(element, "two participants", f'"{acceptor}" twice', "correct it")
    if any({m.acceptor, m.connector} == {acceptor, connector} for m in before):
        reader.fail(element, "one m2n for a pair", f'a second for "{acceptor}" and "{connector}"', "remove one")
    return M2N(
        kind=element.tag.partition(":")[2],
        acceptor=acceptor,
        connector=connector,
        exchange_directory=reader.text(element, "exchange-directory", "."),
        use_two_level_initialization=reader.boolean(element, "use-two-level-initialization"),
        line=element.line,
        element=element,
    )
