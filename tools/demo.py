"""`make demo`: starts Vetro, deploys a real application and fetches its page over the network.

Exits 0 after the page of the deployed application was fetched and its text was right. With
`DEMO_KEEP=1` everything stays up (also on failure); otherwise all is removed again. The directory
is `VETRO_DATA_DIR`, else `var/demo` below the checkout. The image, which takes longest, is built
beside the steps that do not need it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VETRO = ROOT / ".venv/bin/vetro"
PAGE_TEXT = "Hello from Vetro"
APPLICATION = "ApacheHttpServer"
IMAGE = "debian-12-apache"
IMAGE_BUILD = ("image", "build", IMAGE, "--packages", "apache2")
DASHBOARD = ROOT / "src/vetro/_dashboard/index.html"


class DemoError(Exception):
    """A step of the demonstration failed; the message says which and how."""


def free_port(preferred: int) -> int:
    """``preferred`` when nothing listens there, else any free port."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return probe.getsockname()[1]
    raise DemoError("No free port on the loopback address")


@contextlib.contextmanager
def step(title: str) -> Generator[None]:
    """A step's title and, when it succeeded, how long it took."""
    began = time.monotonic()
    print(f"\n\033[1m== {title}\033[0m" if sys.stdout.isatty() else f"\n== {title}", flush=True)
    yield
    print(f"({time.monotonic() - began:.1f} s)", flush=True)


