"""Blocks and whole pages as GitHub-flavoured Markdown: nothing out of the user's files is markup in it."""

from __future__ import annotations

from collections.abc import Iterable

from precice_lb.report.blocks import Block, Chart, CodeBlock, DefinitionList, Page, Paragraph, Picture, Table
from precice_lb.report.text import markdown

__all__ = ["blocks_markdown", "page_markdown"]


def page_markdown(page: Page) -> str:
    """Render a page, with its figures as links to ``figures/``."""
    parts = [f"# {markdown(page.title)}", markdown(page.subtitle)]
    for section in page.sections:
        parts += [f"## {markdown(section.title)}", *map(_block, section.blocks)]
    return "\n\n".join(parts) + "\n"


def blocks_markdown(title: str, blocks: Iterable[Block]) -> str:
    """Render blocks under one title."""
    return "\n\n".join([f"# {markdown(title)}", *map(_block, blocks)]) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        head = block.heading or ("not there" if block.role == "missing" else "")
        return f"> **{markdown(head.capitalize())}:** {markdown(block.text)}" if head else markdown(block.text)
    if isinstance(block, Table):
        return f"**{markdown(block.title)}**\n\n{_table(block)}"
    if isinstance(block, DefinitionList):
        return "\n".join(f"- **{markdown(key)}:** {markdown(text)}" for key, text in block.pairs)
    if isinstance(block, CodeBlock):
        # Four spaces make code of any text, whatever fences are in it.
        return f"{markdown(block.caption)}:\n\n" + "\n".join(f"    {line}" for line in block.text.splitlines())
    if isinstance(block, Picture):
        return f"![{markdown(block.caption)}]({block.file})"
    assert isinstance(block, Chart)
    caption = markdown(block.caption)
    return f"![{caption}](figures/{block.name}.svg)\n\n{caption} ([numbers](data/{block.name}.csv))"


def _table(table: Table) -> str:
    rows = [[markdown(cell) for cell in row] for row in (table.header, *table.rows)]
    rows.insert(1, ["---:" if numeric else ":---" for numeric in table.numeric])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
