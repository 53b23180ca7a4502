"""Defaults of a Heat template's parameters against the constraints of the same parameter."""

import pytest

from vetro.packages.errors import PackageFormatError
from vetro.packages.hot import read_template


def template(parameter: str) -> bytes:
    """A template with one parameter."""
    return f"parameters:\n  p: {{{parameter}}}\nresources: {{}}\n".encode()


@pytest.mark.parametrize(
    ("parameter", "constraint"),
    [
        ("type: string, default: c, constraints: [{allowed_values: [a, b]}]", r"values \(a, b\)"),
        ("type: string, default: abc, constraints: [{length: {max: 2}}]", r"length \(max 2\)"),
        ("type: string, default: A, constraints: [{allowed_pattern: '[a-z]+'}]", "pattern;"),
        ("type: number, default: 9, constraints: [{range: {min: 1, max: 8}}]", "min 1, max 8"),
        ("type: number, default: '0.5', constraints: [{range: {min: 1}}]", r"range \(min 1\)"),
        ("type: number, default: 3, constraints: [{modulo: {step: 2, offset: 0}}]", "step 2"),
        ("type: number, default: 3, constraints: [{allowed_values: [1, '2']}]", r"\(1, 2\)"),
        ("type: comma_delimited_list, default: 'a,b', constraints: [{length: {min: 3}}]", "min 3"),
        ("type: comma_delimited_list, default: [a], constraints: [{allowed_values: [b]}]", "b"),
    ],
)
def test_a_default_that_violates_a_constraint_is_an_error(parameter: str, constraint: str) -> None:
    """Heat refuses such a template whatever is given for the parameter; the error names both."""
    with pytest.raises(PackageFormatError, match=f"default of the parameter p .*{constraint}"):
        read_template(template(parameter), [])


@pytest.mark.parametrize(
    "parameter",
    [
        "type: string, default: 5, constraints: [{allowed_values: ['5']}]",
        "type: number, default: '2', constraints: [{allowed_values: [2.0]}]",
        "type: number, default: 4, constraints: [{modulo: {step: 2, offset: 0}}, {range: {max: 4}}]",
        "type: boolean, default: true, constraints: [{allowed_values: ['true']}]",
        "type: comma_delimited_list, default: 'a, b', constraints: [{allowed_values: [a, b, c]}]",
        "type: json, default: {a: 1}, constraints: [{length: {max: 0}}]",
        "type: string, constraints: [{length: {min: 3}}]",
        "type: string, default: abc, constraints: [{allowed_pattern: '[a-z]+'}]",
        "type: string, default: net, constraints: [{custom_constraint: neutron.network}]",
    ],
)
def test_a_default_that_keeps_its_constraints_is_read(parameter: str) -> None:
    """However numbers, booleans and lists are written; what only the cloud knows is not asked."""
    assert "p" in read_template(template(parameter), []).parameters


def test_limits_that_no_value_keeps_are_an_error() -> None:
    """A range or length whose min is above its max."""
    with pytest.raises(PackageFormatError, match="has min 3 above max 2: no value fits"):
        read_template(template("type: string, constraints: [{length: {min: 3, max: 2}}]"), [])
