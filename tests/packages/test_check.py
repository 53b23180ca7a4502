"""Package lint: each code, its place, and everything at once (packages-and-forms.md A8)."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from vetro.cli.offline.checking import find
from vetro.muranopl import MemoryPackage, Runtime
from vetro.packages import CODES, NotAPackage, check, check_manifest_only

from .small_packages import FORM, HEAD, MANIFEST, PNG, archive, found, manifest


def test_a_good_package_has_no_findings() -> None:
    """Nothing is said of a package that is as it should be."""
    assert found({}) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", ["E002 manifest.yaml:2:1"]),
        ("a: >=1\n", ["E002 manifest.yaml:1:5"]),
        ("- 1\n", ["E004 manifest.yaml:1:1"]),
        (b"\xff\xfe", ["E002 manifest.yaml"]),
        ("a: " + "[" * 200 + "]" * 200, ["E003 manifest.yaml:1:43"]),
        (MANIFEST + "---\na: 1\n", ["E005 manifest.yaml:8:1"]),
        (manifest("Tags: a"), ["E070 manifest.yaml:7:7"]),
        (manifest("Tags: [1]"), ["E070 manifest.yaml:7:8"]),
        (manifest("Type: Library"), ["E006 manifest.yaml:7:1"]),
        (manifest("Require: [a]"), ["E005 manifest.yaml:7:10"]),
        (manifest("Require: {a-b: 1}"), ["E005 manifest.yaml:7:11"]),
        (manifest("Require: {q: nonsense}"), ["E023 manifest.yaml:7:14"]),
        (manifest(FullName=None), ["E020 manifest.yaml:1:1"]),
        (manifest(FullName="a..b"), ["E073 manifest.yaml:3:11"]),
        (manifest(Type=None), ["E020 manifest.yaml:1:1"]),
        (manifest(Type="Thing"), ["E071 manifest.yaml:2:7"]),
        (manifest(Description=None), ["E020 manifest.yaml:1:1"]),
        (manifest(Description="[a]"), ["E030 manifest.yaml:4:14"]),
        (manifest("Version: one"), ["E071 manifest.yaml:7:10"]),
        (manifest("Author: [a]"), ["E040 manifest.yaml:7:9"]),
        (manifest("Name: " + "x" * 81), ["E041 manifest.yaml:7:7"]),
        (manifest("UI: 1"), ["E072 manifest.yaml:7:5"]),
        (manifest("UI: none.yaml"), ["W073 manifest.yaml", "E050 manifest.yaml:7:5"]),
        (manifest("Logo: 1"), ["E074 manifest.yaml:7:7"]),
        (
            manifest("Logo: none.png"),
            ["W120 logo.png", "W074 manifest.yaml", "E075 manifest.yaml:7:7"],
        ),
        (manifest("Supplier: a"), ["E077 manifest.yaml:7:11"]),
        (manifest("Supplier: {Nmae: a}"), ["E021 manifest.yaml:7:12"]),
        (manifest("Autor: a"), ["W010 manifest.yaml:7:1"]),
        (manifest(Format="'9.9'"), ["W030 manifest.yaml:1:9"]),
        (manifest("  p.Other: None.yaml"), ["E050 manifest.yaml:7:12"]),
        (manifest("  p.Up: ../up.yaml"), ["E050 manifest.yaml:7:9"]),
        (manifest("Meta: 5"), ["E004 manifest.yaml:7:7"]),
        (manifest("  p.app: App.yaml"), ["E051 Classes/App.yaml", "W011 manifest.yaml:7:3"]),
        (manifest("  p-q: App.yaml"), ["E011 manifest.yaml:7:3"]),
    ],
)
def test_the_manifest(text: str, expected: Any) -> None:
    """Each mistake of a manifest, with its place."""
    listed = found({"manifest.yaml": text})
    assert [item for item in listed if not item.startswith("E051") or item in expected] == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"logo.png": None}, ["W074 manifest.yaml"]),
        ({"logo.png": b"GIF?"}, ["E075 manifest.yaml"]),
        ({"logo.png": b"<svg xmlns='http://www.w3.org/2000/svg'/>"}, ["E075 manifest.yaml"]),
        ({"logo.png": PNG + b"\0" * 600_000}, ["E075 manifest.yaml"]),
        ({"supplier_logo.png": b"no"}, ["E075 manifest.yaml"]),
        ({"UI/ui.yaml": None}, ["W073 manifest.yaml"]),
        ({"LICENSE": None}, ["W121 manifest.yaml"]),
        ({"notes.txt": "x"}, ["W120 notes.txt"]),
        ({"README.rst": "x", "images.lst": "Images: []", "Resources/a.b": "x"}, []),
        ({"Classes/Other.yaml": "Name: p.Other\n"}, ["W020 Classes/Other.yaml"]),
        ({"Classes/notes.txt": "x"}, []),
    ],
)
def test_the_files(files: Any, expected: Any) -> None:
    """What is missing, in the way, or no image."""
    assert found(files) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Nmae: App\n", ["W010 1:1"]),
        ("- 1\n", ["E004 1:1"]),
        ("Name: App\n", []),
        ("Name: Other\nNamespaces: {=: p}\n", ["E051"]),
        ("Name: 5\n", ["E011 1:7"]),
        ("Name: a-b\n", ["E011 1:7"]),
        ("Name: p.App_one\n---\n" + HEAD, ["W011 1:7"]),
        ("Name: ABCD\n---\n" + HEAD, ["W011 1:7"]),
        ("Name: ABC\n---\n" + HEAD, []),
        (HEAD + "Extends: a-b\n", ["E025 3:10"]),
        (HEAD + "Extends: [Nothing]\n", ["E301 3:11"]),
        (HEAD + "Import: [Nothing]\n", ["E301 3:10"]),
        (HEAD + "Extends: App\n", ["E302 1:1"]),
        (HEAD + "Import: [1]\n", ["E025 3:10"]),
        (HEAD + "Usage: Thing\n", ["E043 3:8"]),
        (HEAD + "Cardinality: Two\n", ["E027 3:14"]),
        (HEAD + "Inherited: maybe\n", ["E027 3:12"]),
        (HEAD + "Applies: [Clas]\n", ["E028 3:11"]),
        (HEAD + "Meta: [[1]]\n", ["E004 3:8"]),
        (HEAD + "Meta: io.murano.Object\n", ["E304 3:7"]),
        ("Namespaces: 1\nName: App\n", ["E044 1:13"]),
        ("Namespaces: {=: p, a-b: q}\nName: App\n", ["E060 1:20"]),
        ("Namespaces: {=: p, a: q-r}\nName: App\n", ["E305 1:13", "W060 1:23"]),
        (HEAD + "Properties: [a]\n", ["E026 3:13"]),
        (HEAD + "Properties:\n  a: {Contract: $, Usage: Inn}\n", ["E042 4:27"]),
        (HEAD + "Properties:\n  a: {Usage: In}\n", ["E047 4:3"]),
        (HEAD + "Properties:\n  a: 5\n", ["E047 4:3"]),
        (HEAD + "Properties:\n  a-b: {Contract: $}\n", ["E054 4:3"]),
        (HEAD + "Properties:\n  a: {Contract: $, Defualt: 1}\n", ["E021 4:20"]),
        (HEAD + "Properties:\n  a:\n    Contract: $.int(\n", ["W048 5:15"]),
        (HEAD + "Properties:\n  a: {Contract: $.itn()}\n", ["W048 4:17"]),
        (HEAD + "Properties:\n  a: {Contract: [{b: $.int().chek($ > 0)}]}\n", ["W048 4:22"]),
        (HEAD + "Methods:\n  m: {Arguments: [a: {Contract: $.strng()}]}\n", ["W048 4:33"]),
        (HEAD + "Properties:\n  a: {Contract: $.string().trim().len()}\n", []),
        (HEAD + "Properties:\n  a:\n    Contract: {$.string(): $, $.int(): $}\n", ["E303 5:31"]),
        (HEAD + "Properties:\n  a: {Contract: $.class(Nothing)}\n", ["E301 4:17"]),
        (HEAD + "Properties:\n  a: {Contract: $, Default: my-app}\n", ["W203 4:29"]),
        (HEAD + "Methods: [a]\n", ["E046 3:10"]),
        (HEAD + "Methods:\n  m: text\n", ["E046 4:6"]),
        (HEAD + "Methods:\n  .other: {}\n", ["E054 4:3"]),
        (HEAD + "Methods:\n  .init: {}\n  .destroy: {}\n  m:\n", []),
        (HEAD + "Methods:\n  m: {Boby: []}\n", ["E021 4:7"]),
        (HEAD + "Methods:\n  m: {Usage: Statc}\n", ["E305 4:14", "W045 4:14"]),
        (HEAD + "Methods:\n  m: {Usage: Action}\n", ["W045 4:14"]),
        (HEAD + "Methods:\n  m: {Scope: Puplic}\n", ["E044 4:14"]),
        (HEAD + "Methods:\n  m: {Body: 5}\n", ["E045 4:13"]),
        (HEAD + "Methods:\n  m: {Arguments: 5}\n", ["E046 4:18"]),
        (HEAD + "Methods:\n  m: {Arguments: [a]}\n", ["E046 4:19"]),
        (HEAD + "Methods:\n  m: {Arguments: [a: {}]}\n", ["E046 4:19"]),
        (
            HEAD + "Methods:\n  m: {Arguments: {a: {Contract: $}, b: {Contract: $}}}\n",
            ["E048 4:18"],
        ),
        (HEAD + "Methods: {m: {Body: [new(Nothing)]}}\n", ["E301 3:22"]),
        (HEAD + "Methods: {m: {Body: [$x: {a: !yaql ':Nothing'}]}}\n", ["E301 3:30"]),
        (HEAD + "Methods: {m: {Body: {If: $ is Nothing, Then: []}}}\n", ["E301 3:26"]),
        (HEAD + "Methods: {m: {Body: {Throw: ':Nothing', Message: $}}}\n", []),
        (HEAD + "Methods: {m: {Body: [new(App), ':App']}}\n", ["E205 3:32"]),
        (HEAD + "Methods:\n  m: {Arguments: [a-b: {Contract: $}]}\n", ["E054 4:19"]),
        (HEAD + "Methods:\n  m: {Arguments: [a: {Contract: $, Usage: Var}]}\n", ["E053 4:43"]),
        (HEAD + "A: 1\n---\nName: p.B\nA: 1\n", ["W010 3:1", "W010 6:1"]),
        (HEAD + "Methods: {}\nMethods: {}\n", ["E006 4:1"]),
        (HEAD + "Methods:\n  m:\n    Body:\n      - io.murano.extensions.p.App.new()\n", []),
    ],
)
def test_classes(text: str, expected: Any) -> None:
    """Each mistake of a class file, with its place."""
    listed = found({"Classes/App.yaml": text})
    assert [
        item.replace(" Classes/App.yaml", "").replace(":", " ", 1) for item in listed
    ] == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("$.x: 1", []),
        ("$.m(1", ["E205"]),
        ("hello there", ["E205"]),
        ("[1]", ["E204"]),
        ("{}", ["E204"]),
        ("{$.x: 1, $.y: 2}", ["E204"]),
        ("{$this: 1}", ["E204"]),
        ("{foo(): 1}", ["E204"]),
        ("{'$.x': 1}", ["E204"]),
        ("{$.x.append(): 1}", []),
        ("{Iff: 1}", ["E201"]),
        ("{Iff: 1, Then: []}", ["E201"]),
        ("{Then: [], Else: []}", ["E204"]),
        ("{If: 1, Then: [], Esle: []}", ["E201"]),
        ("{If: 1}", ["E204"]),
        ("{While: 1, Do: []}", ["E203"]),
        ("{While: $.a-b, Do: []}", ["W208"]),
        ("{For: $x, In: [], Do: []}", ["E203"]),
        ("{For: x, In: []}", ["E204"]),
        ("{Repeat: many, Do: []}", ["E203"]),
        ("{Break: 1}", ["E206", "E200"]),
        ("Break:", ["E206"]),
        ("{Rethrow: x}", ["E200"]),
        ("{While: $, Do: {Continue: }}", []),
        ("{Match: 5, Value: 1}", ["E203"]),
        ("{Match: {1: hello there}, Value: 1}", ["E205"]),
        ("{Switch: {my-app: []}}", ["W203"]),
        ("{Parallel: [{Break: }]}", ["E206"]),
        ("{Try: [], Catch: 5}", ["E203"]),
        ("{Try: [], Catch: {Whit: a}}", ["E201"]),
        ("{Try: [], Catch: {As: 5}}", ["E203"]),
        ("{Throw: 5}", ["E203"]),
        ("{Throw: a, Message: my-app}", ["W203"]),
        ("{Return: 8080/tcp}", ["W203"]),
        ("{Return: $.foo(}", ["W202"]),
        ("{Return: !yaql '1 +'}", ["E002"]),
        ("{Do: [hello there, also text]}", ["E205", "E205"]),
        ("{Return: $nothing}", ["W204"]),
        ("$x = 5", ["W204", "W205"]),
        ("$.x = 5", ["W205"]),
        ("{For: x, In: [1], Do: {Return: $x}}", []),
        ("{Do: [$y: 1, {Return: $y}]}", []),
        ("{Return: !yaql 'let(z => 1) -> $z'}", []),
        ("{Return: !yaql '[1, 2].unpack(a, b) -> $a'}", []),
        ("{Return: !yaql 'regex(`(?P<u>a)`).search(b, $u.value + $v.value)'}", ["W204"]),
        ("{Return: !yaql '[1].select($ + $1 + $this.x)'}", ["W208"]),
        ("{Do: !yaql 'inject(a, b, $argument)'}", []),
    ],
)
def test_statements(statement: str, expected: Any) -> None:
    """Each mistake of a code block; those of one block are listed together."""
    text = HEAD + f"Methods:\n  m:\n    Body:\n      - {statement}\n"
    listed = found({"Classes/App.yaml": text})
    assert [item.split()[0] for item in listed] == expected
    assert all(":6:" in item for item in listed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["E020"]),
        ("- 1", ["E004 1:1"]),
        ("a: [", ["E002 2:1"]),
        (FORM + "---\n" + FORM, ["E005 5:1"]),
        ("Version: 2\n", ["E020 1:1"]),
        ("Version: 9\nApplication: {}\n", ["W082 1:10"]),
        (FORM + "Frms: []\n", ["W010 4:1"]),
        ("Application: 5\n", ["E084 1:14"]),
        ("Application: {a-b c: 1}\n", ["E083 1:15"]),
        (FORM + "Forms: 5\n", ["E004 4:8"]),
        (FORM + "Forms: [a]\n", ["E004 4:9"]),
        (FORM + "Forms: [{a: {}}, {a: {}}]\n", ["E085 4:19"]),
        (FORM + "Forms: [{a: {feilds: []}}]\n", ["E021 4:14"]),
        (FORM + "Forms: [{a: {fields: [{name: x}]}}]\n", ["E020 4:23"]),
        (
            FORM + "Forms: [{a: {fields: [{name: x, type: string}, {name: x, type: text}]}}]\n",
            ["E085 4:48"],
        ),
        (FORM + "Forms: [{a: {fields: [{name: x, type: string, required: 5}]}}]\n", ["E081 4:57"]),
        (FORM + "Forms: [{a: {fields: [{name: x, type: string, hidden: $.a}]}}]\n", []),
        (FORM + "Forms: [{a: {fields: [{name: x, type: integer, minValue: a}]}}]\n", ["E082 4:58"]),
        (FORM + "Forms: [{a: {fields: [{name: x, type: string, label: [a]}]}}]\n", ["E040 4:54"]),
        (FORM + "Forms: [{a: {fields: [{name: x, type: string, labl: a}]}}]\n", ["W083 4:47"]),
        (FORM + "Forms: [{a: {fields: [{name: x, type: 5}]}}]\n", ["E100 4:39"]),
        (FORM + "Forms: [{a: {fields: [{name: x, type: a..b}]}}]\n", ["E100 4:39"]),
        (FORM + "Forms: [{a: {fields: [{name: x, type: strnig}]}}]\n", ["W100 4:39"]),
        (FORM + "Forms: [{a: {fields: [{name: x, type: string, help_text: a}]}}]\n", []),
        (FORM + "Templates: {t: {a: 1}}\n", ["W085 4:13"]),
        (FORM + "  a: $t\nTemplates: {t: {a: 1}}\n", []),
        (FORM + "  a: $u\n", ["E086 4:6"]),
        (FORM + "  a: !yaql 'let(u => 1) -> $u'\n", []),
        (FORM + "  a: ref(t)\n", ["E086 4:6"]),
        (FORM + "  a: $.web.x\nForms: [{wbe: {}}]\n", ["E086 4:6"]),
        (FORM + "  a: $.web.list.select($.x)\nForms: [{web: {}}]\n", []),
        (FORM + "  a: my-app\n", ["W203 4:6"]),
        (FORM + "  a: $.b(\n", ["W202 4:6"]),
        (FORM + "Version: 2.4\n", ["E006 4:1"]),
        (FORM + "Forms: [{a: {fields: [{name: x, type: choice, choices: [1]}]}}]\n", ["E087 4:23"]),
    ],
)
def test_forms(text: str, expected: Any) -> None:
    """Each mistake of a form, with its place."""
    listed = found({"UI/ui.yaml": text})
    assert [item.replace(" UI/ui.yaml", "").replace(":", " ", 1) for item in listed] == expected


@pytest.mark.parametrize(
    "version", ["Version: 1\n", "Version: 1.0\n", "Version: '1'\n", "Format: 1\n", ""]
)
def test_a_clean_form_of_version_1_has_no_findings(version: Any) -> None:
    """What clients of the catalog show is not wrong because `vetro env add` cannot ask it."""
    pages = "forms: [{a: {fields: [{name: x, type: TYPE, label: X}]}}]\n"
    assert found({"UI/ui.yaml": version + pages.replace("TYPE", "string")}) == []
    wrong = found({"UI/ui.yaml": version + pages.replace("TYPE", "5")})
    assert [item.split()[0] for item in wrong] == ["E100"]


def test_older_formats_have_their_own_advice() -> None:
    """What is newer than the package's format is named."""
    text = HEAD + (
        "Methods:\n  a: {Scope: Public}\n  b: {Usage: Static}\n"
        "  c: {Arguments: [x: {Contract: $, Usage: VarArgs}]}\n"
    )
    listed = found({"manifest.yaml": manifest(Format="'1.2'"), "Classes/App.yaml": text})
    assert [item.split()[0] for item in listed] == ["E044", "W045", "E052"]


