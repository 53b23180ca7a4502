"""Values against the schemas of classes and arguments."""

from typing import Any

import pytest

from vetro.packages import argument_problems, value_problems

PORT = {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 65535}


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        ("abc", PORT, "x must be a whole number, not 'abc'"),
        (True, PORT, "x must be a whole number, not True"),
        ([1], PORT, "x must be a whole number, not [1]"),
        (None, PORT, "x must be a whole number, not null"),
        (0, PORT, "x must be more than 0"),
        (65536, PORT, "x must be at most 65535"),
        ("0", PORT, "x must be more than 0"),
        ("yes", {"type": "boolean"}, "x must be true or false, not 'yes'"),
        ({}, {"type": "string"}, "x must be text, not {}"),
        ("c", {"type": "string", "enum": ["a", "b"]}, "x must be one of a, b, not 'c'"),
        ("B", {"type": "string", "pattern": "^[a-z]+$"}, "x does not match ^[a-z]+$: 'B'"),
        (5, {"type": "muranoObject"}, "x must be an object, or the id of one, not 5"),
        ("a", {"type": "array"}, "x must be a list, not 'a'"),
        ([], {"type": "array", "minItems": 1}, "x must have at least 1 elements"),
        ([1, 2], {"type": "array", "maxItems": 1}, "x must have at most 1 elements"),
        ([1, "a"], {"type": "array", "items": {"type": "integer"}},
         "x.1 must be a whole number, not 'a'"),
        ([1, "a"], {"type": "array", "items": [{}], "additionalItems": {"type": "integer"}},
         "x.1 must be a whole number, not 'a'"),
        ({"a": "b"}, {"type": "object", "properties": {"a": PORT}},
         "x.a must be a whole number, not 'b'"),
        ({"b": 1}, {"type": "object", "properties": {"a": PORT}, "additionalProperties": False},
         "x has no b; there are: a"),
        ({"b": "c"}, {"type": "object", "additionalProperties": PORT},
         "x.b must be a whole number, not 'c'"),
    ],
)  # fmt: skip
def test_what_a_contract_would_refuse_is_a_problem(
    value: Any, schema: dict[str, Any], expected: str
) -> None:
    """Each keyword that class schemas have refuses what it is for, naming the place."""
    assert list(value_problems(value, schema, "x")) == [expected]


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (80, PORT),
        ("80", PORT),
        (5, {"type": "string"}),
        (None, {"type": ["integer", "null"]}),
        (None, {"type": "array"}),
        (5, {"type": "string", "enum": ["5"]}),
        ("id", {"type": "muranoObject"}),
        ({"?": {"type": "a"}, "any": 1}, {"type": "muranoObject"}),
        ({"a": {"b": [1]}}, {}),
    ],
)
def test_what_a_contract_converts_is_none(value: Any, schema: dict[str, Any]) -> None:
    """Numbers as text, text as a number, null where it may be."""
    assert list(value_problems(value, schema, "x")) == []


def test_arguments_are_checked_by_name_and_value() -> None:
    """Unknown, wrong and missing ones; what has a default or may be null may be left out."""
    wanted: dict[str, Any] = {
        "what": {"type": "string"},
        "port": {**PORT, "default": 80},
        "note": {"type": ["string", "null"]},
        "hard": {"type": "boolean", "default": False},
    }
    assert argument_problems({"what": "tea", "hard": "yes"}, wanted) == []
    assert argument_problems({"waht": 1, "port": "x"}, wanted) == [
        "there is no argument waht; did you mean what?",
        "port must be a whole number, not 'x'",
        "what is required",
    ]
    assert argument_problems({"a": 1}, {}) == ["there is no argument a; there is none"]
