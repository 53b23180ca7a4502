"""docs/framework.md as its reader has it in the end: a package, a model, and commands."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = "cluster.json"
_BLOCK = re.compile(r"^(?:`([\w./]+)`:\n\n)?```(\w*)\n(.*?)^```$", re.M | re.S)


def write(directory: Path) -> list[str]:
    """Write the page's files below a directory; the page's commands, in their order."""
    page = (ROOT / "docs/framework.md").read_text(encoding="utf-8")
    commands: list[str] = []
    for name, kind, text in _BLOCK.findall(page):
        if name:
            target = directory / ("" if name == MODEL else "my.Cluster") / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        else:
            assert kind == "sh"
            commands += text.splitlines()
    return commands
