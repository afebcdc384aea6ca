"""A better first guess for implicit coupling: fewer coupling iterations per time window."""

from __future__ import annotations

from precice_lb.rooms import lazily

__getattr__ = lazily(__name__, columns=("GUESSES", "PREFIX"), config=("is_patched", "obstacles", "patch_guess"))
