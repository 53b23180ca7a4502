"""Every reader of documents from outside answers hostile ones with its documented error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from vetro import documents
from vetro.cli.terminal import documents as given
from vetro.compute.allocation.errors import InvalidRequest
from vetro.compute.allocation.validation import check_request
from vetro.compute.wire import Image
from vetro.documents import DocumentError
from vetro.engine.plans import read_result
from vetro.json_texts import NotJson, decode_json
from vetro.messaging.errors import MessagingError
from vetro.messaging.results import source_of
from vetro.muranopl import MuranoError
from vetro.muranopl import read_documents as read_class
from vetro.packages import DataError, PackageError, check, parse_manifest, read_json, read_yaml
from vetro.packages.forms import FormError, load_form
from vetro.packages.package import syntax
from vetro.stacks.errors import TemplateError
from vetro.stacks.template.templates import parse

from .hostile import BYTES

PARAMETERS = {"heat_template_version": "2013-05-23", "parameters": {"p": {"type": "json"}}}


def text(content: bytes) -> str:
    """What a text reader is given: half of a surrogate pair stays."""
    return content.decode("utf-8", "surrogatepass" if b"\xed\xa0" in content else "replace")


class Said(msgspec.Struct):
    """A type with one field; a document may have others beside it."""

    version: str = ""


def allocated(package: object = None, **vm: object) -> object:
    """A request to place a VM."""
    owner = "9f7c1b3a-4a0e-4c0d-8a3c-f4f4b7c1f111"
    return check_request(vm={"owner_uuid": owner, "ram": 1024, **vm}, image={}, package=package)


READERS: dict[str, tuple[Callable[[bytes], Any], type[Exception]]] = {
    "YAML": (documents.read_yaml, DocumentError),
    "JSON": (documents.read_json, DocumentError),
    "resource, YAML": (lambda content: read_yaml(content, "f"), DataError),
    "resource, JSON": (lambda content: read_json(content, "f"), DataError),
    "manifest": (parse_manifest, PackageError),
    "form": (
        lambda content: load_form(text(content), package_name="p", title="t"),
        FormError,
    ),
    "class file at upload": (lambda content: syntax(content, "f"), PackageError),
    "class file": (lambda content: read_class(text(content)), MuranoError),
    "environment of a template": (
        lambda content: parse({"resources": {}}, environment=text(content)),
        TemplateError,
    ),
    "parameter of a template": (
        lambda content: parse(PARAMETERS, parameters={"p": text(content)}),
        TemplateError,
    ),
    "argument of a command": (lambda content: given.read_yaml(text(content)), given.NotADocument),
    "JSON of a command": (lambda content: given.read_json(text(content)), given.NotADocument),
    "result of a guest": (lambda content: source_of(content, None), MessagingError),
    "result of a guest, for the engine": (read_result, DocumentError),
    "JSON of another program": (decode_json, NotJson),
    "JSON of another program, of a type": (lambda content: decode_json(content, Said), NotJson),
    "tag of an image": (
        lambda content: (
            Image(uuid="u", name="n", tags={"murano_image_info": text(content)}).form_info
        ),
        DocumentError,
    ),
    "platforms of a package": (
        lambda content: allocated(package={"min_platform": text(content)}),
        InvalidRequest,
    ),
    "traits of a package": (
        lambda content: allocated(package={"traits": text(content)}),
        InvalidRequest,
    ),
    "volumes of a VM": (
        lambda content: allocated(internal_metadata={"docker:volumesfrom": text(content)}),
        InvalidRequest,
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_hostile_document_is_a_documented_error(name: str) -> None:
    """A value, or the one kind of error that the reader promises, of one line."""
    read, error = READERS[name]
    for what, content in BYTES.items():
        try:
            read(content)
        except error as caught:
            assert str(caught), what
            if isinstance(caught, DocumentError):
                assert "\n" not in str(caught), what
        except BaseException as caught:
            raise AssertionError(f"{name}: {what}: {caught!r:.200}") from caught


def test_a_hostile_class_config_is_an_error_with_the_files_name(tmp_path: Path) -> None:
    """Both spellings; a good one is a map."""
    from vetro.muranopl.host.runtime import (
        _config_file,  # pyright: ignore[reportPrivateUsage]
    )

    for ending in ("json", "yaml"):
        for what, content in BYTES.items():
            file = tmp_path / f"a.B.{ending}"
            file.write_bytes(content)
            try:
                assert isinstance(_config_file(file), dict), what
            except MuranoError as error:
                assert file.name in error.message, what


@pytest.mark.parametrize(
    "file", ["manifest.yaml", "Classes/A.yaml", "UI/ui.yaml", "Resources/a.yaml"]
)
def test_a_hostile_file_of_a_package_is_a_finding(tmp_path: Path, file: str) -> None:
    """`vetro check` always ends with findings, whatever a file contains."""
    root = tmp_path / "p"
    manifest = (
        "Format: '1.4'\nType: Application\nFullName: p\nName: p\nDescription: d\nAuthor: a\n"
        "Classes: {p.A: A.yaml}\n"
    )
    good = {
        "manifest.yaml": manifest.encode(),
        "Classes/A.yaml": b"Namespaces: {=: p}\nName: A\n",
        "UI/ui.yaml": b"Version: 2\nApplication: {'?': {type: p.A}}\n",
    }
    for name, content in good.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    (root / file).parent.mkdir(exist_ok=True)
    for what in (
        "nested lists",
        "alias bomb",
        "cyclic map",
        "huge whole number",
        "not UTF-8",
        "NUL",
    ):
        (root / file).write_bytes(BYTES[what])
        assert check(root), what


@pytest.mark.parametrize(
    ("read", "content", "said"),
    [
        (documents.read_yaml, "a:\n  [" + "[" * 200, "nested deeper than 100 (line 2, column 102)"),
        (documents.read_json, '{"a":\n' + "[" * 200, "nested deeper than 100 (line 2, column 100)"),
        (
            documents.read_yaml,
            "x: 1\na: &a [*a]",
            "*a is inside the node that it refers to (line 2, column 8)",
        ),
        (documents.read_yaml, "a: *b", "*b refers to no anchor above it (line 1, column 4)"),
        (documents.read_json, "[NaN]", "not JSON: NaN is not JSON"),
        (documents.read_json, '{"a": "\\ud800"}', "not JSON: a text has half of a surrogate pair"),
        (documents.read_json, '{"a": 1,}', "(line 1, column 9)"),
        (documents.read_yaml, b"a: \xff", "not UTF-8 text: invalid start byte at byte 3"),
    ],
)
def test_an_error_says_what_and_where(
    read: Callable[[Any], Any], content: str | bytes, said: str
) -> None:
    """Line and column count from 1."""
    with pytest.raises(DocumentError) as caught:
        read(content)
    assert said in str(caught.value)


def test_good_documents_are_plain_values() -> None:
    """Dates stay text; a pair of escapes is one character; a byte order mark is left out."""
    assert documents.read_yaml("when: 2020-01-01\na: &a {x: 1}\nb: {<<: *a, y: 2}") == {
        "when": "2020-01-01",
        "a": {"x": 1},
        "b": {"x": 1, "y": 2},
    }
    assert documents.read_json(b'\xef\xbb\xbf{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}
    assert documents.read_yaml("") is None
    deep = documents.DocumentLimits(depth=500)
    assert documents.read_json("[" * 300 + "]" * 300, deep)
    with pytest.raises(documents.DocumentTooLarge):
        documents.read_json("[1, 2]", documents.DocumentLimits(bytes=3))
