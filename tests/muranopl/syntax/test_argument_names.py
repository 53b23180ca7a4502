"""Names of arguments become names of Python parameters: nothing but words may."""

import pytest

from vetro.muranopl import DslSyntaxError, MemoryPackage, Runtime


@pytest.mark.parametrize(
    "name",
    ["a-b", "x=print(1), a_y", "x): pass #", "1a", "", "a b", "$a", "a.b", "a\nb"],
)
@pytest.mark.parametrize("usage", ["Standard", "VarArgs", "KwArgs"])
def test_an_argument_name_is_a_word(name, usage):
    """A method with anything else is refused with its place, and the name reaches no code."""
    text = (
        "Name: t.Main\nMethods:\n  run:\n    Arguments:\n"
        f"      - {name!r}: {{Contract: $, Usage: {usage}}}\n"
    ).replace("'a\\nb'", '"a\\nb"')
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a.yaml": text}, {"t.Main": "a.yaml"}))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "r"}}})
    with pytest.raises(DslSyntaxError, match="is not the name of an argument of run") as caught:
        session.call(root, "run")
    assert (caught.value.position.line, caught.value.position.column) == (5, 9)


def test_names_in_any_script_are_words():
    """Letters of every script make a name."""
    text = (
        "Name: t.Main\nMethods:\n  run:\n    Usage: Static\n    Arguments:\n"
        "      - größe: {Contract: $.int()}\n    Body: {Return: $größe + 1}\n"
    )
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a.yaml": text}, {"t.Main": "a.yaml"}))
    with runtime.session() as session:
        assert session.call("t.Main", "run", 1) == 2
