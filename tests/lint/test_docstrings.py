"""Docstrings of public names, against what the code says: parameters, results, errors, shapes, fields.

Public are the names that the reference documents, in ``__all__`` of the packages and in a few modules: they have
everything. Names without underscore in modules inside a package state the shapes of arrays that they describe.
Subcommands are exempt from sections that their help does not show. That there are summaries, and no sections of what is
not there, ruff sees to.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import docstring_parser
from markdown_helpers import generated

import precice_lb
from precice_lb import exceptions
from precice_lb.models import LEARNERS

MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(precice_lb.__path__, "precice_lb.")
    if not found.name.endswith("__main__")
]
ARRAYS = re.compile(r"NDArray|ArrayLike|ndarray|\b(Array|Rows|Integers|Mask|Values)\b")
# What says a shape: brackets with sizes, or words for no array at all.
SHAPE = re.compile(r"shape|\([A-Za-z0-9_, +·×…-]*\)|[Ss]ee `|As [`in]")


@dataclasses.dataclass(frozen=True)
class Name:
    """A public function, method, property or class."""

    path: str
    value: Any
    kind: str
    module: ModuleType
    owner: type | None = None


def _members(path: str, cls: type, module: ModuleType) -> Iterator[Name]:
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property) and value.fget is not None:
            yield Name(f"{path}.{name}", value, "property", module, cls)
        elif isinstance(value, classmethod | staticmethod):
            yield Name(f"{path}.{name}", value.__func__, "function", module, cls)
        elif inspect.isfunction(value):
            inherited = any(name in vars(base) for base in cls.__mro__[1:])
            if value.__doc__ or not inherited:
                yield Name(f"{path}.{name}", value, "function", module, cls)


def _names(modules: list[ModuleType], *, own: bool) -> list[Name]:
    found = []
    for module in modules:
        for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]):
            value = getattr(module, name)
            if (own or not hasattr(module, "__all__")) and getattr(value, "__module__", "") != module.__name__:
                continue
            path = f"{module.__name__}.{name}"
            if inspect.isclass(value):
                found += [Name(path, value, "class", module), *_members(path, value, module)]
            elif inspect.isfunction(value):
                found.append(Name(path, value, "function", module))
    return found


PUBLIC = _names([importlib.import_module(package) for package in generated().packages()], own=False)
LEARNED = [Name(f"LEARNERS[{name!r}]", cls, "class", inspect.getmodule(cls)) for name, cls in LEARNERS.items()]  # type: ignore[arg-type]
ALL = _names(MODULES, own=True)


def _parsed(name: Name) -> docstring_parser.Docstring:
    text = inspect.cleandoc(name.value.__doc__ or "")
    return docstring_parser.parse(text, style=docstring_parser.DocstringStyle.NUMPYDOC)


def _described(parsed: docstring_parser.Docstring, *sections: str) -> list[str]:
    return [
        word.strip().lstrip("*")
        for each in parsed.params
        if each.args[0] in sections
        for word in each.arg_name.split(",")
    ]


def _parameters(function: Callable[..., Any], *, method: bool) -> list[str]:
    names = [name for name in inspect.signature(function).parameters if not name.startswith("_")]
    return names[1:] if method and names[:1] in (["self"], ["cls"]) else names


def _raised(function: Callable[..., Any]) -> set[str]:
    """Name our errors that a body raises itself, not those of functions inside it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found: set[str] = set()

    def look(node: ast.AST, caught: frozenset[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.Lambda | ast.ClassDef):
                continue
            if isinstance(node, ast.Try) and child in node.body:
                look_at(child, caught | _caught(node))
            else:
                look_at(child, caught)

    def look_at(node: ast.AST, caught: frozenset[str]) -> None:
        if isinstance(node, ast.Raise) and node.exc is not None:
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(error, ast.Name) and hasattr(exceptions, error.id) and error.id not in caught:
                found.add(error.id)
        look(node, caught)

    look(tree.body[0], frozenset())
    return found


def _caught(node: ast.Try) -> frozenset[str]:
    """Name our errors that the handlers of a statement catch."""
    said = [
        word
        for handler in node.handlers
        if handler.type
        for word in ast.walk(handler.type)
        if isinstance(word, ast.Name)
    ]
    bases = tuple(getattr(exceptions, word.id) for word in said if hasattr(exceptions, word.id))
    errors = {name: value for name, value in vars(exceptions).items() if inspect.isclass(value)}
    ours = {name for name, error in errors.items() if bases and issubclass(error, bases)}
    return frozenset(errors if any(word.id in ("Exception", "BaseException") for word in said) else ours)


def _helped(annotation: Any) -> bool:
    return any(getattr(each, "help", None) for each in getattr(annotation, "__metadata__", ()))


def _parameter_problems(name: Name) -> list[str]:
    if name.kind != "function":
        return []
    wanted = _parameters(name.value, method=name.owner is not None)
    found = _described(_parsed(name), "param")
    if found and name.value.__module__.startswith("precice_lb.cli."):
        # An option of several subcommands brings its help along.
        annotations = inspect.get_annotations(name.value, eval_str=True)
        found += [each for each in wanted if each not in found and _helped(annotations[each])]
    return [] if sorted(found) == sorted(wanted) else [f"describes parameters {found}, takes {wanted}"]


def _error_problems(name: Name) -> list[str]:
    # What a subcommand raises is its one line of error.
    if name.kind != "function" or name.value.__module__.startswith("precice_lb.cli."):
        return []
    said = {word.strip() for each in _parsed(name).raises for word in (each.type_name or "").split(",")}
    return [
        f"raises {error} and does not say so"
        for error in sorted(_raised(name.value))
        if not said & {base.__name__ for base in getattr(exceptions, error).__mro__}
    ]


def _result_problems(name: Name) -> list[str]:
    # What a subcommand returns is its exit code.
    if name.kind != "function" or name.value.__module__.startswith("precice_lb.cli."):
        return []
    parsed = _parsed(name)
    annotation = str(inspect.signature(name.value).return_annotation)
    if annotation in ("None", "NoReturn", str(inspect.Signature.empty)):
        return []
    # "Return …" and "Give …" say it in one line.
    said = bool(parsed.many_returns) or (parsed.short_description or "").startswith(("Return ", "Give ", "Yield "))
    if not said:
        return [f"does not say what it returns: {annotation}"]
    text = " ".join(f"{each.type_name} {each.description}" for each in parsed.many_returns) or str(name.value.__doc__)
    return ["does not say the shape of its result"] if ARRAYS.search(annotation) and not SHAPE.search(text) else []


def _shape_problems(name: Name) -> list[str]:
    if name.kind != "function":
        return []
    found = []
    for each in _parsed(name).params:
        text = f"{each.type_name} {each.description}"
        for word in each.arg_name.split(","):
            parameter = inspect.signature(name.value).parameters.get(word.strip().lstrip("*"))
            if parameter is not None and ARRAYS.search(str(parameter.annotation)) and not SHAPE.search(text):
                found.append(f"does not say the shape of {parameter.name}")
    return found


def _class_problems(name: Name) -> list[str]:
    if name.kind != "class":
        return []
    cls = name.value
    parsed = _parsed(name)
    if dataclasses.is_dataclass(cls):
        wanted = {field.name for field in dataclasses.fields(cls) if not field.name.startswith("_")}
        # What an estimator learns stands beside its parameters.
        found = set(_described(parsed, "param") or _described(parsed, "attribute"))
        for base in filter(dataclasses.is_dataclass, cls.__mro__[1:]):
            found.update(_described(docstring_parser.parse(base.__doc__ or ""), "attribute"))
    elif inspect.isfunction(vars(cls).get("__init__")) and not getattr(cls, "_is_protocol", False):
        wanted = set(_parameters(cls.__init__, method=True))
        found = set(_described(parsed, "param"))
    else:
        return []
    return [] if found == wanted else [f"describes {sorted(found - wanted)} in place of {sorted(wanted - found)}"]


def _problems(names: list[Name], *checks: Callable[[Name], list[str]]) -> list[str]:
    return sorted({f"{name.path}: {problem}" for name in names for check in checks for problem in check(name)})


def test_there_is_something_to_look_at() -> None:
    assert len(PUBLIC) > 200
    assert len(ALL) > 900


def test_public_functions_describe_exactly_their_parameters() -> None:
    assert _problems(PUBLIC, _parameter_problems) == []


def test_public_functions_say_what_they_return() -> None:
    assert _problems(PUBLIC, _result_problems) == []


def test_public_functions_say_which_of_our_errors_they_raise() -> None:
    assert _problems(PUBLIC, _error_problems) == []


def test_arrays_have_shapes() -> None:
    assert _problems([*PUBLIC, *ALL], _shape_problems) == []


def test_public_classes_describe_their_fields_and_parameters() -> None:
    assert _problems([*PUBLIC, *LEARNED], _class_problems) == []


class _Planted:
    """Docstrings that are wrong on purpose."""

    @staticmethod
    def stale(ranks: int) -> int:
        """Do something.

        Parameters
        ----------
        cores : int
            Gone since long.
        """
        if ranks < 1:
            raise exceptions.DataError("never")
        raise AssertionError


def test_what_is_wrong_is_seen() -> None:
    name = Name("planted", _Planted.stale, "function", importlib.import_module(__name__))
    assert _parameter_problems(name) == ["describes parameters ['cores'], takes ['ranks']"]
    assert _result_problems(name) == ["does not say what it returns: int"]
