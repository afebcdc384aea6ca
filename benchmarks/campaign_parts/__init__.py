"""Parts of the campaign benchmark: cases with known truth, campaigns, tables."""
