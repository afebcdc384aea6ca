"""What the documentation takes from the package itself, so that the two cannot drift apart.

A line ``<!-- generated: NAME -->`` in a page becomes the text of the function of that name here, and
``<!-- file: PATH -->`` the Markdown of another place of this repository. Links that lead out of ``docs/`` follow it
where that file is a page here, and are plain text otherwise; so pages may be read beside the sources as well. One page
per package of the Python API and per tutorial is written before a build (`write_pages`). As a program it brings up to
date what the sources keep: the keys of a study in ``configs/README.md``, and the picture of the rooms (`house`).
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import pkgutil
import pydoc
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docstring_parser

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = [
    "fill",
    "house",
    "launcher_keys",
    "packages",
    "relinked",
    "study_keys",
    "unlinked",
    "write_keys",
    "write_pages",
]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# Between which `configs/README.md` has the keys of a study.
MARKS = ("<!-- keys: made by `python docs/generated.py` from the docstrings of the tables -->", "<!-- end of keys -->")
HOUSE = HERE / "images" / "house.svg"
# How far rooms are apart in it, from middle to middle.
_ROOM = (120, 70)
# Modules below a package that users meet too.
_MORE_MODULES = ("exceptions", "ingest.profiling", "layout", "plugins")
# Files outside that are pages here.
_PAGES = {
    "configs/README.md": "reference/study.md",
    "benchmarks/README.md": "benchmarks.md",
    "docker/README.md": "how-to/containers.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
_PLACE = re.compile(r"^<!-- (generated|file): (.+?) -->$", re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


@cache
def packages() -> list[str]:
    """Name the modules that make the public Python API: the packages, and a few modules below them.

    Returns
    -------
    list of str
        Dotted names, sorted; ``precice_lb`` itself comes first.
    """
    import precice_lb

    found = ["precice_lb"]
    for module in pkgutil.iter_modules(precice_lb.__path__, "precice_lb."):
        if not module.name.endswith("__main__") and getattr(importlib.import_module(module.name), "__all__", None):
            found.append(module.name)
    return sorted([*found, *(f"precice_lb.{name}" for name in _MORE_MODULES)])


def write_pages() -> None:
    """Write a page per package below ``docs/api`` and one per tutorial below ``docs/tutorials``, and remove others."""
    pages = {HERE / "api" / f"{package}.md": _package_page(package) for package in packages()}
    for readme in sorted(ROOT.glob("tutorials/*/README.md")):
        pages[HERE / "tutorials" / f"{readme.parent.name}.md"] = f"<!-- file: {readme.relative_to(ROOT)} -->\n"
    for folder in (HERE / "api", HERE / "tutorials"):
        folder.mkdir(exist_ok=True)
        for path in set(folder.glob("*.md")) - set(pages):
            path.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Sphinx's event ``source-read``: put generated text in its places and relink what leads out of ``docs/``."""
    page = f"{docname}.md"

    def put(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind == "generated":
            # Another list of rooms is another page.
            app.env.note_dependency(__file__)
            return _GENERATORS[name]()
        path = ROOT / name
        app.env.note_dependency(str(path))
        return relinked(path.read_text(encoding="utf-8"), path.parent, page)

    text = relinked(source[0], (HERE / page).parent, page)
    # A pattern that matches nothing is a warning of Sphinx's; here it waits for pages to come.
    text = re.sub(
        r"^\S+\*$", lambda match: match[0] if any(HERE.glob(f"{match[0]}.md")) else "", text, flags=re.MULTILINE
    )
    source[0] = _PLACE.sub(put, text)


def relinked(text: str, folder: Path, page: str) -> str:
    """Make the relative links of a Markdown text hold on a page of the documentation.

    Parameters
    ----------
    text : str
        Markdown whose links are relative to ``folder``.
    folder : Path
        Where the text lies.
    page : str
        Path of the page that shows it, relative to ``docs/``.

    Returns
    -------
    str
        The text; a link to what is no page is its label alone.
    """

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        place, sharp, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not place:
            return match[0]
        path = Path(os.path.normpath(folder / place))
        inside = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
        if path.is_relative_to(HERE):
            reached = path
        elif inside in _PAGES:
            reached = HERE / _PAGES[inside]
        elif re.fullmatch(r"tutorials/[^/]+(/README\.md)?", inside):
            reached = HERE / "tutorials" / f"{inside.split('/')[1]}.md"
        elif image:
            reached = path
        else:
            return label
        return f"{image}[{label}]({os.path.relpath(reached, (HERE / page).parent)}{sharp}{anchor})"

    parts = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(link, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(link, text[end:])])


