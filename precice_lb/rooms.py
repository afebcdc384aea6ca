"""Rooms that stand on the core, one line each: without a folder and its line the package works as before, less that.

The core imports no room. It asks for a hook by name and gets what every room has under it, loaded then. A room says
where: ``module`` for a module that adds something where it is imported, ``module:name`` for what the core calls or
shows.

=================== ================================================================================================
``columns``         tables in stores (`precice_lb.store.columns.register`)
``command``         subcommands (``precice_lb.cli.app``)
``participant_class`` ``(cls, recording, arguments)`` to the class of a participant, where its configuration
                    or its user asks for another one
``run_facts``       what ranks recorded (`precice_lb.dataset.records.RecordedWindows`) to pairs of a key and a text, for
                    summaries
``page_section``    name, title and maker of a section of the page, which has none where it makes nothing
``write_beside``    ``(sources, ranks, directory)`` to files written beside a recommendation
``read_story``      a directory to what it says above its runs (`precice_lb.report.blocks.Story`), or None
=================== ================================================================================================
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any

ROOMS: dict[str, tuple[str, ...]] = {
    "partners": ("command", "view:page_section", "view:write_beside"),
    "watch": ("command",),
    "guess": ("columns", "command", "exchange:participant_class", "command:run_facts"),
    "inside": ("command", "view:page_section"),
    "chain": ("command", "view:read_story"),
    "embedded": (),
}


def hooks(name: str) -> list[Any]:
    """Load what the rooms have under the name of a hook, in their order."""
    loaded = []
    for room_name, places in ROOMS.items():
        for module, _, attribute in (place.partition(":") for place in places):
            if name == (attribute or module):
                imported = importlib.import_module(f"precice_lb.{room_name}.{module}")
                loaded.append(getattr(imported, attribute) if attribute else imported)
    return loaded


def room(name: str) -> ModuleType | None:
    """Load a room, if it is there."""
    return importlib.import_module(f"precice_lb.{name}") if name in ROOMS else None


def lazily(package: str, **places: Collection[str]) -> Callable[[str], Any]:
    """Make a room's ``__getattr__``: it loads what the room offers, by module, when it is asked for."""

    def get(name: str) -> Any:
        for module, names in places.items():
            if name in names and hasattr(imported := importlib.import_module(f"{package}.{module}"), name):
                return getattr(imported, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
