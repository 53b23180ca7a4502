"""Metrics of validation at a Keystone."""

from __future__ import annotations

from vetro.http import counter

VALIDATIONS = counter(
    "vetro_keystone_validations",
    "Tokens that were looked up at Keystone.",
    outcome="`valid`, `invalid`, or `unanswered` when Keystone gave no usable answer.",
)
