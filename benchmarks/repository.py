"""The metadata repository: the archive of 500 objects, built cold, and the 304 for who has it.

Cold: a process that has read none of the definitions, and no stored archive. The 304 is a whole
request through the face, in process, on SQLite.
"""

from __future__ import annotations

import asyncio
import io
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from limits import Topic, repetitions

from vetro.http import Principal, assemble, configure_logging
from vetro.http.client import HttpClient
from vetro.repository import MIGRATIONS, Repository, RepositorySection, repository_face
from vetro.storage import Database, migrate

SERVICES, FILES = 10, 500
COLD_SECONDS, KNOWN_MS = 0.2, 2.0
HEADERS = {"X-Auth-Token": "ann"}


class OneUser:
    """Everybody is ann."""

    async def authenticate(self, token: str) -> Principal | None:
        """The only user."""
        return Principal("u", token, "p", roles=frozenset({"member"}))


def write_definitions(root: Path) -> None:
    """Services with workflows, templates and scripts: 500 files in all."""
    kinds = (
        ("workflows", "workflows", "xml", "<workflow>{}</workflow>", "<rule match='$.a'/>\n"),
        ("heat", "heat_templates", "template", '{{"a": "{}"}}', "x "),
        ("agent", "agent_templates", "template", '{{"Commands": [], "a": "{}"}}', "x "),
        ("scripts", "scripts", "sh", "#!/bin/sh\n{}", "echo something\n"),
    )
    each = FILES // SERVICES // len(kinds)
    rest = FILES // SERVICES - each * len(kinds)
    for number in range(SERVICES):
        lines = [f"full_service_name: service{number}", "service_display_name: x"]
        for kind, directory, ending, text, filling in kinds:
            (root / directory).mkdir(parents=True, exist_ok=True)
            count = each + (rest if kind == "scripts" else 0)
            names = [f"s{number}-{one}.{ending}" for one in range(count)]
            for name in names:
                (root / directory / name).write_text(text.format(filling * 100 + name))
            lines.append(f"{kind}: [{', '.join(names)}]")
        (root / f"service{number}-manifest.yaml").write_text("\n".join(lines))


async def measure(directory: Path, topic: Topic) -> None:
    """The cold archive, the 304, and whether both are right."""
    write_definitions(directory / "definitions")
    database = await Database.open(f"sqlite:///{directory}/bench.db", data_dir=directory)
    cold: list[float] = []
    known: list[float] = []
    try:
        await migrate(database, [MIGRATIONS])
        for factor in repetitions():
            repository = Repository(database, RepositorySection(), directory / "definitions")
            assembly = assemble([repository_face(repository, OneUser(), prefix="")])
            async with (
                assembly.running(),
                HttpClient(app=assembly, base_url="http://repository") as http,
            ):
                await http.request("GET", "/v1/client/nothing", headers=HEADERS)
                await repository.reset_caches("p")
                began = time.perf_counter()
                answer = await http.request("GET", "/v1/client/conductor", headers=HEADERS)
                cold.append((time.perf_counter() - began) * factor)
                with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r:gz") as archive:
                    if sum(one.isfile() for one in archive) != FILES:
                        topic.wrong("files are missing in the archive")
                path = f"/v1/client/conductor?hash={answer.headers['x-content-sha1']}"
                began = time.perf_counter()
                for _ in range(100):
                    same = await http.request("GET", path, headers=HEADERS)
                    if same.status != 304 or same.content:
                        topic.wrong(f"status {same.status} for who has the archive")
                known.append((time.perf_counter() - began) * factor / 100)
    finally:
        await database.close()
    topic.take(f"archive of {FILES} objects, cold", cold, "s", COLD_SECONDS)
    topic.take("304 for who has the archive", [1000 * one for one in known], "ms", KNOWN_MS)


def main() -> int:
    """Measure, judge."""
    configure_logging("warning", "json")
    topic = Topic("repository")
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(measure(Path(directory), topic))
    return topic.end()


if __name__ == "__main__":
    sys.exit(main())
