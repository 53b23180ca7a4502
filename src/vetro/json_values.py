"""What JSON is, for annotations: any value, and an object."""

from __future__ import annotations

from typing import Any

Json = Any
"""Any JSON value: ``None``, a boolean, a number, a text, a list or an object with text keys. Whoever needs
a certain shape tests for it, or decodes to a struct."""
JsonObject = dict[str, Any]
"""A JSON object: values of any kind by name."""
