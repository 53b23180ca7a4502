"""Reading YAML and JSON that came from outside, within limits and with positions.

A text from outside is measured before anything is built from it: PyYAML and libyaml recurse in C, so
deep nesting would end the process, and a few aliases can stand for billions of nodes. ``read_yaml`` and
``read_json`` return plain values; ``measure_yaml`` is the first half alone, for readers that build a
tree of their own. Every error is a ``DocumentError``, a ``ValueError`` with a position; nothing else
leaves these functions, whatever the text is.
"""

from vetro.documents.errors import DocumentError, DocumentTooLarge
from vetro.documents.jsonvalues import read_json
from vetro.documents.limits import DocumentLimits
from vetro.documents.texts import text_of
from vetro.documents.yamlvalues import measure_yaml, read_yaml, safe_loader, write_yaml

__all__ = [
    "DocumentError",
    "DocumentLimits",
    "DocumentTooLarge",
    "measure_yaml",
    "read_json",
    "read_yaml",
    "safe_loader",
    "text_of",
    "write_yaml",
]
