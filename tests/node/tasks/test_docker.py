"""Streams into and out of containers, over real connections."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from tests.waiting import eventually

pytestmark = pytest.mark.root


@pytest.fixture
async def node(containers: Any, kit: SimpleNamespace) -> AsyncIterator[Any]:
    """The tasks of a node with a running container ``node.vm``."""
    async with kit.node_over(containers.driver, containers.images, containers.directory) as made:
        nic = await containers.plugged(5)
        made.vm = (await containers.create([nic]))["uuid"]
        yield made


class Stream:
    """A client of a temporary server."""

    opened: ClassVar[list[Stream]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.opened.append(self)

    @classmethod
    async def open(cls, where: dict[str, Any], token: str | None = None) -> Stream:
        reader, writer = await asyncio.open_connection(where["host"], where["port"])
        assert where["address"] == f"{where['host']}:{where['port']}"
        writer.write(f"{token or where['token']}\n".encode())
        return cls(reader, writer)

    def send(self, kind: str, data: bytes = b"", **more: Any) -> None:
        message = {"type": kind, "data": base64.b64encode(data).decode(), **more}
        self.writer.write(json.dumps(message).encode() + b"\n")

    async def messages(self) -> list[dict[str, Any]]:
        """Everything until the server closes."""
        async with asyncio.timeout(240):
            text = await self.reader.read()
        await self.close()
        return [json.loads(line) for line in text.splitlines()]

    async def close(self) -> None:
        """Go away."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


@pytest.fixture(autouse=True)
async def closed_streams() -> AsyncIterator[None]:
    """No connection outlives its test, however that ends."""
    yield
    while Stream.opened:
        await Stream.opened.pop().close()


def text_of(messages: list[dict[str, Any]], kind: str) -> bytes:
    """What came on one stream."""
    return b"".join(base64.b64decode(m["data"]) for m in messages if m["type"] == kind)


async def test_a_command_with_its_streams(node: Any) -> None:
    """Input goes in, both outputs and the exit status come out."""
    where = await node.good(
        "docker_exec", uuid=node.vm,
        command={"Cmd": ["sh", "-c", 'cat; echo "$X" >&2; exit 7'], "Env": ["X=a b"]},
    )  # fmt: skip
    stream = await Stream.open(where)
    stream.send("stdin", b"some\x00input")
    stream.send("stdin_end")
    messages = await stream.messages()
    assert text_of(messages, "stdout") == b"some\x00input"
    assert text_of(messages, "stderr") == b"a b\n"
    assert messages[-1] == {"type": "end", "code": 7}


async def test_a_command_with_a_terminal(node: Any) -> None:
    """It has a terminal of the size the client says, and hears keys."""
    where = await node.good(
        "docker_exec", uuid=node.vm,
        # The size reaches the inner terminal by a signal, not in line with the keys.
        command={"Cmd": ["sh", "-c", 'read line; until [ "$(stty size)" = "33 101" ]; do :; done;'
                         " stty size; test -t 0 && echo terminal; exit 3"], "Tty": True},
    )  # fmt: skip
    stream = await Stream.open(where)
    stream.send("resize", rows=33, columns=101)
    stream.send("stdin", b"go\n")
    messages = await stream.messages()
    out = text_of(messages, "stdout")
    assert b"33 101" in out
    assert b"terminal" in out
    assert messages[-1] == {"type": "end", "code": 3}


async def test_detached_commands_run_on_alone(node: Any, containers: Any) -> None:
    """There is no stream; the command does its work."""
    answer = await node.good(
        "docker_exec", uuid=node.vm,
        command={"Cmd": ["sh", "-c", "echo done > /root/mark"], "Detach": True},
    )  # fmt: skip
    assert answer == {}
    root = await containers.driver.files(node.vm)
    await eventually(lambda: root.read("/root/mark") == b"done\n")


async def until_ended(driver: Any, vm: str, command: str) -> None:
    """Wait until no process of a VM has this in its command line."""

    async def ended() -> bool:
        running = (await driver.processes(vm)).values()
        return not any(command in " ".join(process["command"]) for process in running)

    await eventually(ended)


