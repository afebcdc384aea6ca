"""The report as a page: what was recommended and why, for someone who was not there.

`build_page` makes sections out of `Evidence`, and `write_report` renders them as one self-contained HTML file, as
Markdown and as JSON, with every figure as SVG and its numbers as CSV.
"""

from __future__ import annotations

from precice_lb.report.blocks import Block, Chart, CodeBlock, DefinitionList, Page, Paragraph, Section, Table
from precice_lb.report.page.build import build_page
from precice_lb.report.page.evidence import Evidence
from precice_lb.report.page.files import HTML_NAME, write_report

__all__ = [
    "HTML_NAME",
    "Block",
    "Chart",
    "CodeBlock",
    "DefinitionList",
    "Evidence",
    "Page",
    "Paragraph",
    "Section",
    "Table",
    "build_page",
    "write_report",
]
