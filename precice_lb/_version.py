"""The version of this package: looking it up among the installed packages takes a solver longer than recording."""

VERSION = "0.1.0"