def test_everything_is_found_at_once() -> None:
    """Mistakes of the manifest, two classes and the form come in one list, sorted."""
    listed = found(
        {
            "manifest.yaml": manifest("  p.B: B.yaml", "Tags: a"),
            "Classes/App.yaml": HEAD + "Usage: X\nProperties: {a: 1, b: {}}\n",
            "Classes/B.yaml": "Name: p.B\nMethods:\n  m:\n    Body: [one two, {Iff: 1}]\n",
            "UI/ui.yaml": FORM + "Forms: 1\n",
        }
    )
    assert listed == [
        "E043 Classes/App.yaml:3:8",
        "E047 Classes/App.yaml:4:14",
        "E047 Classes/App.yaml:4:20",
        "E205 Classes/B.yaml:4:12",
        "E201 Classes/B.yaml:4:22",
        "E004 UI/ui.yaml:4:8",
        "E070 manifest.yaml:8:7",
    ]


def test_classes_are_compiled_although_the_manifest_is_wrong() -> None:
    """A description that is missing hides no contract that is wrong, nor a class that is not there."""
    text = HEAD + "Extends: q.Nobody\n"
    other = "Name: p.B\nProperties:\n  a: {Contract: $.class()}\n"
    files = {"Classes/App.yaml": text, "Classes/B.yaml": other}
    right = found({**files, "manifest.yaml": manifest("  p.B: B.yaml")})
    wrong = found({**files, "manifest.yaml": manifest("  p.B: B.yaml", Description=None)})
    assert [item.split()[0] for item in right] == ["E301", "E303"]
    assert wrong == [*right, "E020 manifest.yaml:1:1"]


