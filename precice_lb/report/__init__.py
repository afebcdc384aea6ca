"""What people see: terminal tables, figures, ``recommendation.json`` and ``report.md``."""
