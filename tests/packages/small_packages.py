"""A small package without findings, and variants of it."""

import io
import zipfile
from typing import Any

from vetro.packages import check

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


MANIFEST = """\
Format: '1.4'
Type: Application
FullName: p.App
Description: Something
Classes:
  p.App: App.yaml
"""


FORM = "Version: 2.4\nApplication:\n  ?: {type: p.App}\n"


def archive(files: Any):
    """A zip with these files; None leaves one of the good package out."""
    good = {
        "manifest.yaml": MANIFEST,
        "Classes/App.yaml": "Namespaces: {=: p}\nName: App\n",
        "UI/ui.yaml": FORM,
        "logo.png": PNG,
        "LICENSE": "free",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, content in {**good, **files}.items():
            if content is not None:
                made.writestr(name, content)
    return buffer.getvalue()


def found(files: Any, runtime: Any = None):
    """`code file:line:column` of every finding."""
    return [
        f"{item.code} {item.file}" + (f":{item.line}:{item.column}" if item.line else "")
        for item in check(archive(files), runtime)
    ]


def manifest(*lines: Any, **changes: Any):
    """The good manifest with keys replaced (None: left out) and lines added."""
    kept: list[str] = []
    for line in MANIFEST.splitlines():
        key = line.partition(":")[0]
        if key in changes:
            if changes[key] is not None:
                kept.append(f"{key}: {changes[key]}")
        else:
            kept.append(line)
    return "\n".join([*kept, *lines]) + "\n"


HEAD = "Namespaces: {=: p}\nName: App\n"
