"""preCICE's own profiling files: parsed, joined with recorded runs, or imported in their place."""

from __future__ import annotations

from precice_lb.ingest.profiling.calls import Profile, read_profile
from precice_lb.ingest.profiling.enrich import enrich
from precice_lb.ingest.profiling.find import find_profiles
from precice_lb.ingest.profiling.importer import ImportResult, import_profiling

__all__ = ["ImportResult", "Profile", "enrich", "find_profiles", "import_profiling", "read_profile"]