def test_a_doubled_key_names_both_places() -> None:
    """The message says where the key stands first; the finding's place is the second."""
    (item,) = check(archive({"Classes/App.yaml": HEAD + "Methods:\n  a: {}\n  b: {}\n  a: {}\n"}))
    assert (item.code, item.line, item.column) == ("E006", 6, 3)
    assert item.message == "the key a appears twice: first in line 4, column 3"


def test_required_packages_must_be_there() -> None:
    """A requirement that nobody has is one finding at its place; one that is there is none."""
    files = {"manifest.yaml": manifest("Require:", "  q.Lib: '>=1.0'")}
    assert found(files) == ["E307 manifest.yaml:8:3"]
    runtime = Runtime()
    runtime.add_package(MemoryPackage("q.Lib", {}, {}, version="1.2.0"))
    assert found(files, runtime) == []


def test_clients_look_at_the_manifest_alone() -> None:
    """Before an upload only errors of the manifest count."""
    files = {"manifest.yaml": manifest("Autor: a", "Tags: 1"), "Classes/App.yaml": "- 1"}
    assert [item.code for item in check_manifest_only(archive(files))] == ["E070"]


@pytest.mark.parametrize("content", [b"", b"no zip"])
def test_what_is_no_package_is_an_error_of_its_own(content: bytes, tmp_path: Path) -> None:
    """Not an archive, no manifest, no such file: NotAPackage, not a finding."""
    with pytest.raises(NotAPackage, match="zip archive"):
        check(content)
    with pytest.raises(NotAPackage, match="manifest"):
        check(tmp_path)
    with pytest.raises(NotAPackage, match="Unable to find"):
        check(tmp_path / "none")


