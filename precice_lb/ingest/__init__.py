"""Foreign measurements, brought into the same table as recorded ones."""
