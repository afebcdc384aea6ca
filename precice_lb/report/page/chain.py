"""The section of a chain of jobs, and the page of a chain that says too little for a recommendation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from precice_lb.report.blocks import Block, Page, Paragraph, Section
from precice_lb.report.chain_chart import chain_chart
from precice_lb.report.chain_view import chain_blocks, chain_title

if TYPE_CHECKING:
    from precice_lb.chain.document import ChainDocument

CHAIN_TITLE = "Job chain"


def chain_section(chain: ChainDocument) -> Iterator[Block]:
    """Show how far the chain is, its course, its segments and what comes next."""
    lead, *others = chain_blocks(chain)
    yield lead
    if chain.segments:
        yield chain_chart(chain)
    yield from others


def chain_page(chain: ChainDocument, problem: str) -> Page:
    """Make a page of the chain alone, with what stands against a recommendation."""
    missing = Paragraph(f"No split is recommended from its runs by now: {problem}", "missing")
    section = Section("chain", CHAIN_TITLE, (*chain_section(chain), missing))
    return Page(chain_title(chain), chain.study, (section,))
