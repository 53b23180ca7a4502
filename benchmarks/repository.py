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

from limits import Published

from vetro.http import Principal, assemble, configure_logging
from vetro.http.client import HttpClient
from vetro.repository import MIGRATIONS, Repository, RepositorySection, repository_face
from vetro.storage import Database, migrate

SERVICES, FILES = 10, 500
COLD_SECONDS, KNOWN_SECONDS = 0.2, 0.002
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


async def measure(directory: Path) -> tuple[float, float, bool]:
    """Seconds of the cold archive and of the 304, the best of several, and whether both are right."""
    write_definitions(directory / "definitions")
    database = await Database.open(f"sqlite:///{directory}/bench.db", data_dir=directory)
    cold, known, right = float("inf"), float("inf"), True
    try:
        await migrate(database, [MIGRATIONS])
        for _ in range(5):
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
                cold = min(cold, time.perf_counter() - began)
                with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r:gz") as archive:
                    right &= sum(one.isfile() for one in archive) == FILES
                path = f"/v1/client/conductor?hash={answer.headers['x-content-sha1']}"
                for _ in range(100):
                    began = time.perf_counter()
                    same = await http.request("GET", path, headers=HEADERS)
                    known = min(known, time.perf_counter() - began)
                    right &= same.status == 304 and not same.content
    finally:
        await database.close()
    return cold, known, right


def main() -> int:
    """Print the figures; 1 when an answer is wrong or a limit is missed."""
    configure_logging("warning", "json")
    published = Published()
    with tempfile.TemporaryDirectory() as directory:
        cold, known, right = asyncio.run(measure(Path(directory)))
    note = published.most("archive of 500 objects, cold", cold, COLD_SECONDS)
    print(f"archive of {FILES} objects, cold  {cold * 1000:7.1f} ms{note}")
    note = published.most("304 for who has the archive", known, KNOWN_SECONDS)
    print(f"304 for who has it         {known * 1000:7.2f} ms{note}")
    return published.exit_code(wrong=not right)


if __name__ == "__main__":
    sys.exit(main())
