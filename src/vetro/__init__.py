"""Vetro: an application catalog for your own machines.

Each sub-package is one room (see ``docs/architecture.md``); its ``__init__`` is its public face.
"""

__version__ = "0.1.0"
