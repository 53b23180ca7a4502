"""JSON schemas of classes and model builders (muranopl.md section 19)."""

import pytest

from vetro.muranopl import NoClassFound, Runtime, loose_package

HEAD = "Namespaces: {=: p, m: io.murano.metadata, f: io.murano.metadata.forms}\n"
OTHER = (
    HEAD + "Name: Other\nMethods:\n  sizes: {Usage: Static, Body: {Return: [1, 2]}}\n"
    "  upTo:\n    Usage: Static\n    Arguments: [{n: {Contract: $.int()}}]\n"
    "    Body:\n      - Return: range($n, 9).toList()\n"
)


def schema_of(text, *, other=OTHER, methods=None, name="p.Main", fmt="1.4"):
    runtime = Runtime()
    runtime.add_package(loose_package("p", HEAD + text, other, format=fmt))
    return runtime.schema(name, methods)


def of_contract(contract, extra="", fmt="1.4"):
    """The schema of one property with the contract."""
    text = f"Name: Main\nProperties:\n  x:\n    Contract: {contract}\n{extra}"
    return schema_of(text, fmt=fmt)[""]["properties"]["x"]


@pytest.mark.parametrize(
    ("contract", "expected"),
    [
        ("$", {}),
        ("$.string()", {"type": ["string", "null"]}),
        ("$.int()", {"type": ["integer", "null"]}),
        ("$.bool()", {"type": ["boolean", "null"]}),
        ("$.string().notNull()", {"type": "string"}),
        ("$.notNull().int()", {"type": "integer"}),
        ("$.class(Other)", {"type": ["muranoObject", "null"], "muranoType": "p.Other"}),
        ("$.class(Other).notNull()", {"type": "muranoObject", "muranoType": "p.Other"}),
        (
            "$.class(Other).owned()",
            {"type": ["muranoObject", "null"], "muranoType": "p.Other", "owned": True},
        ),
        (
            "$.class(Other).notOwned().notNull()",
            {"type": "muranoObject", "muranoType": "p.Other", "owned": False},
        ),
        (
            "!yaql $.template(Other).notNull()",
            {
                "type": "muranoObject",
                "muranoType": "p.Other",
                "owned": True,
                "excludedProperties": [],
            },
        ),
        (
            "!yaql \"$.template(Other, excludeProperties => [a, 'b.c'])\"",
            {
                "type": ["muranoObject", "null"],
                "muranoType": "p.Other",
                "owned": True,
                "excludedProperties": ["a", "b.c"],
            },
        ),
        (
            "$.int().check($ > 3)",
            {"type": ["integer", "null"], "minimum": 3, "exclusiveMinimum": True},
        ),
        (
            "$.int().check($ >= 3)",
            {"type": ["integer", "null"], "minimum": 3, "exclusiveMinimum": False},
        ),
        (
            "$.int().check($ < 3)",
            {"type": ["integer", "null"], "maximum": 3, "exclusiveMaximum": True},
        ),
        (
            "$.int().check($ <= -3)",
            {"type": ["integer", "null"], "maximum": -3, "exclusiveMaximum": False},
        ),
        (
            "$.int().check(3 < $)",
            {"type": ["integer", "null"], "minimum": 3, "exclusiveMinimum": True},
        ),
        (
            "$.int().check(3 >= $)",
            {"type": ["integer", "null"], "maximum": 3, "exclusiveMaximum": False},
        ),
        (
            "$.int().notNull().check($ > 0 and $ <= 65535)",
            {
                "type": "integer",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 65535,
                "exclusiveMaximum": False,
            },
        ),
        (
            "$.int().notNull().check($ > 0).check($ > 5).check($ >= 5)",
            {"type": "integer", "minimum": 5, "exclusiveMinimum": True},
        ),
        (
            "$.int().notNull().check($ < 9 and $ < 20)",
            {"type": "integer", "maximum": 9, "exclusiveMaximum": True},
        ),
        ("$.string().notNull().check($ in list(a, b))", {"type": "string", "enum": ["a", "b"]}),
        ("$.string().notNull().check($ in ['a', 'b'])", {"type": "string", "enum": ["a", "b"]}),
        (
            "$.string().notNull().check($ in list(a, b)).check($ in list(b, c))",
            {"type": "string", "enum": ["b"]},
        ),
        ("$.int().notNull().check($ in :Other.sizes())", {"type": "integer", "enum": [1, 2]}),
        ("$.int().notNull().check($ in :Other.upTo(7))", {"type": "integer", "enum": [7, 8]}),
        ("$.int().notNull().check($ in $this.allowed())", {"type": "integer", "enum": [4, 5]}),
        ("$.int().notNull().check($ in $this.broken())", {"type": "integer"}),
        ("$.string().notNull().check($.matches('^a$'))", {"type": "string", "pattern": "^a$"}),
        ("$.string().notNull().check(len($) > 3)", {"type": "string"}),
        ("$.string().notNull().check($.a > 3)", {"type": "string"}),
        ("5", {"enum": [5]}),
        ("word", {"enum": ["word"]}),
        ("{}", {"type": "object", "properties": {}, "additionalProperties": True}),
        (
            "{a: $.int(), b: $}",
            {
                "type": "object",
                "properties": {"a": {"type": ["integer", "null"]}, "b": {}},
                "additionalProperties": False,
            },
        ),
        (
            "{a: $, $.string().notNull(): $.int()}",
            {
                "type": "object",
                "properties": {"a": {}},
                "additionalProperties": {"type": ["integer", "null"]},
            },
        ),
        ("[]", {"type": "array"}),
        ("[$.int()]", {"type": "array", "items": {"type": ["integer", "null"]}}),
        (
            "[$.int().notNull(), $.string().notNull()]",
            {
                "type": "array",
                "items": [{"type": "integer"}, {"type": "string"}],
                "additionalItems": {"type": "string"},
            },
        ),
        ("[$, 2]", {"type": "array", "items": {}, "minItems": 2}),
        ("[$, 2, 5]", {"type": "array", "items": {}, "minItems": 2, "maxItems": 5}),
        (
            "[[$.int().notNull()]]",
            {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        ),
    ],
)
def test_contracts(contract, expected):
    """Each form of contract has the schema of the section's table."""
    statics = (
        "Methods:\n  allowed: {Usage: Static, Body: {Return: [4, 5]}}\n"
        "  broken: {Usage: Static, Body: {Throw: Bad}}\n"
    )
    assert of_contract(contract, statics) == expected


def test_the_function_form_of_older_formats():
    """`matches($, 'x')` is a pattern as well."""
    assert of_contract("$.string().notNull().check(matches($, '^a$'))", fmt="1.0") == {
        "type": "string",
        "pattern": "^a$",
    }


@pytest.mark.parametrize(
    ("default", "expected"),
    [("5", {"default": 5}), ("[1, {a: b}]", {"default": [1, {"a": "b"}]}), ("$.y + 1", {})],
)
def test_defaults_are_copied_unless_computed(default, expected):
    """A constant default is in the schema; an expression is not."""
    found = schema_of(
        f"Name: Main\nProperties:\n  x:\n    Contract: $\n    Default: {default}\n  y: {{Contract: $}}\n"
    )[""]
    assert found["properties"]["x"] == expected


def test_the_document_of_a_class():
    """Only In and InOut properties, inherited ones too; nothing else is allowed."""
    found = schema_of(
        "Name: Main\nExtends: Base\nMeta: [m:Title: {text: The title}]\nProperties:\n"
        "  a: {Contract: $}\n  b: {Contract: $, Usage: InOut}\n  c: {Contract: $, Usage: Out}\n"
        "  d: {Contract: $, Usage: Runtime}\n  e: {Contract: $, Usage: Const}\n"
        "  f: {Contract: $, Usage: Static}\n  g: {Contract: $, Usage: Config}\n"
        "---\nName: Base\nProperties:\n  z: {Contract: $.int()}\n"
    )
    assert list(found) == [""]
    document = found[""]
    assert document["$schema"] == "http://json-schema.org/draft-04/schema#"
    assert document["type"] == "object"
    assert document["additionalProperties"] is False
    assert sorted(document["properties"]) == ["a", "b", "z"]
    assert document["title"] == "The title"
    assert document["formSections"] == {}


BUILDERS = """Name: Main
Methods:
  build:
    Usage: Static
    Scope: Public
    Meta: [m:ModelBuilder, m:Description: {text: Builds}]
    Arguments:
      - size: {Contract: $.int().notNull(), Default: 3}
      - name: {Contract: $.string(), Meta: [m:Title: {text: A name}]}
  off:
    Usage: Static
    Scope: Public
    Meta: [m:ModelBuilder: {enabled: false}]
  session:
    Usage: Static
    Meta: [m:ModelBuilder]
  instance:
    Scope: Public
    Meta: [m:ModelBuilder]
  plain:
    Usage: Static
    Scope: Public
"""


def test_model_builders_have_schemas_of_their_arguments():
    """Static Public methods with an enabled ModelBuilder, and no others."""
    found = schema_of(BUILDERS)
    assert sorted(found) == ["", "build"]
    build = found["build"]
    assert build["description"] == "Builds"
    assert build["properties"] == {
        "size": {"type": "integer", "default": 3},
        "name": {"type": ["string", "null"], "title": "A name"},
    }


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        ("build", ["build"]),
        (["build", "none"], ["build"]),
        ("", [""]),
        (["", "build"], ["", "build"]),
        ("off", []),
    ],
)
def test_builders_can_be_chosen(methods, expected):
    """One name or several; unknown ones are left out without a word."""
    assert sorted(schema_of(BUILDERS, methods=methods)) == sorted(expected)


