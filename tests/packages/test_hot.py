"""Heat packages: the class and the form made from a template (packages-and-forms.md A6)."""

import io
import json
import zipfile
from typing import Any

import pytest

from vetro.muranopl import MemoryPackage, MuranoError, Runtime
from vetro.packages import (
    Package,
    PackageClassError,
    PackageError,
    PackageFormatError,
    PackageLimitError,
    build_archive,
    check,
    check_upload,
    load_form,
    open_package,
)

MANIFEST = """\
Format: Heat.HOT/1.0
Type: Application
FullName: org.acme.Hot
Version: 1.2.0
Description: A stack
Require: {org.acme.Other: 1}
"""
TEMPLATE = """\
heat_template_version: 2013-05-23
parameters:
  image: {type: string}
resources:
  net: {type: 'OS::Neutron::Net'}
"""
CORE = """
Namespaces: {=: io.murano}
Name: Application
---
Name: Environment
---
Namespaces: {=: io.murano.system}
Name: Resources
---
Name: HeatStack
"""


def package(template: str | None = TEMPLATE, **files: str) -> Package:
    """A Heat package; names of files with / as __."""
    return open_package(archive(template, **files))


def archive(template: str | None = TEMPLATE, **files: str) -> bytes:
    """Its zip."""
    content = {"manifest.yaml": MANIFEST, "LICENSE": "free", "logo.png": "\x89PNG\r\n\x1a\n"}
    if template is not None:
        content["template.yaml"] = template
    content |= {name.replace("__", "/"): text for name, text in files.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, text in content.items():
            made.writestr(name, text.encode("latin-1" if name == "logo.png" else "utf-8"))
    return buffer.getvalue()


def declared(parameters: str, more: str = "") -> str:
    """A template with these parameters."""
    return f"parameters:\n  {parameters}\n{more}\nresources: {{}}\n"


def values(opened: Package, given: dict[str, Any]) -> Any:
    """What the generated class makes of given parameters. Errors: MuranoError."""
    runtime = Runtime()
    names: list[str] = [
        "io.murano.Application",
        "io.murano.Environment",
        "io.murano.system.HeatStack",
    ]
    classes = dict.fromkeys([*names, "io.murano.system.Resources"], "c")
    runtime.add_package(MemoryPackage("io.murano", {"c": CORE}, classes))
    runtime.add_package(opened)
    model = {
        "?": {"type": "org.acme.Hot/1.2.0", "id": "a"},
        "name": "a",
        "templateParameters": given,
    }
    with runtime.session() as session:
        root = session.load({"Objects": model})
        assert root is not None
        return root["templateParameters"]


def test_a_heat_package_has_one_class_and_no_requirements() -> None:
    """The class is named like the package, and the template is the resource of that name."""
    opened = package()
    assert list(opened.classes) == ["org.acme.Hot"]
    assert opened.requirements == {}
    assert 'Name: "org.acme.Hot"' in opened.read_class(opened.classes["org.acme.Hot"])
    assert opened.read_resource("org.acme.Hot") == TEMPLATE.encode()
    with pytest.raises(FileNotFoundError):
        opened.read_class("other.yaml")
    check_upload(opened)


@pytest.mark.parametrize(
    ("type_", "given", "kept"),
    [
        ("string", 1, "1"),
        ("number", "7", 7),
        ("boolean", "yes", True),
        ("comma_delimited_list", "a,b", "a,b"),
        ("json", '{"a": 1}', '{"a": 1}'),
        ("number, default: 0.5", "1.5", "1.5"),
    ],
)
def test_parameters_have_their_types(type_: str, given: Any, kept: Any) -> None:
    """A value is converted as the parameter's type says; one that is not given is null."""
    opened = package(declared(f"p: {{type: {type_}}}"))
    assert values(opened, {"p": given}) == {"p": kept}
    assert values(opened, {}) == {"p": None}


@pytest.mark.parametrize(
    ("declaration", "good", "bad"),
    [
        ('{type: string, constraints: [{allowed_values: [a, 1, "it\'s"]}]}', "it's", "b"),
        ("{type: string, constraints: [{allowed_values: [1, true]}]}", "true", "2"),
        ("{type: number, constraints: [{allowed_values: [1, 2]}]}", 2, 3),
        ("{type: string, constraints: [{length: {min: 2, max: 3}}]}", "abc", "abcd"),
        ("{type: string, constraints: [{length: {min: 2}}]}", "ab", "a"),
        ("{type: string, constraints: [{length: {max: '2'}}]}", "ab", "abc"),
        ("{type: number, constraints: [{range: {min: 1, max: 3}}]}", 3, 4),
        ("{type: number, constraints: [{range: {max: 3}}]}", -1, 4),
        ("{type: string, constraints: [{allowed_pattern: '[a-z]+'}]}", "abc", "abc1"),
        ("{type: string, constraints: [{allowed_pattern: '(?i)[a-z]+'}]}", "ABC", "1"),
        ("{type: number, constraints: [{modulo: {step: 4, offset: 1}}]}", 5, 4),
        ("{type: string, constraints: [{length: {max: 3}, allowed_pattern: '[a-z]*'}]}", "a", "1"),
        ("{type: string, constraints: [{custom_constraint: x}, {length: {max: 3}}]}", "a", "abcd"),
        ("{type: comma_delimited_list, constraints: [{length: {max: 2}}]}", "abc,def", "a,b,c"),
        ("{type: comma_delimited_list, constraints: [{allowed_values: [a, b]}]}", "b, a", "b,c"),
    ],
)
def test_constraints_are_checked_before_anything_is_made(
    declaration: str, good: Any, bad: Any
) -> None:
    """Every kind, several in one entry, and for lists the elements; what is not given passes."""
    opened = package(declared(f"p: {declaration}"))
    values(opened, {"p": good})
    values(opened, {})
    with pytest.raises(MuranoError, match="templateParameters"):
        values(opened, {"p": bad})


def test_with_environments_any_parameter_may_be_given() -> None:
    """An environment may have what the template asks for, so the contract is an empty map."""
    opened = package(declared("p: {type: number}"), Resources__HotEnvironments__big="{}")
    assert values(opened, {"other": "x"}) == {"other": "x"}


@pytest.mark.parametrize(
    ("template", "error", "message"),
    [
        (None, PackageClassError, "there is no file template.yaml"),
        ("a: 1", PackageFormatError, "Not a HOT template"),
        ("- a", PackageFormatError, "Not a HOT template"),
        ("", PackageFormatError, "Not a HOT template"),
        ("resources: [a]", PackageFormatError, "Not a HOT template"),
        ("a: [", PackageError, "template.yaml:2"),
        ("a: " + "[" * 200 + "]" * 200, PackageLimitError, "nested"),
        ("resources: {}\nx: " + "y" * 600_000, PackageLimitError, "bytes"),
        (
            declared("p: {type: text}"),
            PackageFormatError,
            "Unsupported parameter type of p: 'text'",
        ),
        (declared("p: {}"), PackageFormatError, "Unsupported parameter type of p: it has none"),
        (declared("p: 1"), PackageFormatError, "2:6: .*the parameter p must be a map"),
        ("parameters: []\nresources: {}", PackageFormatError, "parameters must be a map"),
        (declared("p: {type: string, constraints: 1}"), PackageFormatError, "must be a list"),
        (declared("p: {type: string, constraints: [1]}"), PackageFormatError, "must be a map"),
        (
            declared("p: {type: string, constraints: [{length: {}}]}"),
            PackageFormatError,
            "needs min or max",
        ),
        (
            declared("p: {type: string, constraints: [{length: {min: x}}]}"),
            PackageFormatError,
            "must have numbers",
        ),
        (
            declared("p: {type: string, constraints: [{allowed_pattern: '['}]}"),
            PackageFormatError,
            "not a regular expression",
        ),
        (
            declared("p: {type: number, constraints: [{modulo: {step: 0, offset: 1}}]}"),
            PackageFormatError,
            "step",
        ),
        (declared("p: {type: string, hidden: maybe}"), PackageFormatError, "hidden of the param"),
        (declared("p: {type: string, tags: a}"), PackageFormatError, "tags of the par.*a list"),
        (declared("p: {type: string, tags: [1]}"), PackageFormatError, "tags of the par.*be texts"),
        (declared("p: {type: string}", "parameter_groups: 1"), PackageFormatError, "be a list"),
        (declared("p: {type: string}", "parameter_groups: [1]"), PackageFormatError, "be a map"),
    ],
)
def test_templates_that_cannot_be_used(
    template: str | None, error: type[PackageError], message: str
) -> None:
    """A package with such a template does not open; the error names the parameter."""
    with pytest.raises(error, match=message):
        package(template)


FORM = """\
parameters:
  db_name: {type: string, description: Its name, default: app,
    constraints: [{length: {min: 1, max: 9}}, {length: {max: 5}}]}
  size: {type: number, default: '2', constraints: [{range: {min: 1}, description: at least 1}]}
  big: {type: boolean, default: false, tags: [disk, speed, disk]}
  secret: {type: string, label: Password, hidden: true}
  odd-name: {type: string, constraints: [{allowed_values: [a, b]}]}
  list: {type: comma_delimited_list, default: [a, b]}
  data: {type: json, default: {a: 1}}
  share: {type: number, default: 0.5}
parameter_groups:
- {label: Database, parameters: [db_name, nothing, secret]}
resources: {}
"""


def test_the_form_asks_for_every_parameter() -> None:
    """Groups are pages, the others come last; types, labels, limits, defaults are the template's."""
    form = load_form(package(FORM).ui or "", package_name="org.acme.Hot", title="Hot")
    described = form.describe()
    assert described["warnings"] == []
    fields = {one["path"]: one for page in described["pages"] for one in page["fields"]}
    assert list(fields) == [
        "group0.title", "group0.name", "group1.db_name", "group1.secret", "group2.size", "group2.big",
        "group2.odd-name", "group2.list", "group2.data", "group2.share",
    ]  # fmt: skip
    name = fields["group1.db_name"]
    assert (name["type"], name["label"], name["description"]) == ("string", "Db Name", "Its name")
    assert name["constraints"] == {"min_length": 1, "max_length": 5}
    assert (name["initial"], name["required"]) == ("app", False)
    size, secret = fields["group2.size"], fields["group1.secret"]
    assert (size["type"], size["initial"]) == ("integer", 2)
    assert fields["group2.big"]["type"] == "boolean"
    assert fields["group2.big"]["help_text"] == "disk, speed"
    assert (secret["type"], secret["label"], secret["required"]) == ("password", "Password", True)
    assert fields["group2.list"]["initial"] == "a,b"
    assert fields["group2.data"]["initial"] == '{"a": 1}'
    assert (fields["group2.share"]["type"], fields["group2.share"]["initial"]) == ("string", "0.5")
    assert fields["group0.title"]["hidden"] is True


def test_the_form_makes_an_application_of_the_class() -> None:
    """Answers become parameters; an answer that the template refuses is refused by the form."""
    opened = package(FORM)
    form = load_form(opened.ui or "", package_name="org.acme.Hot", title="Hot")
    answers = {"group0.name": "one", "group1.secret": "short", "group2.odd-name": "b"}
    made = form.build(form.fill(answers))
    assert made["?"]["type"] == "org.acme.Hot"
    assert made["?"]["classVersion"] == "1.2.0"
    assert made["name"] == "one"
    assert made["templateParameters"] == {
        "db_name": "app", "secret": "short", "size": 2, "big": False, "odd-name": "b", "list": "a,b",
        "data": '{"a": 1}', "share": "0.5",
    }  # fmt: skip
    assert values(opened, made["templateParameters"]) == made["templateParameters"]
    with pytest.raises(Exception, match="at least 1"):
        form.fill({**answers, "group2.size": 0})
    with pytest.raises(Exception, match="odd-name"):
        form.fill({**answers, "group2.odd-name": "c"})


def test_a_form_of_the_package_is_kept() -> None:
    """An author's UI/ui.yaml stands before the generated form."""
    assert package(UI__ui="x").ui != "x"
    assert package(**{"UI__ui.yaml": "Version: 2\nApplication: {}\n"}).ui == (
        "Version: 2\nApplication: {}\n"
    )


def test_hostile_texts_do_not_leave_their_quotes() -> None:
    """Names and values with quotes, braces, expressions and control characters stay texts."""
    odd = '\'); $x: "{0}" @name@ \\\\ \u2028 \x7f'
    quoted = json.dumps(odd)
    template = (
        f"parameters:\n  {quoted}: {{type: string, default: {quoted}, label: {quoted},"
        f" constraints: [{{allowed_values: [{quoted}]}}]}}\nresources: {{}}\n"
    )
    opened = package(template)
    assert values(opened, {odd: odd}) == {odd: odd}
    form = load_form(opened.ui or "", package_name="org.acme.Hot", title="Hot")
    assert form.build(form.fill({"group0.name": "one"}))["templateParameters"] == {odd: odd}


def test_a_directory_becomes_an_archive(tmp_path: Any) -> None:
    """`vetro package build` packs a Heat package like any other."""
    (tmp_path / "p").mkdir()
    (tmp_path / "p/manifest.yaml").write_text(MANIFEST)
    (tmp_path / "p/template.yaml").write_text(TEMPLATE)
    build_archive(tmp_path / "p", tmp_path / "p.zip")
    assert open_package(tmp_path / "p.zip").full_name == "org.acme.Hot"


def found(template: str, **files: str) -> list[str]:
    """The findings of a Heat package's check."""
    return [
        f"{item.code} {item.file}" + (f":{item.line}:{item.column}" if item.line else "")
        for item in check(archive(template, **files))
    ]


@pytest.mark.parametrize(
    ("template", "codes"),
    [
        (TEMPLATE, []),
        (FORM, []),
        (TEMPLATE + "---\na: 1\n", ["E005 template.yaml:7:1"]),
        ("resources:\n  a: 1\n", ["E004 template.yaml:2:6"]),
        ("resources:\n  a: {}\n", ["E020 template.yaml:2:3"]),
        ("resources: {}\noutputs: 1\n", ["E004 template.yaml:2:10"]),
        (declared("p: {type: text}"), ["E091 template.yaml:2:6"]),
        (
            "resources:\n  a: {type: T, properties: {x: {get_resource: b}}}\n",
            ["E093 template.yaml:2:47"],
        ),
        ("resources:\n  a: {type: T, depends_on: b}\n", ["E093 template.yaml:2:28"]),
        (
            "resources:\n  a: {type: T, depends_on: [c]}\n  b: {type: T, depends_on: a}\n"
            "  c: {type: T, properties: {x: {list_join: ['', [{get_attr: [b, y]}]]}}}\n",
            ["E094 template.yaml:2:3"],
        ),
        (
            "resources:\n  a: {type: T, properties: {x: {get_resource: a}}}\n",
            ["E094 template.yaml:2:3"],
        ),
        (
            "resources:\n  a: {type: T, depends_on: b}\n"
            "  b: {type: T, properties: {x: {if: [c, {get_resource: a}, '']}}}\n",
            [],
        ),
        (
            "resources:\n  a: {type: T, depends_on: b}\n  b: {type: T, depends_on: a, condition: c}\n",
            [],
        ),
        (
            "resources:\n  a: {type: T}\noutputs:\n  o: {value: {get_attr: [b, x]}}\n",
            ["E093 template.yaml:4:26"],
        ),
        (
            "resources:\n  a: {type: T, properties: {x: {get_param: 'OS::stack_id'},"
            " y: {get_param: p}}}\n",
            ["E093 template.yaml:2:76"],
        ),
        (
            "resources:\n  a: {type: T, properties: {x: {get_file: a.txt}, y: {get_file: b}}}\n",
            ["E092 template.yaml:2:65"],
        ),
        (
            "resources:\n  a: {type: T, properties: {x: {repeat: {for_each: {'%i%': [a]},"
            " template: {get_resource: '%i%'}}}}}\n",
            [],
        ),
        ("resources:\n  a: {type: sub.yaml}\n", ["E092 template.yaml:2:13"]),
        (
            "parameters:\n  p: {type: text}\n  q: {type: number, constraints: [{modulo: {step: 0}}]}\n"
            "parameter_groups: 1\nresources:\n  a: {type: T, depends_on: b}\n",
            [
                *(f"E091 template.yaml:{at}" for at in ("2:6", "3:6", "4:19")),
                "E093 template.yaml:6:28",
            ],
        ),
    ],
)
def test_the_check_of_a_template(template: str, codes: list[str]) -> None:
    """Every mistake that a deployment would end with, at its place."""
    assert found(template, **{"Resources__HotFiles__a.txt": "x"}) == codes
    told = [item.message for item in check(archive(template))]
    assert not any("Incorrect package format" in text for text in told)


def test_the_check_of_environments() -> None:
    """An environment names parameters of the template."""
    file = "Resources/HotEnvironments/big.yaml"
    text = "parameters: {image: x, imagee: y}\nparameter: {}\n"
    assert found(TEMPLATE, **{file.replace("/", "__"): text}) == [
        f"E093 {file}:1:24",
        f"W010 {file}:2:1",
    ]
