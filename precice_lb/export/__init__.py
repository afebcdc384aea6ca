"""Recorded runs in other forms: Chrome traces for Perfetto, CSV, pandas, one file per participant."""

from __future__ import annotations

from precice_lb.export.merged import export_merged
from precice_lb.export.tables import export_csv, to_dataframe
from precice_lb.export.trace import export_trace

__all__ = ["export_csv", "export_merged", "export_trace", "to_dataframe"]