async def test_a_client_that_goes_away_ends_its_command(node: Any, containers: Any) -> None:
    """Nothing is left running for nobody."""
    where = await node.good(
        "docker_exec", uuid=node.vm,
        command={"Cmd": ["sh", "-c", "while :; do echo x; sleep 0.05; done"]},
    )  # fmt: skip
    stream = await Stream.open(where)
    await stream.reader.readline()
    await stream.close()
    await until_ended(containers.driver, node.vm, "echo x")


@pytest.mark.parametrize("terminal", [False, True])
async def test_commands_end_with_the_agent(node: Any, containers: Any, terminal: bool) -> None:
    """The client is told by the end of its connection; nothing runs on unseen."""
    where = await node.good(
        "docker_exec", uuid=node.vm,
        command={"Cmd": ["sh", "-c", "while :; do echo y; sleep 0.05; done"], "Tty": terminal},
    )  # fmt: skip
    stream = await Stream.open(where)
    await stream.reader.readline()
    await node.parts.streams.close()
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(240):
            await stream.reader.read()
    await until_ended(containers.driver, node.vm, "echo y")


async def test_the_token_opens_the_stream_and_nothing_else_does(node: Any) -> None:
    """A stranger is sent away; the owner still gets in, once."""
    where = await node.good("docker_exec", uuid=node.vm, command={"Cmd": ["echo", "hi"]})
    assert await (await Stream.open(where, token="wrong")).messages() == []
    assert text_of(await (await Stream.open(where)).messages(), "stdout") == b"hi\n"
    with pytest.raises(OSError):
        await Stream.open(where)


async def test_commands_need_a_running_vm_and_words(node: Any, containers: Any) -> None:
    """Otherwise the task says why."""
    status, body = await node.task("docker_exec", uuid=node.vm, command={"Cmd": []})
    assert (status, body["details"]["restCode"]) == (500, "InvalidPayload")
    await containers.driver.stop(node.vm, force=True)
    status, body = await node.task("docker_exec", uuid=node.vm, command={"Cmd": ["ls"]})
    assert (status, body["details"]["restCode"]) == (500, "VmNotRunning")
    messages = await (
        await Stream.open(await node.good("docker_exec", uuid=node.vm, command={"Logs": True}))
    ).messages()
    assert messages[-1] == {"type": "end", "code": 0}


def archive(entries: dict[str, bytes | tuple[str, str] | None], **attributes: Any) -> bytes:
    """A tar; ``None`` is a directory, a pair a link of that type."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in entries.items():
            info = tarfile.TarInfo(name)
            for key, value in {"mode": 0o755, **attributes}.items():
                setattr(info, key, value)
            if data is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(data, tuple):
                info.type = tarfile.SYMTYPE if data[0] == "link" else tarfile.LNKTYPE
                info.linkname = data[1]
            else:
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data) if isinstance(data, bytes) else None)
    return out.getvalue()


async def upload(node: Any, path: str, data: bytes, **more: Any) -> dict[str, Any]:
    """Send a tar to a directory; the server's last words."""
    where = await node.good("docker_copy", uuid=node.vm, path=path, mode="write", **more)
    stream = await Stream.open(where)
    stream.writer.write(data)
    stream.writer.write_eof()
    [answer] = await stream.messages()
    return answer


async def test_files_go_in_and_come_out_with_their_owners(node: Any, containers: Any) -> None:
    """Directories, links and owners as the guest sees them."""
    data = archive(
        {"d": None, "d/f": b"content", "d/l": ("link", "f"), "d/h": ("hard", "root/d/f")},
        uid=33, gid=44,
    )  # fmt: skip
    assert await upload(node, "/root", data) == {"type": "end", "entries": 4}
    result = await containers.driver.execute(
        node.vm, ["stat", "-c", "%u:%g %a %h", "/root/d/f"], {"PATH": "/bin"}, 20
    )
    assert result.stdout == "33:44 755 2\n"
    where = await node.good("docker_copy", uuid=node.vm, path="/root/d", mode="read")
    assert where["containerPathStat"]["name"] == "d"
    stream = await Stream.open(where)
    async with asyncio.timeout(240):
        raw = await stream.reader.read()
    await stream.close()
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        found = {m.name: (m.uid, m.linkname) for m in tar}
        content = tar.extractfile("d/f")
        assert content is not None
        assert content.read() == b"content"
    assert found == {"d": (33, ""), "d/f": (33, ""), "d/h": (33, ""), "d/l": (33, "f")}


