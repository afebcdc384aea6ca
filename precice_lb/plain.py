"""Values as plain JSON types: everybody may import it."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["json_text", "plain"]


def plain(value: Any) -> Any:
    """Give dataclasses and mappings as dicts, arrays and tuples as lists, and None for floats that are not finite.

    Parameters
    ----------
    value
        Whatever consists of these and of texts, numbers and None.

    Returns
    -------
    dict, list, str, int, float, bool or None
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def json_text(value: Any) -> str:
    """Write a value as JSON that every reader takes.

    Parameters
    ----------
    value
        As for `plain`.

    Returns
    -------
    str
        Lines.
    """
    return json.dumps(plain(value), indent=2, allow_nan=False) + "\n"
