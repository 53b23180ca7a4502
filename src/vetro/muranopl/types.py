"""Classes and packages of a runtime, as hosts see them."""

from __future__ import annotations


class MuranoPackage:
    """A loaded package."""

    name: str
    version: str
    format: str

    def read_resource(self, name: str) -> bytes:
        """The content of a file below `Resources/`; FileNotFoundError names package and file."""
        raise NotImplementedError


class MuranoType:
    """A class; also the type object that programs see."""

    name: str
    version: str
    package: MuranoPackage