def test_heat_packages_have_no_classes_to_check() -> None:
    """A Heat.HOT package is checked for its template instead."""
    text = manifest(Format="Heat.HOT/1.0", Classes=None).replace("  p.App: App.yaml\n", "")
    files = {"manifest.yaml": text, "Classes/App.yaml": None, "template.yaml": "resources: {}"}
    assert found(files) == []
    assert found({**files, "template.yaml": None}) == ["E050 manifest.yaml"]
    assert found({**files, "template.yaml": "a: 1"}) == ["E004 template.yaml:1:1"]
    assert found({**files, "template.yaml": ""}) == ["E004 template.yaml"]
    assert found({**files, "template.yaml": "a: ["}) == ["E002 template.yaml:2:1"]


def test_images_that_cannot_be_imported_are_named() -> None:
    """Entries that miss a key, hashes and addresses that are none, a list that cannot be read."""
    good = "- {Name: a, DiskFormat: qcow2, ContainerFormat: bare, Hash: " + "a" * 32 + "}\n"
    assert found({"images.lst": "Images:\n" + good}) == []
    bad = "- {Name: a}\n- {Name: b, DiskFormat: raw, ContainerFormat: bare, Hash: x, Url: b.raw}\n"
    assert found({"images.lst": "Images:\n" + good + bad}) == ["W077 images.lst"] * 3
    assert found({"images.lst": "Images: ["}) == ["W077 images.lst"]


