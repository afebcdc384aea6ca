"""Configurations of a case with another scheme, another acceleration or other limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from precice_lb.case import parse_configuration
from precice_lb.case.edits import Edit, apply, set_attribute, written
from precice_lb.case.elements import Element

__all__ = ["AS_IT_IS", "with_limits", "with_scheme"]

AS_IT_IS = "as-it-is"
# Where a case has none of its own.
QUASI_NEWTON = (
    '<initial-relaxation value="0.1" /><max-used-iterations value="50" /><time-windows-reused value="8" />'
    '<filter type="QR2" limit="1e-3" />'
)
# The default of IQN-IMVJ takes minutes per time window in preCICE 3.4.
RESTART = '<imvj-restart-mode type="RS-SLIDE" chunk-size="8" reused-time-windows-at-restart="8" />'


def with_scheme(text: str, scheme: str, acceleration: str) -> str:
    """Give a configuration's only scheme another kind and acceleration, with all of the data that belong there."""
    if scheme == acceleration == AS_IT_IS:
        return text
    configuration = parse_configuration(text, Path("precice-config.xml"))
    (coupling,), (element,) = configuration.coupling_schemes, configuration.root.named("coupling-scheme:")
    serial = coupling.is_serial if scheme == AS_IT_IS else scheme == "serial"
    old = element.named("acceleration:")
    children = "".join(f"{text[each.span[0] : each.end]}\n" for each in element.children if each not in old)
    kind = next((each.tag.partition(":")[2] for each in old), "") if acceleration == AS_IT_IS else acceleration
    if kind:
        sent = [each for each in coupling.exchanges if not serial or each.source == coupling.participants[1]]
        data = "".join(written("data", {"name": each.data, "mesh": each.mesh}) for each in sent)
        children += f"<acceleration:{kind}>{data}{_settings(text, old, kind, len(sent))}</acceleration:{kind}>\n"
    tag = f"coupling-scheme:{'serial' if serial else 'parallel'}-implicit"
    return f"{text[: element.span[0]]}<{tag}>\n{children}</{tag}>{text[element.end :]}"


def _settings(text: str, old: Sequence[Element], kind: str, fields: int) -> str:
    """Write an acceleration's settings: those of the case's quasi-Newton, or of relaxation what it starts with."""
    if kind == "constant":
        return '<relaxation value="0.5" />'
    kept = {each.tag: text[each.span[0] : each.end] for element in old for each in element.children}
    if kind == "aitken":
        return kept.get("initial-relaxation", '<initial-relaxation value="0.5" />')
    settings = "".join(value for tag, value in kept.items() if tag not in ("data", "preconditioner"))
    several = '<preconditioner type="residual-sum" />' if fields > 1 else ""
    return (RESTART if kind == "IQN-IMVJ" else "") + several + (settings if "filter" in kept else QUASI_NEWTON)


def with_limits(text: str, limit: float) -> str:
    """Give all convergence measures a limit, or a hundredth of their own, and iterations enough to reach it."""
    configuration = parse_configuration(text, Path("precice-config.xml"))

    def edits() -> Iterator[Edit]:
        for element in configuration.root.named("coupling-scheme:"):
            for each in element.children:
                if each.tag.endswith("-convergence-measure"):
                    least = min(limit, float(each.attributes["limit"]) / 100)
                    yield set_attribute(text, each, "limit", f"{least:g}")
                elif each.tag == "max-iterations":
                    yield set_attribute(text, each, "value", "300")

    return apply(text, edits())
