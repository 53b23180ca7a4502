"""Pack the agent into the single file that is put into instances.

The archive is the same, byte for byte, whenever and wherever it is built from the same
sources: entries are sorted, dated 1980 and not compressed (compressors differ, and the
agent starts faster from an uncompressed archive).
"""

from __future__ import annotations

import io
import os
import sys
import zipfile
from pathlib import Path

_PACKAGE = "vetro_guest"
_MAIN = f"""\
import sys

from {_PACKAGE}.main import main

sys.exit(main())
"""


def archive_bytes() -> bytes:
    """The agent's archive, a zip that `python3` runs."""
    source = Path(__file__).parent / "agent"
    entries: dict[str, bytes] = {"__main__.py": _MAIN.encode()}
    for path in source.rglob("*.py"):
        entries[f"{_PACKAGE}/{path.relative_to(source).as_posix()}"] = path.read_bytes()
    stream = io.BytesIO()
    stream.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            info.create_system = 3
            archive.writestr(info, entries[name])
    return stream.getvalue()


def build_archive(target: Path) -> Path:
    """Write the agent's archive to `target` (replaced in one step) and return it.

    The file is executable and needs only a `python3` (3.6 or newer).
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + ".new")
    temporary.write_bytes(archive_bytes())
    temporary.chmod(0o755)
    os.replace(temporary, target)
    return target


if __name__ == "__main__":
    build_archive(Path(sys.argv[1] if len(sys.argv) > 1 else "dist/vetro-guest.pyz"))