class Demo:
    """One run: its directory, its server process and the steps."""

    def __init__(self) -> None:
        self.data_dir = Path(os.environ.get("VETRO_DATA_DIR") or ROOT / "var/demo").absolute()
        self.port = free_port(int(os.environ.get("VETRO_PORT", "8082")))
        self.url = f"http://127.0.0.1:{self.port}"
        self.driver = os.environ.get("VETRO_DRIVER") or (
            "lxc" if os.geteuid() == 0 and have("lxc-start") else "process"
        )
        self.server: subprocess.Popen[bytes] | None = None
        self.building: subprocess.Popen[bytes] | None = None
        self.environment = {
            **os.environ,
            "VETRO_DATA_DIR": str(self.data_dir),
            "VETRO_URL": self.url,
            "XDG_STATE_HOME": str(self.data_dir / "client"),
            # Not in the data directory: a service that starts takes rights away from what is in it, also
            # from the files of an image that is being built.
            "VETRO_IMAGE_CACHE": os.environ.get("VETRO_IMAGE_CACHE")
            or str(ROOT / "var/image-cache"),
        }

    def vetro(self, *arguments: str, show: bool = True) -> str:
        """Run the command line client; show what it says, and return it."""
        if show:
            print(f"$ vetro {' '.join(arguments)}", flush=True)
        process = subprocess.Popen(
            [str(VETRO), *arguments], env=self.environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            if show:
                print(line, end="", flush=True)
            lines.append(line)
        if process.wait() != 0:
            raise DemoError(f"'vetro {' '.join(arguments)}' ended with {process.returncode}")
        return "".join(lines)

    def json(self, *arguments: str) -> Any:
        """The JSON a client command prints."""
        return json.loads(self.vetro("--json", *arguments, show=False))

    def start(self) -> None:
        """Start ``vetro up`` and wait until it says it is ready."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        log = (self.data_dir / "vetro-up.log").open("wb")
        self.server = subprocess.Popen(
            [str(VETRO), "up", "--port", str(self.port), "--driver", self.driver],
            env=self.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()
        deadline = time.monotonic() + 120
        while True:
            if self.server.poll() is not None:
                text = (self.data_dir / "vetro-up.log").read_text(errors="replace")
                raise DemoError(f"'vetro up' ended with {self.server.returncode}:\n{text}")
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise DemoError(f"'vetro up' did not get ready; see {self.data_dir}/vetro-up.log")
            time.sleep(0.05)

    def build_image(self) -> None:
        """Begin to build the image; ``import_image`` waits for it."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with (self.data_dir / "image-build.log").open("wb") as log:
            self.building = subprocess.Popen(
                [str(VETRO), *IMAGE_BUILD, "--no-import"],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def import_image(self) -> None:
        """Make the image known to the service: the built one, or an empty one for processes."""
        if self.building is None:
            empty = self.data_dir / "empty.tar"
            with tarfile.open(empty, "w"):
                pass
            self.vetro("image", "import", IMAGE, str(empty))
            return
        if self.building.wait() != 0:
            text = (self.data_dir / "image-build.log").read_text(errors="replace")
            raise DemoError(f"'vetro {' '.join(IMAGE_BUILD)}' did not build the image:\n{text}")
        self.vetro(*IMAGE_BUILD)  # it is in the cache now

    def run(self) -> str:
        """All steps; returns the address of the page."""
        if self.driver == "lxc":
            self.build_image()
        with step(f"Starting Vetro ({self.driver} driver) on {self.url}"):
            self.start()
            print(f"ready; data in {self.data_dir}")
            # Whoever watches can follow the deployment in a browser, for as long as the service runs.
            if DASHBOARD.exists():
                print(f"dashboard: {self.url}/dashboard/")
                print(f"sign in, once: {self.vetro('dashboard', show=False).strip()}", flush=True)

        with step("Importing the sample packages"):
            packages = sorted(str(path) for path in (ROOT / "dist/packages").glob("*.zip"))
            self.vetro("package", "import", "--public", "--exists-action", "update", *packages)

        with step(
            "An image with Debian and Apache, built since the start"
            if self.driver == "lxc"
            else "An empty image: instances are plain processes that see this machine's own files"
        ):
            self.import_image()

        with step("Composing an environment"):
            existing = [row["name"] for row in self.json("env", "list")]
            name = next(
                n for n in ("demo", *(f"demo-{i}" for i in range(2, 1000))) if n not in existing
            )
            self.vetro("env", "create", name)
            arguments = ["--name", "web", "--set", f"page={PAGE_TEXT}", "--set", f"image={IMAGE}"]
            if self.driver == "process":
                arguments += ["--set", f"port={free_port(8090)}"]
            self.vetro("env", "add", name, APPLICATION, *arguments)

        with step("Deploying"):
            began = time.monotonic()
            self.vetro("env", "deploy", name)
            deployed = time.monotonic() - began

        with step("Fetching the page over the network"):
            address = self.page_address(name)
            with urllib.request.urlopen(address, timeout=20) as answer:
                body = answer.read().decode()
            if PAGE_TEXT not in body:
                raise DemoError(f"{address} answered without the text {PAGE_TEXT!r}: {body!r}")
            print(f"GET {address} -> {answer.status}: {body.strip()[:200]}")
            print(f"from deploy to the page: {deployed:.1f} s")
        self.name = name
        return address

    def page_address(self, environment: str) -> str:
        """Where the deployed application says its page is."""
        services = self.json("env", "model", environment, "--path", "/services")
        for service in services:
            if service.get("url"):
                return str(service["url"])
        raise DemoError(f"The deployed application has no 'url': {json.dumps(services)[:500]}")

    def stop(self) -> None:
        """End the server and everything it started, and a build that still runs."""
        if self.building is not None and self.building.poll() is None:
            self.building.terminate()  # it removes what it has made
            self.building.wait()
        if self.server is None or self.server.poll() is not None:
            return
        self.server.send_signal(signal.SIGTERM)
        try:
            self.server.wait(60)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()


def have(tool: str) -> bool:
    """Whether ``tool`` is on the path."""
    return any(
        os.access(Path(directory) / tool, os.X_OK)
        for directory in [*os.environ.get("PATH", "").split(":"), "/usr/sbin", "/sbin"]
    )


def main() -> int:
    """Run the demonstration; 0 when the page came."""
    began = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left
    demo = Demo()
    keep = os.environ.get("DEMO_KEEP") == "1"
    try:
        address = demo.run()
        if not keep:
            with step("Removing everything again (DEMO_KEEP=1 leaves it running)"):
                demo.vetro("env", "destroy", "--yes", demo.name)
                demo.stop()
    except DemoError as error:
        print(f"The demonstration failed: {error}", file=sys.stderr)
        log = demo.data_dir / "vetro-up.log"
        if log.exists():
            print(f"--- the end of {log}", file=sys.stderr)
            print("\n".join(log.read_text(errors="replace").splitlines()[-60:]), file=sys.stderr)
        if not keep:
            demo.stop()
        return 1
    except KeyboardInterrupt:
        demo.stop()
        return 130
    print(f"\nAll of it: {time.monotonic() - began:.1f} s")
    if keep:
        data, vetro = shlex.quote(str(demo.data_dir)), shlex.quote(str(VETRO))
        print(f"  API         {demo.url}")
        print(f"  log in      source {data}/admin-openrc")
        print(f"  data        {demo.data_dir}")
        print(f"  log         {demo.data_dir}/vetro-up.log")
        print(f"  commands    VETRO_DATA_DIR={data} VETRO_URL={demo.url} {vetro} env list")
        print(f"  stop        kill {demo.server.pid if demo.server else ''}")
        link = f"; sign in, once: {demo.vetro('dashboard', show=False).strip()}"
        print(f"Page: {address}{link if DASHBOARD.exists() else '; the dashboard was not built'}")
    else:
        print(f"The page came from the application that was deployed, at {address} (removed again)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
