"""Balance inside a participant: what each kind of cell costs, and partitions of equal cost."""