async def test_paths_are_described(node: Any) -> None:
    """As Docker's clients read them; what is missing is ``FileNotFound``."""

    async def described(path: str) -> Any:
        answer = await node.good("docker_copy", uuid=node.vm, path=path, mode="stat")
        assert set(answer) == {"containerPathStat"}
        return answer["containerPathStat"]

    assert (await described("/www/index.html"))["size"] == 7
    assert (await described("/tmp"))["mode"] == 1 << 31 | 1 << 20 | 0o777
    link = await described("/bin/sh")
    assert (link["linkTarget"], link["mode"] >> 27 & 1) == ("busybox", 1)
    assert (await described("/"))["name"] == "/"
    for path, mode, code in (
        ("/missing", "stat", "FileNotFound"),
        ("/missing/x", "read", "FileNotFound"),
        ("/www/index.html", "write", "PathNotDirectory"),
        ("/www", "look", "InvalidPayload"),
    ):
        status, body = await node.task("docker_copy", uuid=node.vm, path=path, mode=mode)
        assert (status, body["details"]["restCode"]) == (500, code)


async def test_an_archive_stays_in_the_guest(node: Any, tmp_path: Path) -> None:
    """Neither names with dots nor the guest's own links lead to the host's files."""
    outside = tmp_path / "outside"
    outside.mkdir()
    answer = await upload(node, "/root", archive({"../../escape": b"x"}))
    assert answer["details"]["restCode"] == "InvalidPayload"
    await upload(node, "/root", archive({"way": ("link", str(outside))}))
    answer = await upload(node, "/root", archive({"way/file": b"x"}))
    assert answer["type"] == "end"
    assert list(outside.iterdir()) == []
    answer = await upload(node, "/root", b"this is no tar at all" * 100)
    assert answer["type"] == "error"


async def test_a_directory_is_not_overwritten_by_a_file(node: Any) -> None:
    """With ``no_overwrite_dir`` neither the other way round."""
    await upload(node, "/root", archive({"d": None, "f": b"x"}))
    assert (await upload(node, "/root", archive({"d": b"file"})))["type"] == "error"
    answer = await upload(node, "/root", archive({"f": None}), no_overwrite_dir=True)
    assert answer["type"] == "error"


async def test_a_stopped_container_is_copied_as_well(node: Any, containers: Any) -> None:
    """Its files are there without its processes."""
    await containers.driver.stop(node.vm, force=True)
    assert (await upload(node, "/root", archive({"f": b"late"})))["type"] == "end"
    await containers.driver.start(node.vm)
    result = await containers.driver.execute(node.vm, ["cat", "/root/f"], {"PATH": "/bin"}, 20)
    assert result.stdout == "late"


async def test_statistics_once_and_as_a_stream(node: Any, containers: Any) -> None:
    """Numbers of the container, its interface among them; the stream ends with the container."""
    once = await node.good("docker_stats", uuid=node.vm, payload={"stream": False})
    [stats] = await (await Stream.open(once)).messages()
    assert stats["memory_stats"]["usage"] > 0
    assert stats["memory_stats"]["limit"] == 256 << 20
    assert stats["networks"]["eth0"]["tx_bytes"] >= 0
    assert stats["pids_stats"]["current"] >= 1
    stream = await Stream.open(await node.good("docker_stats", uuid=node.vm))
    async with asyncio.timeout(240):
        first = json.loads(await stream.reader.readline())
    assert first["cpu_stats"]["system_cpu_usage"] > 0
    await containers.driver.stop(node.vm, force=True)
    async with asyncio.timeout(240):
        await stream.reader.read()
    await stream.close()