def test_an_unknown_class_is_an_error():
    """The class itself must exist."""
    with pytest.raises(NoClassFound):
        schema_of("Name: Main\n", name="p.Nothing")


def test_the_version_and_the_package_are_chosen():
    """Of two versions of a class the wanted one is described."""
    runtime = Runtime()
    for version, contract in (("1.0.0", "$.int()"), ("2.0.0", "$.string()")):
        text = f"Name: A\nProperties:\n  x: {{Contract: {contract}}}\n"
        runtime.add_package(loose_package("v", text, version=version))
    kinds = [
        runtime.schema("v.A", version_spec=spec)[""]["properties"]["x"]["type"][0]
        for spec in ("1", "2", None)
    ]
    assert kinds == ["integer", "string", "string"]
    assert (
        runtime.schema("v.A", version_spec="1", package="v")[""]["properties"]["x"]["type"][0]
        == "integer"
    )


def test_hints_for_forms():
    """Titles, visibility, section and place of a property."""
    found = schema_of(
        "Name: Main\nExtends: Base\nProperties:\n"
        "  a:\n    Contract: $\n    Meta:\n      - m:Title: {text: A}\n      - m:Description: {text: B}\n"
        "      - m:HelpText: {text: C}\n      - f:Hidden\n      - f:Position: {section: s, index: 1}\n"
        "---\nName: Base\nProperties:\n"
        "  z:\n    Contract: $\n    Meta: [f:Position: {index: 1}]\n"
    )[""]["properties"]
    # Main, Base and io.murano.Object: three classes; (index + 1) * 3 - distance of the class.
    assert found["a"] == {
        "title": "A",
        "description": "B",
        "helpText": "C",
        "visible": False,
        "formSection": "s",
        "formIndex": 6,
    }
    assert found["z"] == {"formIndex": 5}


def test_sections_are_numbered_with_base_classes_first():
    """A section defined twice is the one of the nearer class; indexes begin again from 0."""
    found = schema_of(
        "Name: Main\nExtends: Base\nMeta:\n"
        "  - f:Section: {name: own, title: Own, index: 0}\n"
        "  - f:Section: {name: both, title: Nearer, index: 5}\n"
        "  - f:Section: {name: loose}\n"
        "---\nName: Base\nMeta:\n"
        "  - f:Section: {name: base, title: Base, index: 9}\n"
        "  - f:Section: {name: both, title: Farther, index: 0}\n"
    )[""]["formSections"]
    assert found == {
        "own": {"title": "Own", "index": 1},
        "both": {"title": "Nearer", "index": 2},
        "loose": {"title": "loose"},
        "base": {"title": "Base", "index": 0},
    }
