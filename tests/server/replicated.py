"""A PostgreSQL with a standby that has every commit, behind one address, as sites have it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.ports import free_port
from tests.server.balancer import Balancer

OPTIONS = """
listen_addresses = '127.0.0.1'
fsync = off
full_page_writes = off
max_connections = 300
"""


class Replicated:
    """The servers; ``url`` and ``broker_url`` are databases at whichever of them is the primary."""

    def __init__(self) -> None:
        # Not below pytest's directories: those are closed to the user that the servers run as.
        self._directory = directory = Path(tempfile.mkdtemp(prefix="vetro-postgres."))
        self._programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self._primary, self._standby = directory / "primary", directory / "standby"
        self._ports = {self._primary: free_port(), self._standby: free_port()}
        self._as: list[str] = []
        if os.geteuid() == 0:  # which PostgreSQL refuses
            self._as = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
            subprocess.run(["chown", "postgres", directory], check=True)
        self._run("initdb", "-D", self._primary, "-U", "vetro", "--auth=trust", "--encoding=UTF8")
        self._start(self._primary, OPTIONS)
        source = f"host=127.0.0.1 port={self._ports[self._primary]} user=vetro"
        copy = ("-D", self._standby, "-R", "-X", "stream", "-c", "fast", "-N")
        self._run("pg_basebackup", "-d", f"{source} application_name=standby", *copy)
        self._start(self._standby, "")
        # From here on a commit is one when the standby has it too.
        waits = "ALTER SYSTEM SET synchronous_standby_names = 'standby'"
        made = ("CREATE DATABASE vetro", "CREATE DATABASE broker")
        for command in (*made, waits, "SELECT pg_reload_conf()"):
            self._run("psql", "-d", f"{source} dbname=postgres", "-qc", command)
        self.address = Balancer(free_port(), list(self._ports.values()), asks=False)
        self.address.ready.append(self._ports[self._primary])
        server = f"postgresql://vetro@127.0.0.1:{self.address.port}"
        self.url, self.broker_url = f"{server}/vetro", f"{server}/broker"

    def kill_primary(self) -> None:
        """End the primary without any warning; nobody answers at the address."""
        self.address.ready.clear()
        self._run("pg_ctl", "-D", self._primary, "-m", "immediate", "-w", "stop")

    def promote_standby(self) -> None:
        """Make the standby the primary, and give it the address."""
        self._run("pg_ctl", "-D", self._standby, "-w", "promote")
        self.address.ready.append(self._ports[self._standby])

    def close(self) -> None:
        """End both."""
        self.address.close()
        for place in (self._standby, self._primary):
            if (place / "postmaster.pid").exists():
                self._run("pg_ctl", "-D", place, "-m", "immediate", "-w", "stop")
        shutil.rmtree(self._directory)

    def _start(self, place: Path, options: str) -> None:
        settings = f"{options}\nport = {self._ports[place]}\nunix_socket_directories = '{place}'\n"
        with (place / "postgresql.conf").open("a") as file:
            file.write(settings)
        self._run("pg_ctl", "-D", place, "-l", place.with_suffix(".log"), "-w", "start")

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [*self._as, str(self._programs / program), *map(str, arguments)]
        # A server must not keep a pipe of the test: the output goes to a file.
        with self._primary.with_suffix(".commands").open("a+") as said:
            done = subprocess.run(command, stdout=said, stderr=said, cwd="/", check=False)
            said.seek(0)
            assert done.returncode == 0, f"{command}: {said.read()}"