def unlinked(app: Sphinx, env: Any, node: Any, contnode: Any) -> Any:
    """Sphinx's event ``missing-reference``: find a bare name in any package; without a page it is no link."""
    target = node.get("reftarget", "").lstrip("~")
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    for package in packages():
        if f"{package}.{target}" in domain.objects:
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", f"{package}.{target}", node, contnode)
    # Parameters stand in single backticks too.
    if node.get("reftype") == "obj" and target.isidentifier() and target.islower():
        return contnode
    modules = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "precice_lb"]
    first, *rest = target.split(".")
    for module in modules:
        found = vars(module).get(first)
        for name in rest:
            found = getattr(found, name, None)
        if found is not None:
            return contnode
    return contnode if pydoc.locate(target) is not None else None


def _package_page(package: str) -> str:
    return f"# `{package}`\n\n```{{eval-rst}}\n.. automodule:: {package}\n   :members:\n   :show-inheritance:\n```\n"


def _command_line() -> str:
    """Every command with its options, as ``--help`` has them."""
    from precice_lb.cli import add_readers, app

    add_readers()

    # Usage lines begin with the program that runs.
    sys.argv = ["precice-lb"]
    text = app.generate_docs(usage_name="precice-lb").replace(" *[default: None]*", "")
    text = text[text.index("\n## precice-lb") :]
    lines = []
    for line in text.splitlines():
        line = re.sub(r"^Example: (.*)$", r"Example: `\1`", line)
        # What is no code must not be taken for HTML.
        parts = re.split(r"(`[^`]*`)", line)
        lines.append("".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts))
    return "\n".join(lines)


def study_keys() -> str:
    """Every key of a study file with type, bounds and default of the model, and the meaning that its docstring states.

    Returns
    -------
    str
        A section of Markdown for each table; ``configs/README.md`` has it between two marks.
    """
    from precice_lb.campaign.study import Study
    from precice_lb.case import sections
    from precice_lb.case.machine import Demands, MachineSection

    schema = Study.model_json_schema()["$defs"]
    tables = {
        "[machine]": [MachineSection],
        "[[participants]]": [sections.ParticipantSection, sections.VersionSection, sections.BoundsSection, Demands],
        "[runs]": [sections.RunsSection],
        "[case]": [sections.CaseSection],
        "[chain]": [sections.ChainSection],
    }
    lines = []
    for table, kinds in tables.items():
        texts = [docstring_parser.parse(inspect.getdoc(kind) or "") for kind in kinds]
        meanings = _meanings(param for text in texts for param in text.params)
        lines += [f"## `{table}`", "", (texts[0].short_description or "").replace("``", "`"), ""]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        section = schema[kinds[0].__name__]
        # What it is and how it starts come first.
        for key in sorted(section["properties"], key=lambda key: key not in ("name", "command", "directory")):
            values = section["properties"][key]
            default = "required" if key in section.get("required", ()) else _default(values.get("default"))
            lines.append(f"| `{key}` | {_type(values)} | {default} | {meanings[key]} |")
        lines.append("")
    lines += ["## `[launcher]`", "", "How runs are started; a key that the launcher does not know is refused.", ""]
    lines += ["| key | type | default | for | meaning |", "|---|---|---|---|---|"]
    known = '`mpiexec`, `srun`, `slurm` or `template`, see "Launchers", or one that another package adds.'
    lines.append(f'| `name` | text | `"mpiexec"` | | {known} |')
    lines += [f"| {' | '.join(row)} |" for row in launcher_keys()]
    return "\n".join(lines)


def _meanings(params: Iterable[Any]) -> dict[str, str]:
    """Descriptions of parameters or attributes in one line of Markdown each."""
    return {
        key.strip(): " ".join((param.description or "").replace("``", "`").replace("|", "\\|").split())
        for param in params
        for key in param.arg_name.split(",")
    }


def write_keys() -> None:
    """Bring the keys in ``configs/README.md`` up to date."""
    path = ROOT / "configs" / "README.md"
    before, _, rest = path.read_text(encoding="utf-8").partition(MARKS[0])
    path.write_text(f"{before}{MARKS[0]}\n{study_keys()}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}", encoding="utf-8")


