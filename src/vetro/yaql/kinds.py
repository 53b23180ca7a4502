"""Kinds of values, as sets of bits (yaql.md section 4): what a function accepts, what code returns."""

from __future__ import annotations

from typing import TypeAlias

Kind: TypeAlias = int
"""A set of kinds: bits of the constants below."""

NULL = 1
BOOLEAN = 2
INTEGER = 4
FLOAT = 8
STRING = 16
LIST = 32
LAZY = 64
MAPPING = 128
SET = 256
DATETIME = 512
TIMESPAN = 1024
REGEX = 2048
CONTEXT = 4096
FUNCTION = 8192
HOST = 16384
"""A value of the host: opaque unless the host defines its members."""
ANY = 32767
NUMBER = INTEGER | FLOAT
SEQUENCE = LIST | LAZY
ITERABLE = LIST | LAZY | SET
SCALAR = NULL | BOOLEAN | INTEGER | FLOAT | STRING
UNSETTLED = LIST | LAZY | MAPPING | SET | CONTEXT
"""Kinds whose values may need conversion to final form, or have none."""

KIND_NAMES: dict[Kind, str] = {
    NULL: "null",
    BOOLEAN: "boolean",
    INTEGER: "integer",
    FLOAT: "float",
    STRING: "string",
    LIST: "list",
    LAZY: "iterator",
    MAPPING: "mapping",
    SET: "set",
    DATETIME: "datetime",
    TIMESPAN: "timespan",
    REGEX: "regex",
    CONTEXT: "context",
    FUNCTION: "lambda",
    HOST: "object",
}


def describe_kinds(kinds: Kind) -> str:
    """`integer or string`, for people."""
    if kinds & ANY == ANY:
        return "any"
    names: list[str] = []
    for group, name in ((ITERABLE, "iterable"), (SEQUENCE, "sequence"), (NUMBER, "number")):
        if kinds & group == group:
            names.append(name)
            kinds &= ~group
    names.extend(name for bit, name in KIND_NAMES.items() if kinds & bit)
    return " or ".join(names)
