"""Names that several things have: destructive commands ask, others take the newest."""

import io
import json
import zipfile
from typing import Any

import pytest

from vetro.cli.client.connection import Connection
from vetro.http.client import SyncResponse


def archive() -> bytes:
    """The smallest package."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("manifest.yaml", "{Format: '1.4', Type: Library, FullName: org.acme.App}")
    return out.getvalue()


class Catalog:
    """Answers what the commands ask, and keeps the deletions."""

    def __init__(self) -> None:
        self.rows = [
            {"id": "i1", "version": "1.0.0", "is_public": False},
            {"id": "i2", "version": "10.0.0", "is_public": False},
            {"id": "i3", "version": "2.0.0", "is_public": True},
        ]
        for row in self.rows:
            row.update(name="App", fully_qualified_name="org.acme.App", type="Application")
        self.images = [
            {"uuid": "u1", "name": "debian", "version": "1", "published_at": "then"},
            {"uuid": "u2", "name": "debian", "version": "1", "published_at": "now"},
        ]
        self.deleted: list[tuple[str, Any]] = []
        self.status = 200

    def answer(self, method: str, path: str, *, params: Any = None, **_: Any) -> SyncResponse:
        """One request."""
        if method == "DELETE":
            # As the client writes it into the query.
            self.deleted.append((path, str((params or {}).get("force")).lower()))
            body = {"error": {"message": "it is used by dev"}}
            return SyncResponse(self.status, {}, json.dumps(body).encode())
        if path.startswith("/compute/images"):
            return SyncResponse(200, {}, json.dumps(self.images).encode())
        if path.endswith("/download"):
            return SyncResponse(200, {}, archive())
        if path.startswith("/v1/catalog/packages/"):
            (row,) = [one for one in self.rows if path.endswith(str(one["id"]))]
            return SyncResponse(200, {}, json.dumps(row).encode())
        return SyncResponse(200, {}, json.dumps({"packages": self.rows}).encode())


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A service with three versions of one package and two images of one name."""
    made = Catalog()

    def answer(_: Connection, method: str, path: str, **options: Any) -> SyncResponse:
        return made.answer(method, path, **options)

    monkeypatch.setattr(Connection, "answer", answer)
    return made


@pytest.mark.parametrize(
    "command",
    [
        ("package", "delete", "org.acme.App"),
        ("package", "delete", "app"),
        ("package", "update", "App", "--disable"),
        ("image", "delete", "debian"),
    ],
)
def test_what_changes_one_of_several_says_which_there_are(
    catalog: Catalog, invoke: Any, command: tuple[str, ...]
) -> None:
    """Without a terminal nothing is done to whichever came first; the error lists them."""
    code, text = invoke(*command)
    assert code == 2
    assert "There are" in text
    for row in catalog.rows if command[0] == "package" else catalog.images:
        assert str(row.get("id") or row.get("uuid")) in text
    assert catalog.deleted == []


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (("package", "delete", "App", "--version", "1"), "/v1/catalog/packages/i1"),
        (("package", "delete", "i3"), "/v1/catalog/packages/i3"),
        (("image", "delete", "u2"), "/compute/images/u2"),
    ],
)
def test_one_of_several_is_named_by_version_or_id(
    catalog: Catalog, invoke: Any, command: tuple[str, ...], path: str
) -> None:
    """That one is deleted; by force only when asked."""
    assert invoke(*command, "--yes")[0] == 0
    assert invoke(*command, "--yes", "--force")[0] == 0
    assert catalog.deleted == [(path, "false"), (path, "true")]


def test_in_a_terminal_the_user_is_asked(
    catalog: Catalog, invoke: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The versions are listed, newest first, and the number that is typed counts."""
    from vetro.cli.terminal import confirmation as choice

    monkeypatch.setattr(choice, "is_watched", lambda: True)
    code, text = invoke("package", "delete", "org.acme.App", input="3\ny\n")
    assert code == 0, text
    assert catalog.deleted == [("/v1/catalog/packages/i1", "false")]
    assert text.index("10.0.0") < text.index("2.0.0") < text.index("1.0.0 (")


def test_what_only_reads_takes_the_newest(catalog: Catalog, invoke: Any) -> None:
    """By version, not by text; --version takes another, and says which there are."""
    assert json.loads(invoke("package", "show", "App", "--json")[1])["version"] == "10.0.0"
    shown = invoke("package", "show", "App", "--version", "2.0", "--json")[1]
    assert json.loads(shown)["id"] == "i3"
    code, text = invoke("package", "show", "App", "--version", "3")
    assert (code, "10.0.0, 2.0.0, 1.0.0" in text) == (1, True)


@pytest.mark.parametrize("command", [("package", "delete", "i1"), ("image", "delete", "u1")])
def test_what_is_in_use_is_refused_with_the_way_out(
    catalog: Catalog, invoke: Any, command: tuple[str, ...]
) -> None:
    """The service's reason, and the option."""
    catalog.status = 409
    code, text = invoke(*command, "--yes")
    assert code == 1
    assert "it is used by dev" in text
    assert "--force" in text
