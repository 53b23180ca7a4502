"""A RabbitMQ that one test has to itself, so that it may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class OwnBroker:
    """The broker; ``environ`` says where it is, as `tools/with-rabbitmq.sh` does."""

    def __init__(self) -> None:
        show = "env | grep ^VETRO_TEST_RABBITMQ; echo; cat"
        self.script = subprocess.Popen(
            [ROOT / "tools/with-rabbitmq.sh", "sh", "-c", show],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.script.stdout is not None
        lines = iter(self.script.stdout.readline, "\n")
        self.environ: dict[str, str] = dict(line.strip().split("=", 1) for line in lines)
        self.home = Path(self.environ["VETRO_TEST_RABBITMQ_HOME"])
        self.again: list[subprocess.Popen[bytes]] = []

    def kill(self) -> None:
        """End it as a power cut does."""
        os.kill(int((self.home / "pid").read_text()), signal.SIGKILL)

    def start(self) -> None:
        """Start it again; who uses it waits for it."""
        (self.home / "pid").unlink(missing_ok=True)
        self.again.append(subprocess.Popen([self.home / "start"], stdout=subprocess.DEVNULL))

    def forget(self) -> None:
        """Remove all that the killed one knew: queues, messages, users."""
        subprocess.run(["rm", "-rf", self.home / "mnesia"], check=True)

    def close(self) -> None:
        """End it for good."""
        self.script.communicate("", 60)
        for one in self.again:
            one.wait(60)
