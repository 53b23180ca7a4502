"""A running ``vetro up``, projects of its own for each module of tests, and the command against it.

To start one takes six seconds of processor time, a project takes none: modules share the service
(decision 0787).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from vetro.cli import cli
from vetro.cli.client.connection import read_openrc

VETRO = str(Path(sys.executable).with_name("vetro"))


@dataclass
class Service:
    """A running ``vetro up``, and the command against it."""

    #: Of the project: the credentials are in its ``data``.
    directory: Path
    database: Path
    process: subprocess.Popen[str]
    environ: dict[str, str] = field(default_factory=dict[str, str])
    lines: list[str] = field(default_factory=list[str])
    #: How lines begin that a command prints before its error, on the way.
    on_the_way: tuple[str, ...] = ()

    def run(self, *arguments: object, **options: Any) -> tuple[int, str]:
        """Exit code and everything printed."""
        result = CliRunner().invoke(cli, [str(one) for one in arguments], **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    def ok(self, *arguments: object) -> str:
        """The output of a command that works."""
        code, text = self.run(*arguments)
        assert code == 0, f"{arguments}: {text}\n{''.join(self.lines)}"
        return text

    def json(self, *arguments: object) -> Any:
        """The JSON document of a command that works."""
        return json.loads(self.ok(*arguments, "--json"))

    def refused(self, *arguments: object, code: int = 1) -> str:
        """The one line of a command that fails, and its hint."""
        found, text = self.run(*arguments)
        lines = [line for line in text.splitlines() if not line.startswith(self.on_the_way)]
        assert found == code, f"{arguments}: {text}"
        assert lines[0].startswith("Error: "), text
        assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("Hint: ")), text
        return text

    def reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let commands find the service by the files in its data directory."""
        for name in [key for key in os.environ if key.startswith(("OS_", "VETRO_U", "VETRO_T"))]:
            monkeypatch.delenv(name)
        for name, value in self.environ.items():
            monkeypatch.setenv(name, value)

    @contextlib.contextmanager
    def member(self) -> Iterator[None]:
        """Commands within it are those of a member of the project, who is no administrator."""
        name, data = f"member-{secrets.token_hex(4)}", Path(self.environ["VETRO_DATA_DIR"])
        openrc = read_openrc(data / "admin-openrc")
        token = self.json("token")["token"]
        with httpx2.Client(
            base_url=openrc["OS_AUTH_URL"], headers={"X-Auth-Token": token}
        ) as client:
            wanted = {"name": openrc["OS_PROJECT_NAME"]}
            project = client.get("projects", params=wanted).json()["projects"][0]["id"]
            role = client.get("roles", params={"name": "member"}).json()["roles"][0]["id"]
            body = {"user": {"name": name, "password": f"Str0ng-{name}"}}
            user = client.post("users", json=body).json()["user"]["id"]
            answer = client.put(f"projects/{project}/users/{user}/roles/{role}")
            assert answer.status_code == 204, answer.text
        theirs = {**openrc, "OS_USERNAME": name, "OS_PASSWORD": f"Str0ng-{name}"}
        own = self.directory / name
        own.mkdir()
        (own / "admin-openrc").write_text(
            "".join(f"export {key}='{value}'\n" for key, value in theirs.items()), "utf-8"
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("VETRO_DATA_DIR", str(own))
            patch.setenv("XDG_STATE_HOME", str(own / "state"))
            yield

    @contextlib.contextmanager
    def project(self, name: str) -> Iterator[Service]:
        """The same service, to its administrator in a new project; what that shares goes at the end.

        A worker may come back to a module whose tests another one has taken: each time it is another project.
        """
        name = f"{name}_{secrets.token_hex(4)}"
        openrc = (self.directory / "data" / "admin-openrc").read_text("utf-8")
        data = self.directory / name / "data"
        data.mkdir(parents=True)
        (data / "admin-openrc").write_text(
            openrc.replace("OS_PROJECT_NAME=admin", f"OS_PROJECT_NAME={name}"), "utf-8"
        )
        with pytest.MonkeyPatch.context() as patch:
            self.reach(patch)
            token = self.json("token")["token"]
        url = read_openrc(data / "admin-openrc")["OS_AUTH_URL"]
        with httpx2.Client(base_url=url, headers={"X-Auth-Token": token}) as client:
            user = client.get("users", params={"name": "admin"}).json()["users"][0]["id"]
            role = client.get("roles", params={"name": "admin"}).json()["roles"][0]["id"]
            made = client.post("projects", json={"project": {"name": name}}).json()["project"]
            answer = client.put(f"projects/{made['id']}/users/{user}/roles/{role}")
            assert answer.status_code == 204, answer.text
        directories = {"VETRO_DATA_DIR": data, "XDG_STATE_HOME": self.directory / name / "state"}
        environ = {**self.environ, **{key: str(value) for key, value in directories.items()}}
        own = replace(self, directory=self.directory / name, environ=environ)
        yield own
        # An administrator sees everybody's images, categories and public packages.
        with pytest.MonkeyPatch.context() as patch:
            own.reach(patch)
            for kind in ("package", "category", "image"):
                options = ["--include-disabled"] if kind == "package" else []
                if rows := own.json(kind, "list", *options):
                    ids = [row.get("id") or row["uuid"] for row in rows]
                    own.ok(kind, "delete", "--yes", *ids)


@contextlib.contextmanager
def serving(directory: Path, begins: str, **environ: str) -> Iterator[Service]:
    """A service on a free port, from the moment at which it prints ``begins`` in a line."""
    environ = {
        "VETRO_DATA_DIR": str(directory / "data"),
        "XDG_STATE_HOME": str(directory / "state"),
        **environ,
    }
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    process = subprocess.Popen(
        [VETRO, "up", "--port", "0", "--driver", "simulated"],
        env={**inherited, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    made = Service(directory, directory / "data" / "vetro.db", process, environ)
    begun = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            made.lines.append(line)
            if begins in line:
                begun.set()
        begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert begun.wait(240)
        assert process.poll() is None, "".join(made.lines)
        yield made
    finally:
        process.terminate()
        process.wait(60)
        reader.join(60)
        assert process.stdout is not None
        process.stdout.close()
