"""Recorded runs in the formats that other tools read: Chrome traces for Perfetto, CSV, pandas, xarray."""

from __future__ import annotations

from precice_lb.export.tables import export_csv, to_dataframe, to_xarray
from precice_lb.export.trace import export_trace

__all__ = ["export_csv", "export_trace", "to_dataframe", "to_xarray"]
