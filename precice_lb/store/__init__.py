"""HDF5 files of recorded runs: schema, writer, reader and how files belong together."""
