"""Errors in the words of the command line: an option as it is typed, not an argument or a key of a study."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cyclopts import App, CycloptsError

# What options are called elsewhere, where that is not the option without its hyphens.
_OTHERWISE = {
    "budget": "ranks",
    "interval's level": "level",
    "parameters": "parameter",
    "present split": "present",
    "launcher.name": "launcher",
    "launcher.options": "slurm",
    "case.configuration": "config",
}
# Of arguments that are one word, only what can be nothing else.
_ARGUMENT = (
    r"(?<=expected )(?:the |an )?(?P<argument>[a-z]+(?= as a )|[a-z]+(?= between )|interval's level|present split)"
)
_KEY = (
    r"(?P<key>^[a-z_]+(?=: expected)|^launcher: [a-z_]+(?=:)|^present split(?=:)"
    r"|(?:(?:launcher|case)\.)?[a-z]+(?:_[a-z]+)+|(?:launcher|case)\.[a-z]+|(?<=beside )[a-z]+)"
)
# A text in quotes, of a file or of the user, stays.
_WORD = re.compile(rf"'[^']*'|\"[^\"]*\"|{_ARGUMENT}|(?<![\w./=-]){_KEY}(?: = true)?(?![\w./=-]*[\w/])")


def as_typed(text: str, app: App, tokens: Sequence[str]) -> str:
    """Write an error's text with the options of the command that was typed, where it has them.

    Parameters
    ----------
    text : str
        Of the error.
    app : App
        The command line.
    tokens : sequence of str
        What was typed behind the program's name.

    Returns
    -------
    str
    """
    try:
        _, apps, _ = app.parse_commands(tokens)
        options = {name for argument in apps[-1].assemble_argument_collection() for name in argument.names}
    except (CycloptsError, ValueError):
        return text

    def option(match: re.Match[str]) -> str:
        word = (match["argument"] or match["key"] or "").replace(": ", ".")
        if not word:
            return match[0]
        name = "--" + _OTHERWISE.get(word, word.rpartition(".")[2]).replace("_", "-")
        return name if name in options else match[0]

    return _WORD.sub(option, text)
