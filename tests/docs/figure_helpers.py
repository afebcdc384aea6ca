"""Figures in the documentation, and whether a command prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from markdown_helpers import Block, Passage, is_commands

# No parts of words, of versions (3.4.1) or of longer numbers.
_NUMBER_IN_PROSE = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?(?!\w|\.\d|,\d{3}\b)")
_NUMBER_IN_OUTPUT = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
_YEAR = re.compile(r"19[6-9]\d|20[0-3]\d")


def figures(text: str) -> list[str]:
    """Return the numbers of a text that have three digits or more, or a decimal point, and are no years."""
    found = []
    for number in _NUMBER_IN_PROSE.findall(text):
        digits = re.sub(r"e.*|[,.]", "", number).lstrip("0")
        if not _YEAR.fullmatch(number) and (len(digits) >= 3 or "." in number):
            found.append(number)
    return found


def is_printed(figure: str, output: str) -> bool:
    """Whether an output has a figure, or a number that gives it when it is rounded."""
    value = Decimal(figure.replace(",", ""))
    last_digit = Decimal(1).scaleb(int(value.as_tuple().exponent))
    for number in _NUMBER_IN_OUTPUT.findall(output):
        if abs(Decimal(number.replace(",", "")) - value) <= last_digit / 2:
            return True
    return False


def unprinted_figures(text: str, output: str) -> list[str]:
    """Return the figures of a text that an output does not have."""
    return [figure for figure in figures(text) if not is_printed(figure, output)]


def _on_one_line(text: str, *, numbers: bool) -> str:
    """Return a text with single spaces, and without ``numbers`` with # in place of each."""
    if not numbers:
        text = _NUMBER_IN_OUTPUT.sub("#", text)
    return " ".join(text.split())


def unprinted_lines(text: str, output: str, *, numbers: bool = True) -> list[str]:
    """Return the lines of a block of output that a command's output does not have.

    Parameters
    ----------
    text : str
        The block; … stands for anything.
    output : str
        What the command printed; it may be wrapped elsewhere.
    numbers : bool
        Whether numbers have to be the same.
    """
    printed = _on_one_line(output, numbers=numbers)
    missing = []
    for line in text.splitlines():
        pieces = [re.escape(_on_one_line(piece, numbers=numbers)) for piece in line.split("…")]
        if not re.search(".*?".join(pieces), printed):
            missing.append(line)
    return missing


def is_output(block: Block) -> bool:
    """Whether a block may be what a command printed."""
    return block.language in ("", "text") and not is_commands(block)


def _is_runnable(block: Block) -> bool:
    """Whether a block has commands or Python."""
    return is_commands(block) or block.language == "python"


def wrong_parts(section: Iterable[Block | Passage], outputs: dict[Block, str]) -> list[str]:
    """Return the lines and numbers of a section that the blocks before them do not print.

    Parameters
    ----------
    section : iterable of Block or Passage
        Parts of a section, in their order.
    outputs : dict
        What the blocks that were run printed. After a block that was not run, nothing is checked until the next block
        that was run.
    """
    wrong = []
    # The commands count, too: a number in the text may be an argument of a command.
    commands_and_outputs = ""
    for part in section:
        if isinstance(part, Block) and _is_runnable(part):
            commands_and_outputs = f"{commands_and_outputs}\n{part.text}\n{outputs[part]}" if part in outputs else ""
        elif not commands_and_outputs or part.marker == "printed in full by":
            continue
        elif isinstance(part, Passage):
            if part.marker != "not compared":
                wrong += [f"{part.name}: {figure}" for figure in unprinted_figures(part.text, commands_and_outputs)]
        elif is_output(part):
            lines = unprinted_lines(part.text, commands_and_outputs, numbers=part.marker != "not compared")
            wrong += [f"{part.name}: {line}" for line in lines]
    return wrong
