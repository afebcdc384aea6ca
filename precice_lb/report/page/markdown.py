"""A report as Markdown."""

from __future__ import annotations

from precice_lb.report.documents import grid_markdown
from precice_lb.report.page.blocks import Block, Chart, Listing, Page, Pairs, Sentence, Table
from precice_lb.report.text import markdown

__all__ = ["page_markdown"]

_ROLES = {"warning": "> **Warning:** ", "missing": "> **Not there:** ", "lead": "", "plain": ""}


def page_markdown(page: Page) -> str:
    """Render a page as GitHub-flavoured Markdown.

    Parameters
    ----------
    page
        The page.

    Returns
    -------
    str
        With the figures as links to ``figures/``. Nothing out of the user's files is markup in it.
    """
    parts = [f"# {markdown(page.title)}", markdown(page.subtitle)]
    for section in page.sections:
        parts.append(f"## {markdown(section.title)}")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Sentence):
        return _ROLES[block.role] + markdown(block.text)
    if isinstance(block, Table):
        return f"**{markdown(block.grid.title)}**\n\n{grid_markdown(block.grid)}"
    if isinstance(block, Pairs):
        return "\n".join(f"- **{markdown(key)}:** {markdown(text)}" for key, text in block.pairs)
    if isinstance(block, Listing):
        # Four spaces make code of any text, whatever fences are in it.
        return f"{markdown(block.caption)}:\n\n" + "\n".join(f"    {line}" for line in block.text.splitlines())
    assert isinstance(block, Chart)
    return (
        f"![{markdown(block.caption)}](figures/{block.name}.svg)\n\n"
        f"{markdown(block.caption)} ([numbers](data/{block.name}.csv))"
    )
