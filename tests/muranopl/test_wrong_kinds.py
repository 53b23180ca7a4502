"""What a program may call with the wrong things, and what it is told."""

import pytest

from vetro.muranopl import MuranoError

CLASS = """
Namespaces: {=: t}
Name: Main
Properties: {n: {Contract: $.int(), Default: 0, Usage: Runtime}}
Methods:
  tell: {Body: [{$.n: 77}, {Return: 1}]}
  run: {Body: {Return: !yaql 'EXPRESSION'}}
  told: {Body: {Return: $.n}}
"""


@pytest.mark.parametrize("format_", ["1.1", "1.4"])
@pytest.mark.parametrize(
    "text", ["nosuch($.tell())", "nosuch(x => $.tell())", "[$].select(nosuch($.tell()))"]
)
def test_an_unknown_function_is_found_before_its_arguments_run(load, text, format_):
    """The error about the name comes first, and the arguments change nothing."""
    session, root = load(CLASS.replace("EXPRESSION", text), format=format_)
    with pytest.raises(MuranoError, match='Unknown function "nosuch"'):
        session.call(root, "run")
    assert session.call(root, "told") == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("let(1)", "is not a value"),
        ("[let(1)]", "is not a value"),
        ("{a => with(1)}", "is not a value"),
        ("def(f, 1)", "is not a value"),
        ("$.unknown(let(1))", "has no method"),
        ("call(1)", "the name must be text, not 1"),
        ("call(len, 1)", "args must be a list, not 1"),
        ("call(len, abc)", "args must be a list"),
        ("call(len, [], 5)", "kwargs must be a map, not 5"),
        ("call(null)", "the name must be text, not null"),
        ('int("abc")', "is not an integer"),
        ("typeinfo(1)", "is not a class"),
        ("new(1)", "."),
    ],
)
def test_what_cannot_be_meant_is_said_in_the_language(load, text, message):
    """No context of the host reaches a program, and no text of Python."""
    session, root = load(CLASS.replace("EXPRESSION", text))
    with pytest.raises(MuranoError, match=message) as caught:
        session.call(root, "run")
    for word in (
        "object is not",
        "has no attribute",
        "NoneType",
        "' object",
        "invalid literal",
        "<class",
    ):
        assert word not in caught.value.message
