"""A repository of packages, served over HTTP by a thread."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from pathlib import Path
from typing import Any

from vetro.packages import build_archive


class Shelf:
    """A repository served by a thread, and its directory."""

    def __init__(self, directory: Path) -> None:
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_: Any, **__: Any) -> None:
                pass

        handler = functools.partial(Quiet, directory=str(directory))
        self.directory = directory
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def add(self, name: str, version: str, *, images: str = "", **require: str) -> Path:
        """An archive below ``apps``."""
        needs = {other.replace("_", "."): spec for other, spec in require.items()}
        source = self.directory / "src" / f"{name}-{version}"
        source.mkdir(parents=True)
        (source / "manifest.yaml").write_text(
            f"Format: '1.4'\nType: Library\nFullName: {name}\nVersion: {version}\n"
            f"Description: d\nRequire: {json.dumps(needs)}\n"
        )
        if images:
            (source / "images.lst").write_text(images)
        target = self.directory / "apps" / f"{name}.{version}.zip"
        target.parent.mkdir(exist_ok=True)
        build_archive(source, target)
        return target

    def close(self) -> None:
        """Serve nothing more."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
