"""The version, apart from the package's lazy exports, so that any module may import it."""

__version__ = "0.1.0"