async def test_builds_need_buildah(
    node: Any, fake_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the task says so; with it the context is built and the result published."""
    monkeypatch.setenv("PATH", str(fake_path))
    status, body = await node.task("docker_build", uuid=node.vm, payload={"secret": "hush"})
    assert (status, body["details"]["restCode"]) == (500, "NotImplemented")
    assert "buildah" in body["error"]
    assert "hush" not in json.dumps(node.runner.history.shown())

    rootfs = fake_path.parent / "built"
    rootfs.mkdir()
    (rootfs / "file").write_text("from the build")
    log = fake_path.parent / "buildah.log"
    (fake_path / "buildah").write_text(
        f'#!/bin/sh\necho "$@" >> {log}\ncase "$1" in\n'
        ' bud) shift; for last; do :; done; cat "$last/Dockerfile"; echo STEP 1;;\n'
        f" from) echo work;;\n mount) echo {rootfs};;\nesac\n"
    )
    (fake_path / "buildah").chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake_path}:/usr/bin:/bin:/usr/sbin:/sbin")
    where = await node.good(
        "docker_build", uuid=node.vm, payload={"t": "web:2", "buildargs": {"A": "1"}}
    )
    stream = await Stream.open(where)
    stream.writer.write(archive({"Dockerfile": b"FROM scratch\n"}))
    stream.writer.write_eof()
    messages = await stream.messages()
    assert "FROM scratch\n" in "".join(one.get("stream", "") for one in messages)
    [(manifest, packed)] = node.published
    assert messages[-1] == {"aux": {"ID": manifest["uuid"]}}
    assert (manifest["name"], manifest["version"], manifest["type"]) == ("web", "2", "lxc-rootfs")
    assert packed.startswith(b"\x28\xb5\x2f\xfd")
    calls = log.read_text().splitlines()
    assert "--build-arg A=1" in calls[0]
    assert [call.split()[0] for call in calls] == ["bud", "from", "mount", "rm", "rmi"]
    assert os.listdir(node.parts.data_dir / "scratch") == []


@pytest.mark.parametrize("who", ["client", "agent"])
async def test_a_build_ends_with_who_wanted_it(
    node: Any, fake_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """Nothing is built for nobody; lines may be of any length; the context is gone afterwards."""
    monkeypatch.setenv("PATH", f"{fake_path}:{os.environ['PATH']}")
    pid = fake_path.parent / "pid"
    (fake_path / "buildah").write_text(
        f'#!/bin/sh\n[ "$1" = bud ] || exit 0\necho $$ > {pid}\n'
        "head -c 200000 /dev/zero | tr '\\0' x\nwhile :; do echo more; sleep 0.05; done\n"
    )
    (fake_path / "buildah").chmod(0o755)
    stream = await Stream.open(await node.good("docker_build", uuid=node.vm, payload={"t": "x"}))
    stream.writer.write(archive({"Dockerfile": b"FROM scratch\n"}))
    stream.writer.write_eof()
    said = ""
    async with asyncio.timeout(240):
        while not said.endswith("more\n"):
            said += json.loads(await stream.reader.readline())["stream"]
    assert said.count("x") == 200000
    if who == "client":
        stream.writer.transport.abort()
    else:
        await node.parts.streams.close()
    await stream.close()
    await eventually(lambda: not Path(f"/proc/{int(pid.read_text())}").exists())
    await eventually(lambda: not os.listdir(node.parts.data_dir / "scratch"))


async def test_a_build_that_fails_says_how(
    node: Any, fake_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the build's own last words; nothing is published."""
    monkeypatch.setenv("PATH", f"{fake_path}:{os.environ['PATH']}")
    (fake_path / "buildah").write_text("#!/bin/sh\necho 'no such instruction: FORM'\nexit 125\n")
    (fake_path / "buildah").chmod(0o755)
    stream = await Stream.open(await node.good("docker_build", uuid=node.vm, payload={"t": "x"}))
    stream.writer.write(archive({"Dockerfile": b"FORM scratch\n"}))
    stream.writer.write_eof()
    assert "no such instruction: FORM" in (await stream.messages())[-1]["error"]
    assert node.published == []
