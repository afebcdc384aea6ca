"""Docstrings of public names, against what the code says: parameters, results and fields.

Public are the names that the reference documents, in ``__all__`` of the packages and in a few modules. Subcommands are
exempt: their help shows no such sections. That there are summaries, ruff sees to.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import docstring_parser
from markdown_helpers import generated

from precice_lb.models import LEARNERS


def _public() -> Iterator[tuple[str, Any]]:
    """Functions and classes with their paths, and methods of the latter."""
    for package in generated().packages():
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]):
            value = getattr(module, name)
            if package.startswith("precice_lb.cli"):
                continue
            if not hasattr(module, "__all__") and getattr(value, "__module__", "") != module.__name__:
                continue
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{package}.{name}", value
            # Calls of a participant are preCICE's, which describes them.
            if inspect.isclass(value) and package != "precice_lb.embedded":
                for method, function in vars(value).items():
                    inherited = any(method in vars(base) for base in value.__mro__[1:])
                    function = getattr(function, "__func__", function)
                    if (
                        inspect.isfunction(function)
                        and not method.startswith("_")
                        and (function.__doc__ or not inherited)
                    ):
                        yield f"{package}.{name}.{method}", function


def _described(value: Any, *sections: str) -> set[str]:
    parsed = docstring_parser.parse(inspect.getdoc(value) or "", style=docstring_parser.DocstringStyle.NUMPYDOC)
    entries = (param.arg_name for param in parsed.params if param.args[0] in sections)
    return {word.strip().lstrip("*") for entry in entries for word in entry.split(",")}


def _parameters(function: Any) -> set[str]:
    return {name for name in inspect.signature(function).parameters if not name.startswith("_")} - {"self", "cls"}


def _problem(value: Any) -> str | None:
    """Say what a docstring describes in place of what is there, or that it does not say what comes back."""
    if inspect.isfunction(value):
        described, there = _described(value, "param"), _parameters(value)
        parsed = docstring_parser.parse(value.__doc__ or "", style=docstring_parser.DocstringStyle.NUMPYDOC)
        nothing = str(inspect.signature(value).return_annotation) in ("None", "NoReturn", str(inspect.Signature.empty))
        # "Return …" and "Give …" say it in one line.
        in_words = (parsed.short_description or "").startswith(("Return ", "Give ", "Yield "))
        if not (nothing or parsed.many_returns or in_words):
            return "does not say what it returns"
    elif dataclasses.is_dataclass(value):
        there = {field.name for field in dataclasses.fields(value) if not field.name.startswith("_")}
        # What an estimator learns stands beside its parameters.
        described = _described(value, "param") or _described(value, "attribute")
        for base in filter(dataclasses.is_dataclass, value.__mro__[1:]):
            described |= _described(base, "attribute")
    elif inspect.isfunction(vars(value).get("__init__")) and not getattr(value, "_is_protocol", False):
        described, there = _described(value, "param"), _parameters(value.__init__)
    else:
        return None
    return (
        None if described == there else f"describes {sorted(described - there)} in place of {sorted(there - described)}"
    )


def test_public_names_are_described_as_they_are() -> None:
    names = [*_public(), *((f"LEARNERS[{name!r}]", cls) for name, cls in LEARNERS.items())]
    assert len(names) > 130
    assert {name: problem for name, value in names if (problem := _problem(value)) is not None} == {}
