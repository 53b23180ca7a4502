"""Writes docs/settings.md from the settings' own declarations; `make docs` calls it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
from typing import Any

from vetro.server import settings as declared

HEAD = """# Settings

Written by `make docs` from `src/vetro/server/settings.py` and the sections that it takes from the rooms.

A setting is given as a flag where its command has one (`vetro up --help`), else as an environment variable,
else in the file: `VETRO_CONFIG`, else `vetro.toml` in the data directory, else `/etc/vetro/vetro.toml`. The
variable is `VETRO_`, the section and the name in capitals: `VETRO_SERVER_PORT`. A list is given as `a,b` or
as JSON, a table as JSON. These have a short form as well: {short}.

A process does not start with an unknown name or a value of another type; it names the place. Nor does it
with an unknown variable below a section (`VETRO_QUOTAS_MAX_VM`), one that is nearly one of these, an empty
one, or a setting that gives less than it asks for
([SECURITY.md](../SECURITY.md)).

```toml
[server]
port = 8082
```
"""


def described(section: type) -> dict[str, str]:
    """The text below each field of a section, on one line; a field without one is an error."""
    tree = ast.parse(inspect.getsource(section)).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
                raise SystemExit(f"{section.__name__}.{field.target.id} has no text below it")
            found[field.target.id] = " ".join(text.value.split())
    return found


def page() -> str:
    """The whole page."""
    short = ", ".join(f"`{name}` ({setting})" for name, setting in declared.SHORT_FORMS.items())
    parts = [HEAD.format(short=short)]
    for name, kind in declared.SECTIONS.items():
        section = kind()
        about = " ".join((inspect.getdoc(kind) or "").split())
        parts.append(f"\n## `[{name}]`\n\n{about}\n\n| setting | default | |\n|---|---|---|\n")
        texts = described(kind)
        parts += [
            f"| `{field.name}` | {_shown(getattr(section, field.name))} | {texts[field.name]} |\n"
            for field in dataclasses.fields(section)
        ]
    return "".join(parts)


def _shown(value: Any) -> str:
    return f"`{json.dumps(value)}`" if value not in ("", [], {}) else ""