def launcher_keys() -> list[tuple[str, str, str, str, str]]:
    """Every key of ``[launcher]``, from the constructors of our launchers: key, type, default, launchers, meaning."""
    from pydantic import TypeAdapter

    from precice_lb.plugins import LAUNCHERS

    found: dict[tuple[str, str, str, str], list[str]] = {}
    for name in ("mpiexec", "srun", "slurm", "template"):
        kind = LAUNCHERS[name]
        texts = [docstring_parser.parse(inspect.getdoc(cls) or "") for cls in reversed(kind.__mro__)]
        meanings = _meanings(param for text in texts for param in text.params)
        schema = TypeAdapter(kind).json_schema()
        for key, values in schema["properties"].items():
            default = "required" if key in schema.get("required", ()) else _default(values.get("default"))
            found.setdefault((f"`{key}`", _type(values), default, meanings[key]), []).append(f"`{name}`")
    return [(key, kind, default, ", ".join(names), meaning) for (key, kind, default, meaning), names in found.items()]


def house() -> str:
    """Draw the rooms in their layers and which of them import which, as the sources do.

    Returns
    -------
    str
        An SVG picture; ``docs/images/house.svg`` has it. Layers are those of ``pyproject.toml``. An arrow that others
        imply is left out, and so are those to the lowest layers, which all may import.
    """
    layers, imports = _rooms()
    # Those above the command line are doors, and those from `plugins` on down are everybody's.
    first, last = layers.index(["cli"]) - 1, layers.index(["plugins"])
    rows = layers[first:last]
    drawn = {room: row for row, rooms in enumerate(rows) for room in rooms}
    below: dict[str, set[str]] = {room: imports[room] & drawn.keys() - {room} for room in drawn}
    reached: dict[str, set[str]] = {}
    for room in reversed(drawn):
        reached[room] = below[room].union(*(reached[other] for other in below[room]))
    arrows = sorted(
        (room, other)
        for room in drawn
        for other in below[room]
        if not any(other in reached[between] for between in below[room] - {other})
    )

    # An arrow past a layer has a place of its own there, named by both ends.
    places = [list(rooms) for rooms in rows]
    paths = {}
    for room, other in arrows:
        passed = range(drawn[room] + 1, drawn[other])
        for row in passed:
            places[row].append(f"{room}>{other}>{row}")
        paths[room, other] = [room, *(f"{room}>{other}>{row}" for row in passed), other]
    steps = [step for path in paths.values() for step in itertools.pairwise(path)]
    middles: dict[str, float] = {}
    for sweep in range(8):
        for row in range(len(places)) if sweep % 2 == 0 else reversed(range(len(places))):
            ends = {
                place: [middles[end] for step in steps if place in step for end in step if end in middles]
                for place in places[row]
            }
            places[row].sort(key=lambda place: sum(ends[place]) / len(ends[place]) if ends[place] else 0)
            widths = [_ROOM[0] if place in drawn else 40 for place in places[row]]
            left = -sum(widths) / 2
            for place, width in zip(places[row], widths, strict=True):
                middles[place] = left + width / 2
                left += width

    width = max(len(rooms) for rooms in rows) * _ROOM[0] + 40
    height = (len(rows) + 1) * _ROOM[1]
    heights = {place: 10 + row * _ROOM[1] for row, there in enumerate(places) for place in there}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="14">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for path in paths.values():
        points = [(width / 2 + middles[place], heights[place]) for place in path]
        line = f"M{points[0][0]:.0f} {points[0][1] + 30}"
        for (x, y), (to_x, to_y) in itertools.pairwise(points):
            through = f"V{to_y + 30}" if (to_x, to_y) != points[-1] else ""
            line += f"C{x:.0f} {y + 50} {to_x:.0f} {to_y - 20} {to_x:.0f} {to_y}{through}"
        parts.append(f'<path d="{line}" fill="none" stroke="#555" marker-end="url(#tip)"/>')
    for room in drawn:
        x, y = width / 2 + middles[room], heights[room]
        colour = "#fdf0d5" if room in rows[0] else "#dbe9f6"
        parts += [
            f'<rect x="{x - 50:.0f}" y="{y}" width="100" height="30" rx="4" fill="{colour}" stroke="#555"/>',
            f'<text x="{x:.0f}" y="{y + 20}" text-anchor="middle">{room}</text>',
        ]
    shared = ", ".join(room for rooms in layers[last:] for room in rooms)
    parts += [
        f'<rect x="20" y="{height - 45}" width="{width - 40}" height="30" rx="4" fill="#eee" stroke="#555"/>',
        f'<text x="{width / 2:.0f}" y="{height - 25}" text-anchor="middle">for everyone: {shared}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _rooms() -> tuple[list[list[str]], dict[str, set[str]]]:
    """Read the layers of rooms from ``pyproject.toml``, and from the sources which rooms each one imports."""
    import grimp

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    layers = [[room.strip() for room in layer.split("|")] for layer in contract["layers"]]
    graph = grimp.build_graph("precice_lb", cache_dir=None)
    imports: dict[str, set[str]] = {room: set() for rooms in layers for room in rooms}
    for module in graph.modules - {"precice_lb"}:
        names = (name.split(".") for name in graph.find_modules_directly_imported_by(module))
        imports[module.split(".")[1]] |= {name[1] for name in names if len(name) > 1}
    return layers, imports


def write_house() -> None:
    """Bring the picture of the rooms up to date."""
    HOUSE.write_text(house(), encoding="utf-8")


def _default(value: Any) -> str:
    return (
        "–"
        if value in (None, "")
        else f"`{str(value).lower()}`"
        if isinstance(value, bool)
        else f"`{value!r}`".replace("'", '"')
    )


def _type(values: dict[str, Any]) -> str:
    if "anyOf" in values:
        return " or ".join(_type(each) for each in values["anyOf"] if each.get("type") != "null")
    if "$ref" in values or values.get("additionalProperties") is True:
        return "table"
    if "enum" in values:
        return ", ".join(f'`"{each}"`' for each in values["enum"])
    kind = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}.get(values["type"])
    if kind is None:
        inner = (
            values.get("items")
            or values.get("additionalProperties")
            or next(iter(values.get("patternProperties", {"": {}}).values()))
        )
        return ("list of " if values["type"] == "array" else "table of ") + _type(inner)
    signs = {"minimum": "≥", "exclusiveMinimum": "&gt;", "maximum": "≤", "exclusiveMaximum": "&lt;"}
    return " ".join([kind, *(f"{sign} {values[key]}" for key, sign in signs.items() if key in values)])