def test_every_code_has_a_case() -> None:
    """No code is listed that the tables above do not produce."""
    import ast

    here = Path(__file__)
    files = [here, *(here.with_name(f"test_check_{one}.py") for one in ("names", "guards"))]
    texts = [
        node.value
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    shown = {text[:4] for text in texts if text[:4] in CODES}
    # What no archive can provoke here: see each reason.
    elsewhere = {
        "E001",  # an archive that opens for the lint opens for the loader, too
        "W031",  # the prefix is resolved when code runs
        "E091",  # tests/packages/test_hot.py has templates
        "E092",
        "E093",
        "E094",
    }
    assert set(CODES) - shown - elsewhere == set()


def test_one_mistake_of_a_class_hides_no_other() -> None:
    """Members are read one by one: contracts and scopes are looked at beside a wrong usage."""
    text = HEAD + (
        "Extends: nowhere:Class\n"
        "Properties:\n"
        "  a: {Contract: $.class(), Usage: Wrong}\n"
        "  b: 1\n"
        "  c: {Contract: $.class()}\n"
        "Methods:\n"
        "  m: {Usage: Nope, Arguments: [x: {Contract: $.class()}]}\n"
        "  n: {Usage: Action, Scope: Session}\n"
        "  o: {Body: [1 +]}\n"
    )
    listed = found({"Classes/App.yaml": text})
    assert listed == [
        "E305 Classes/App.yaml:3:10",
        "E303 Classes/App.yaml:5:17",
        "E042 Classes/App.yaml:5:35",
        "E047 Classes/App.yaml:6:3",
        "E303 Classes/App.yaml:7:17",
        "E305 Classes/App.yaml:9:14",
        "W045 Classes/App.yaml:9:14",
        "E303 Classes/App.yaml:9:46",
        "E305 Classes/App.yaml:10:3",
        "W045 Classes/App.yaml:10:14",
        "E205 Classes/App.yaml:11:14",
    ]


ROOT = Path(__file__).parents[2]
PACKAGES = sorted(
    path.parent
    for folder in ("library", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("manifest.yaml")
)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_packages_that_work_have_no_findings(package: Path) -> None:
    """All packages that tests, demo and benchmarks deploy, with the class library, as users check them.

    Those of benchmarks miss what people look at. What other tests deploy is checked when they end
    (tests/library/conftest.py).
    """
    listed = find(package, [ROOT / "library"])
    bare = ("E020", "W073", "W074", "W120", "W121") if "benchmarks" in package.parts else ()
    assert [str(item) for item in listed if item.code not in bare] == []


def test_a_class_that_is_too_deep_is_named_once() -> None:
    """Its file stands before the message, not in it as well."""
    (only,) = check(archive({"Classes/App.yaml": "Name: App\nx: " + "[" * 200}))
    assert (only.file, only.line, only.message) == ("Classes/App.yaml", 2, "nested deeper than 100")


def test_a_misspelt_handler_is_named() -> None:
    """Nothing would call it; one that the class calls itself, and an unlike name, are nobody's mistake."""
    text = HEAD + (
        "Extends: Base\n"
        "Methods:\n"
        "  onInstalServer: {}\n"
        "  onInstallServer: {}\n"
        "  onInstallServers: {}\n"
        "  onFire: {}\n"
        "  m: {Body: [$.onInstallServers()]}\n"
        "---\nName: Base\nMethods: {onInstallServer: {}, onServerInstalled: {}}\n"
    )
    files = {"manifest.yaml": manifest("  p.Base: App.yaml"), "Classes/App.yaml": text}
    assert found(files) == ["W210 Classes/App.yaml:5:3"]


def test_what_a_class_of_the_framework_needs_is_said() -> None:
    """A class of it without `Require`, and a required package of nearly its name."""
    (finding,) = check(
        archive({"Classes/App.yaml": HEAD + "Extends: io.murano.applications.Event\n"})
    )
    assert finding.message.endswith(
        "it needs 'Require: {io.murano.applications: }' in manifest.yaml"
    )
    text = manifest("Require: {io.murano.application: }")
    (finding,) = check(archive({"manifest.yaml": text}))
    assert finding.message.endswith("did you mean io.murano.applications?")


def test_contracts_and_metadata_are_looked_at_too() -> None:
    """A quoted contract, a function as text in a contract, an expression by accident in `Meta`."""
    text = HEAD + (
        "Meta: {io.murano.metadata.Title: {text: my-app}}\n"
        "Properties:\n"
        "  a: {Contract: '$.int()'}\n"
        '  b: {Contract: ["$.string().notNull()"]}\n'
        "  c: {Contract: !yaql \"$.string().check(matches($, 'x'))\"}\n"
        "  d: {Contract: 'either'}\n"
        "Methods:\n"
        "  m: {Arguments: [{x: {Contract: '$.class(App)'}}], Body: []}\n"
    )
    assert found({"Classes/App.yaml": text}) == [
        "W203 Classes/App.yaml:3:41",
        "W049 Classes/App.yaml:5:17",
        "W049 Classes/App.yaml:6:18",
        "E311 Classes/App.yaml:7:17",
        "W049 Classes/App.yaml:10:34",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "- Return: 'Named(' + $.x",
        "- $x: 'a' and $.y",
        "- 'a' + $.x",
        "- 'it''s ' + $.x",
        "- 'x'.toUpper()",
    ],
)
def test_an_expression_that_begins_with_a_quote_gets_a_hint(line: str) -> None:
    """YAML ends the text at the second quote; what to write instead is said."""
    text = HEAD + f"Methods:\n  m:\n    Body:\n      {line}\n      - Return: 1\n"
    (finding,) = check(archive({"Classes/App.yaml": text}))
    assert finding.code == "E002"
    mended = finding.message.partition("stands in parentheses: ")[2]
    whole = line.partition("'")
    assert mended == "('" + whole[2].replace("''", "\\'") + ")"
    again = text.replace(f"'{whole[2]}", mended)
    assert [item.code for item in check(archive({"Classes/App.yaml": again}))] in ([], ["W208"])


def test_scope_before_its_format_is_a_warning() -> None:
    """`Scope` in format 1.3 works; the original takes it, too."""
    text = HEAD + "Methods:\n  m: {Scope: Public}\n"
    files = {"manifest.yaml": manifest(Format="'1.3'"), "Classes/App.yaml": text}
    (finding,) = check(archive(files))
    assert (finding.level, finding.code) == ("warning", "E044")


def test_resources_that_cannot_be_read() -> None:
    """One that nests without end, one that is no JSON, one that is damaged."""
    files = {
        "Resources/deep.yaml": "[" * 200_000 + "]" * 200_000,
        "Resources/bad.json": "{",
        "Resources/text.template": "%no {yaml",
        "Resources/fine.yaml": "a: 1",
        "Resources/plain.txt": "DAMAGED",
    }
    with zipfile.ZipFile(io.BytesIO(archive(files))) as made:
        stored = made.read("Resources/plain.txt")
    content = archive(files).replace(stored, b"damaged")
    assert [(item.code, item.file) for item in check(content)] == [
        ("W076", "Resources/bad.json"),
        ("W076", "Resources/deep.yaml"),
        ("W076", "Resources/plain.txt"),
    ]
