"""Chains of jobs: production runs in segments, whose border is where the split of ranks may change."""