def _store_columns() -> str:
    """Columns of a store's tables with type, unit and meaning, and its metadata."""
    from precice_lb.store import schema
    from precice_lb.store.columns import TABLES

    lines = [f"Format `{schema.FORMAT}`, version {schema.FORMAT_VERSION}.", ""]
    for table in TABLES.values():
        if table.columns:
            lines += [f"## `/{table.name}`", ""]
            lines += ["| column | type | unit | meaning | not recorded |", "|---|---|---|---|---|"]
            for column in table.columns:
                missing = "required" if column.is_required else f"{column.not_recorded:g}"
                values = (f"`{column.name}`", table.dtype[column.name], column.unit, column.description, missing)
                lines.append(f"| {' | '.join(map(str, values))} |")
            lines.append("")
    lines += [
        "## Metadata",
        "",
        "Attributes of the root.",
        "",
        "| attribute | type | unit | meaning | |",
        "|---|---|---|---|---|",
    ]
    for key in schema.METADATA.values():
        lines.append(
            f"| `{key.name}` | {key.kind} | {key.unit} | {key.description} | {'required' if key.required else ''} |"
        )
    return "\n".join(lines)


def _other_pages() -> str:
    """List the pages that no other one names."""
    index = (HERE / "index.md").read_text(encoding="utf-8")
    patterns = [
        line.strip() for block in re.findall(r"```\{toctree\}(.*?)```", index, re.DOTALL) for line in block.splitlines()
    ]
    named = {path for pattern in patterns if pattern and pattern[0] != ":" for path in HERE.glob(f"{pattern}.md")}
    rest = sorted(path.stem for path in set(HERE.glob("*.md")) - named - {HERE / "index.md"})
    return _toctree(rest, "More") if rest else ""


def _toctree(pages: list[str], caption: str | None = None) -> str:
    options = [":maxdepth: 1", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["```{toctree}", *options, "", *pages, "```"])


def _entries(folder: str) -> list[str]:
    return sorted(f"{folder}/{path.stem}" for path in (HERE / folder).glob("*.md"))


_GENERATORS: dict[str, Callable[[], str]] = {
    "command line": _command_line,
    "store columns": _store_columns,
    "other pages": _other_pages,
    "tutorials": lambda: _toctree(_entries("tutorials")),
    "packages": lambda: _toctree([f"/{entry}" for entry in _entries("api")]),
}

if __name__ == "__main__":
    write_keys()
    write_house()
