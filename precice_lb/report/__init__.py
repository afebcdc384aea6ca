"""What people see: terminal tables, figures, recommendations as files, and reports as pages."""
