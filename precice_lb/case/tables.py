"""Tables that people write: unknown keys are refused, and an error is one line with key, expectation and finding."""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args

import pydantic.dataclasses
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from precice_lb.exceptions import InfeasibleError
from precice_lb.plugins import choices


def _index(value: object) -> object:
    """Take whole numbers of any library, but no texts and no truth values."""
    return operator.index(value) if hasattr(value, "__index__") and not isinstance(value, bool) else value


_Integer = Annotated[int, Field(strict=True), BeforeValidator(_index)]
Whole = Annotated[_Integer, Field(ge=1)]
"""A whole number from 1."""
Count = Annotated[_Integer, Field(ge=0)]
"""A whole number from 0."""
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Text = Annotated[str, Field(min_length=1, strict=True)]
Options = Annotated[tuple[Annotated[str, Field(pattern=r"^-[^\s#]")], ...], Field(strict=False)]
"""Words of a command line."""


class StudySection(BaseModel):
    """A table: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def table(**options: Any) -> Callable[[type], type]:
    """Make a record that is checked, and may be a table of a file too; in Python, what is None is left out."""

    def decorate(cls: type) -> type:
        made: Any = pydantic.dataclasses.dataclass(**options, config=ConfigDict(extra="forbid"))(cls)
        checked = made.__init__

        def construct(self: Any, *args: Any, **values: Any) -> None:
            named = dict(zip((field.name for field in dataclasses.fields(made)), args, strict=False)) | values
            stated = {key: value for key, value in named.items() if value is not None}
            try:
                checked(self, **stated)
            except ValidationError as error:
                raise InfeasibleError(explain(error, stated, made)) from None

        made.__init__ = construct
        return made  # type: ignore[no-any-return]

    return decorate


def explain(error: ValidationError, values: Mapping[str, Any], model: type) -> str:
    """Turn pydantic's report into one line; a misspelt key first, since it explains the one that is missing."""
    details = error.errors(include_url=False)
    details.sort(key=lambda detail: detail["type"] not in _UNKNOWN)
    first = details[0]
    location = first["loc"]
    value = first["input"]
    if first["type"] in _UNKNOWN:
        known = choices(str(location[-1]), keys_at(location[:-1], model))
        text = f"unknown key{known}"
    elif first["type"] == "missing":
        text = "this key is missing"
    elif first["type"] == "sequence_str":
        text = f"expected a list, found {_shown(value)}"
    elif first["type"] == "value_error":
        text = str(first["msg"]).removeprefix("Value error, ")
    else:
        message = re.sub(r"^Input should be", "expected", str(first["msg"]))
        message = re.sub(r"^(\w+) should", "expected to", message)
        text = f"{message.partition(' after validation')[0]}, found {_shown(value)}"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    where = _dotted(location, values, missing=first["type"] == "missing")
    return f"{where}{': ' if where else ''}{text}{more}"


# Of models and of dataclasses.
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    return repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}…"


def _dotted(location: tuple[int | str, ...], values: object, *, missing: bool) -> str:
    """Write the place of a value; pydantic's marks between the keys, such as which type it tried, are left out."""
    text, value = "", values
    for number, part in enumerate(location, start=1):
        if isinstance(value, Mapping) and (part in value or (missing and number == len(location))):
            text, value = f"{text}.{part}", value.get(part)
        elif isinstance(value, list | tuple) and isinstance(part, int):
            text, value = f"{text}[{part + 1}]", value[part]
    return text.lstrip(".")


def keys_at(location: tuple[int | str, ...], root: type) -> list[str]:
    """Return the keys that may stand at a place of a table."""
    models = [root]
    for part in location:
        fields = [field for model in models if (field := _fields(model).get(str(part))) is not None]
        models = [model for field in fields for model in _models(field.annotation)] or models
    return [name for name in dict.fromkeys(name for model in models for name in _fields(model)) if name != "path"]


def _fields(model: type) -> dict[str, Any]:
    return dict(model.model_fields if issubclass(model, BaseModel) else model.__pydantic_fields__)  # type: ignore[attr-defined]


def _models(annotation: object) -> list[type]:
    """Return the tables in a type such as ``StudySection | None`` or ``tuple[StudySection, ...]``."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
