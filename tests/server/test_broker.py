"""A whole Vetro whose guests are reached over RabbitMQ."""

import os
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import aio_pika
import pytest
from aio_pika.exceptions import ChannelNotFoundEntity
from tests.own_broker import OwnBroker
from tests.server.conftest import Installation
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
URL = os.environ.get("VETRO_TEST_RABBITMQ_URL")
pytestmark = [pytest.mark.e2e, pytest.mark.rabbitmq]


async def exists(queue: str) -> bool:
    """Whether the broker has a queue."""
    async with await aio_pika.connect(URL) as connection:
        try:
            await (await connection.channel()).declare_queue(queue, passive=True)
        except ChannelNotFoundEntity:
            return False
        return True


async def test_a_script_runs_in_a_guest_behind_a_broker(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """It is deployed and destroyed; the guest has no mailbox address, and no queue is left."""
    if URL is None:
        pytest.skip("VETRO_TEST_RABBITMQ_URL is not set; tools/with-rabbitmq.sh sets it")
    broker = urlsplit(URL)
    vetro = install(
        "broker",
        driver="process",
        VETRO_RABBITMQ_HOST=str(broker.hostname),
        VETRO_RABBITMQ_PORT=str(broker.port),
    )
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    vetro.run("image", "import", "empty", str(tmp_path / "empty.tar"))
    vetro.run("package", "import", str(ROOT / "library/HelloScript"))
    vetro.run("env", "create", "told")
    arguments = ("--set", "image=empty", "--set", "script=echo over the broker")
    vetro.run("env", "add", "told", "HelloScript", "--name", "hello", *arguments)
    vetro.run("env", "deploy", "told")
    assert "over the broker" in vetro.reports("told")
    (config,) = (vetro.directory / "node").glob("vms/*/**/etc/murano/agent.conf")
    lines = dict(line.split(" = ", 1) for line in config.read_text().splitlines() if " = " in line)
    assert lines["url"] == ""
    assert lines["port"] == str(broker.port)
    queues = [lines["input_queue"], lines["result_routing_key"]]
    assert [await exists(queue) for queue in queues] == [True, True]
    vetro.run("env", "destroy", "--yes", "told")
    assert [await exists(queue) for queue in queues] == [False, False]


@pytest.mark.thorough
def test_a_broker_that_is_killed_costs_no_deployment(
    install: Callable[..., Installation], tmp_path: Path, place: Path
) -> None:
    """A script that ends, and a deployment that begins, while the broker is away are finished when it is
    back; each script runs once. So is a deployment whose broker lost all that it knew.
    """
    if URL is None:
        pytest.skip("VETRO_TEST_RABBITMQ_URL is not set; tools/with-rabbitmq.sh sets it")
    broker = OwnBroker()
    try:
        address = urlsplit(broker.environ["VETRO_TEST_RABBITMQ_URL"])
        vetro = install(
            "broker",
            driver="process",
            VETRO_RABBITMQ_HOST=str(address.hostname),
            VETRO_RABBITMQ_PORT=str(address.port),
            VETRO_RABBITMQ_MANAGEMENT_URL=broker.environ["VETRO_TEST_RABBITMQ_MANAGEMENT"],
        )
        with tarfile.open(tmp_path / "empty.tar", "w"):
            pass
        vetro.run("image", "import", "empty", str(tmp_path / "empty.tar"))
        vetro.run("package", "import", str(ROOT / "library/HelloScript"))
        trace = place / "trace"

        def begin(name: str) -> None:
            wait = f"until [ -e {place}/open-{name} ]; do sleep 0.1; done"
            script = f"echo {name} >> {trace}; {wait}; echo all of {name}"
            arguments = ("--name", name, "--set", "image=empty", "--set", f"script={script}")
            vetro.run("env", "create", name)
            vetro.run("env", "add", name, "HelloScript", *arguments)
            vetro.run("env", "deploy", name, "--no-wait")

        def runs(name: str) -> None:
            until(
                lambda: trace.exists() and name in trace.read_text(), f"the script of {name} runs"
            )

        def finished(name: str) -> None:
            until(lambda: vetro.status(name) not in ("deploying", "pending"), f"{name} has ended")
            assert vetro.status(name) == "ready", vetro.reports(name)
            assert f"all of {name}" in vetro.reports(name)

        begin("before")
        runs("before")
        broker.kill()
        (place / "open-before").touch()
        assert vetro.status("before") == "deploying"
        broker.start()
        finished("before")
        # Not killed: a new plan waits a minute for a broker, and a busy machine starts none in that time.
        process = int((broker.home / "pid").read_text())
        os.kill(process, signal.SIGSTOP)
        try:
            begin("during")
            until(lambda: "Creating the machine" in vetro.reports("during"), "it has begun")
            assert vetro.status("during") == "deploying"
        finally:
            os.kill(process, signal.SIGCONT)
        runs("during")
        broker.kill()
        broker.forget()
        broker.start()
        (place / "open-during").touch()
        finished("during")
        assert trace.read_text().split() == ["before", "during"]
        for name in ("before", "during"):
            vetro.run("env", "destroy", "--yes", name)
        assert vetro.leftovers() == []
    finally:
        broker.close()
