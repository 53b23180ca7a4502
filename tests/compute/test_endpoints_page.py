"""docs/compute/endpoints.md says what is served."""

from __future__ import annotations

import re
from pathlib import Path

from vetro.compute.http.endpoint import Access
from vetro.compute.http.endpoints import all_endpoints

PAGE = Path(__file__).parents[2] / "docs" / "compute" / "endpoints.md"
CALLERS = {
    Access.PUBLIC: "all",
    Access.USER: "users",
    Access.NODE: "node",
    Access.OPERATOR: "",
}


def test_the_page_names_every_call_as_it_is() -> None:
    """Name, verbs, path, who may call, and the two flags, of every call and no other."""
    rows = re.findall(
        r"^\| (\w+) \| ([A-Z, ]+) `([^`]+)` \| (\w*) *\| ([RS ]*?) *\|",
        PAGE.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    served = [
        (
            one.name,
            ", ".join(one.verbs.split()),
            one.path,
            CALLERS[one.access],
            " ".join(flag for flag, held in (("R", one.running), ("S", one.strict)) if held),
        )
        for one in all_endpoints()
    ]
    assert sorted(rows) == sorted(served)
