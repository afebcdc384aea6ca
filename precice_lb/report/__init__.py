"""What people see: terminal tables, figures, recommendations as files, and reports as pages."""

from __future__ import annotations

from precice_lb.rooms import lazily

__getattr__ = lazily(
    __name__,
    blocks=("Block", "DefinitionList", "Page", "Paragraph", "Table"),
    page=("Evidence", "build_page"),
    recommendation=("comparison_table", "facts", "screen_blocks", "split_table"),
    render=("console", "markdown", "page_html", "rendered", "write_report"),
    summary=("QUANTITIES", "RunSummary", "summarise", "summary_dict"),
    summary_view=("summary_blocks",),
)
