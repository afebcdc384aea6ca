"""Splits on the command line, ranks, cores where participants have threads, or ranks x threads; and layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from precice_lb.cli.options import named_values
from precice_lb.exceptions import DataError
from precice_lb.layout import Layout, Layouts, layout_from
from precice_lb.names import checked_name, without_versions
from precice_lb.plugins import close_match


def split_values(
    texts: Sequence[str], names: Sequence[str], versions: dict[str, str] | None = None, option: str = "--split"
) -> dict[str, int | str]:
    """Read ``Fluid=24,Solid=1x8`` or a JSON object, given once or several times: numbers, and texts such as 1x8.

    With ``versions`` that of ``Fluid:gpu=24`` is put there, and ``Fluid`` is the key.
    """

    def read(name: str, value: Any) -> int | str:
        if isinstance(value, str) and "x" in value.lower():
            layout_from(value)
            return value
        if isinstance(value, bool) or (number := int(value)) < 1:
            raise ValueError(value)
        return number

    expected = (
        f"participant=a whole number above 0 for each participant, such as {names[0]}=2, or ranks x threads, such as "
        f"{names[0]}=1x8"
    )
    if versions is None:
        return dict(named_values(texts, option, expected, read, participants=names))
    found = named_values(texts, option, expected, read)
    for name, sign, version in (key.partition(":") for key in found):
        if sign:
            try:
                versions[name] = checked_name(version, "version")
            except ValueError as error:
                raise DataError(f"{option}: {name}: {error}") from None
    counts, _ = without_versions(found)
    if len(counts) < len(found):
        raise DataError(f"{option}: expected each participant once, found a participant twice")
    if unknown := [name for name in counts if name not in names]:
        raise DataError(
            f"{option}: expected one of the participants {', '.join(names)}, found {unknown[0]!r}"
            f"{close_match(unknown[0], list(names))}"
        )
    return counts


def layouts_by_participant(texts: Sequence[str], names: Sequence[str]) -> dict[str, Layouts]:
    """Read ``Solid=1xfree``, ``Solid=freex4`` or ``Solid=1x4,2x4``, once per participant."""

    def read(name: str, value: Any) -> Layouts:
        pairs = [[_number(number) for number in pair.split("x")] for pair in value.replace(" ", "").split(",")]
        if len(pairs) == 1:
            ranks, threads = pairs[0]
            return Layouts(ranks, threads)
        return Layouts(None, None, tuple(Layout(int(ranks or ""), int(threads or "")) for ranks, threads in pairs))

    expected = f"participant=ranks x threads, such as {names[-1]}=1xfree, {names[-1]}=freex4 or {names[-1]}=1x4,2x4"
    return named_values(texts, "--layouts", expected, read, participants=names, single=True)


def _number(text: str) -> int | None:
    """Read a number above 0; None for one that is free."""
    number = None if text == "free" else int(text)
    if number is not None and number < 1:
        raise ValueError(text)
    return number
