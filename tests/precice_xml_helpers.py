"""Builds configurations for tests: participants that all provide a mesh and read and write on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precice_lb.case import parse_configuration
from precice_lb.schedule import Schedule

HEAD = '<?xml version="1.0" encoding="UTF-8" ?>\n<precice-configuration>\n'


def scheme(kind: str, pair: Sequence[str], exchanges: Sequence[tuple[str, str]] | None = None, body: str = "") -> str:
    """One coupling scheme; the exchanges default to both directions between all neighbours of `pair`'s first."""
    if kind == "multi":
        members = "".join(
            f'    <participant name="{n}"{" control=" + chr(34) + "yes" + chr(34) if i == 0 else ""} />\n'
            for i, n in enumerate(pair)
        )
    else:
        members = f'    <participants first="{pair[0]}" second="{pair[1]}" />\n'
    if exchanges is None:
        exchanges = [x for other in pair[1:] for x in ((pair[0], other), (other, pair[0]))]
    lines = "".join(f'    <exchange data="From{a}" mesh="{a}-Mesh" from="{a}" to="{b}" />\n' for a, b in exchanges)
    if "time-window-size" not in body:
        body += '    <time-window-size value="0.1" />\n'
    if kind.endswith("implicit") or kind == "multi":
        body += "" if "max-iterations" in body else '    <max-iterations value="2" />\n'
    return (
        f'  <coupling-scheme:{kind}>\n{members}    <max-time value="10" />\n{body}{lines}  </coupling-scheme:{kind}>\n'
    )


def configuration(participants: str, schemes: Sequence[str], pairs: Sequence[str] | None = None) -> str:
    """A configuration for one-letter participants; `pairs` such as ``("AB", "BC")`` get an m2n."""
    names = list(participants)
    if pairs is None:
        pairs = [a + b for i, a in enumerate(names) for b in names[i + 1 :]]
    parts = [HEAD]
    parts += [f'  <data:scalar name="From{n}" />\n' for n in names]
    parts += [f'  <mesh name="{n}-Mesh" dimensions="2">\n    <use-data name="From{n}" />\n  </mesh>\n' for n in names]
    for n in names:
        parts.append(f'  <participant name="{n}">\n    <provide-mesh name="{n}-Mesh" />\n')
        parts.append(f'    <write-data name="From{n}" mesh="{n}-Mesh" />\n')
        others = [m for m in names if m != n]
        parts += [f'    <receive-mesh name="{m}-Mesh" from="{m}" api-access="true" />\n' for m in others]
        parts += [f'    <read-data name="From{m}" mesh="{m}-Mesh" />\n' for m in others]
        parts.append("  </participant>\n")
    parts += [f'  <m2n:sockets acceptor="{p[0]}" connector="{p[1]}" exchange-directory=".." />\n' for p in pairs]
    return "".join([*parts, *schemes, "</precice-configuration>\n"])


def coupling(
    participants: str,
    *schemes: str | Sequence[Any],
    iterations: Mapping[str, float] | None = None,
    acceleration: Mapping[str, float] | None = None,
) -> Schedule:
    """The schedule of schemes, as texts or as the arguments of `scheme`."""
    texts = [text if isinstance(text, str) else scheme(*text) for text in schemes]
    return Schedule.from_config(parse_configuration(configuration(participants, texts)), iterations, acceleration)
