"""Files of exported environments that are not what they should be, before any service is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

HEAD = {"format": "vetro-environment/1", "name": "web"}
SITE = {"?": {"type": "org.Site/1.0", "id": "a1"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "web.json: not JSON: Expecting value"),
        ("[" * 5_000, "web.json: nested deeper than 500"),
        ("[]", "'format' is not 'vetro-environment/1'"),
        (json.dumps({**HEAD, "format": "vetro-environment/2", "services": []}), "'format' is not"),
        (json.dumps({**HEAD, "name": 3, "services": []}), "'name' is not a text"),
        (json.dumps(HEAD), "'services' is not a list"),
        (json.dumps({**HEAD, "services": [], "packages": []}), "'packages' is not an object"),
        (json.dumps({**HEAD, "services": {}}), "'services' is not a list"),
        (json.dumps({**HEAD, "services": [SITE, 7]}), "number 1: not an object with a type"),
        (json.dumps({**HEAD, "services": [{"?": {"id": "a"}}]}), "number 0: not an object"),
    ],
)
def test_a_file_that_was_not_exported_is_refused(
    text: str, said: str, tmp_path: Path, invoke: Any
) -> None:
    """The error says what is wrong and what writes such files; no service is asked."""
    file = tmp_path / "web.json"
    file.write_text(text)
    code, output = invoke("env", "import", file)
    assert code == 1
    assert said in output
    assert "'vetro env export' writes such files" in output


def test_every_object_gets_an_id_of_its_own() -> None:
    """Ids are new in all applications, also where one names another; other texts stay."""
    from vetro.cli.environments.transfer import with_new_ids

    db = {"?": {"type": "org.Db", "id": "d1"}, "note": "d1 is not an id here"}
    app = {
        "?": {"type": "org.App", "id": "a1"},
        "db": "d1",
        "list": [{"?": {"type": "x", "id": "i"}}],
    }
    made = with_new_ids([db, app])
    ids = [made[0]["?"]["id"], made[1]["?"]["id"], made[1]["list"][0]["?"]["id"]]
    assert len({*ids, "d1", "a1", "i"}) == 6
    assert made[1]["db"] == ids[0]
    assert made[0]["note"] == db["note"]
