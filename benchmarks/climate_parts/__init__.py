"""Parts of the climate benchmark."""
