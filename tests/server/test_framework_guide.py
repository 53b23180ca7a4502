"""docs/framework.md, every command of it, on an installation with real containers."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.docs.framework_page import write
from tests.waiting import until

from .conftest import Installation

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.thorough, pytest.mark.root, pytest.mark.e2e]
ASK = "import urllib.request as r; print(r.urlopen('http://localhost/').read().decode())"


def test_the_guides_cluster_serves_grows_and_shrinks(vetro: Installation) -> None:
    """Its package is checked, tested, imported and deployed: each machine has the page of the model."""
    commands = [shlex.split(line)[1:] for line in write(vetro.directory)]
    for words in commands:
        more = ["--cache-dir", str(ROOT / "var/image-cache")] if words[0] == "image" else []
        vetro.run(*words, *more, directory=vetro.directory)
    grown = {"web-1": "Hello", "web-2": "Hello", "web-3": "Hello"}
    # A machine's agent may be there before its web server.
    until(lambda: pages(vetro) == grown, "three serve")
    vetro.run("action", "call", "--yes", "web", "scaleIn")
    assert set(pages(vetro)) == {"web-1", "web-2"}
    vetro.run("env", "edit", "web", "cluster", "--set", "page=Bye")
    vetro.run("env", "deploy", "web")
    assert pages(vetro) == {"web-1": "Bye", "web-2": "Bye"}
    vetro.run("env", "destroy", "--yes", "web")
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}")


def pages(vetro: Installation) -> dict[str, str]:
    """What the web server of each running machine answers, or why it does not."""
    running = [row["alias"] for row in vetro.json("vm", "list") if row["state"] == "running"]
    return {
        name: vetro.run("vm", "exec", name, "--", "python3", "-c", ASK, code=None).strip()
        for name in running
    }
