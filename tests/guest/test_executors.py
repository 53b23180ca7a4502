"""Executors and downloads, in the real agent with stand-ins for the big tools."""

from __future__ import annotations

import hashlib
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def tools(tmp_path: Path, guest: Any) -> Path:
    """A folder at the head of the agent's PATH."""
    folder = tmp_path / "tools"
    folder.mkdir()
    guest.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    return folder


def _tool(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def _scripts_plan(make_plan: Any, kind: str, entry: str, body: str, **options: Any) -> Any:
    return make_plan(
        body,
        version="2.2.0",
        Scripts={
            "deploy": {"Type": kind, "EntryPoint": entry, "Files": ["book"], "Options": options}
        },
        Files={
            "book": {"Name": "web/recipes/default.rb", "BodyType": "Text", "Body": "package 'x'\n"}
        },
    )


def test_chef_gets_its_run_list_and_attributes(guest: Any, make_plan: Any, tools: Path) -> None:
    """chef-solo sees the cookbook path, run list and attributes; ERROR lines join stderr."""
    _tool(
        tools,
        "chef-solo",
        'test "$*" = "-j node.json -c solo.rb" || exit 9\n'
        "cat node.json solo.rb\ncat web/recipes/default.rb\necho\necho some ERROR here\n"
        "echo warned >&2\n",
    )
    result = guest.result_of(
        _scripts_plan(make_plan, "Chef", "web::default", "return deploy({'port': 80})")
    )
    assert result["ErrorCode"] == 0
    out = result["Body"]["stdout"]
    assert '{"run_list": ["recipe[web::default]"], "web": {"port": 80}}' in out
    assert "cookbook_path" in out
    assert "package 'x'" in out
    assert result["Body"]["stderr"] == "warned\nsome ERROR here"


def test_berkshelf_without_berksfile_fails_in_preparation(
    guest: Any, mailbox: Any, make_plan: Any, tools: Path
) -> None:
    """A missing Berksfile is error 100 with exit code 2."""
    _tool(tools, "chef-solo", "exit 0\n")
    mailbox.offer(
        _scripts_plan(make_plan, "Chef", "web::default", "return deploy()", useBerkshelf=True)
    )
    guest.start()
    result = mailbox.result()
    assert result["ErrorCode"] == 100
    assert result["Body"]["AdditionalInfo"]["exitCode"] == 2
    assert "web/Berksfile" in result["Body"]["Message"]


def test_berkshelf_vendors_before_chef(
    guest: Any, mailbox: Any, make_plan: Any, tools: Path
) -> None:
    """Dependencies go to berks-cookbooks, which becomes the cookbook path."""
    _tool(tools, "berks", 'mkdir -p "$3" && touch "$3/vendored"\n')
    _tool(tools, "chef-solo", "cat solo.rb; ls berks-cookbooks\n")
    mailbox.offer(
        _scripts_plan(
            make_plan,
            "Chef",
            "web::default",
            "return deploy().stdout",
            useBerkshelf=True,
            berksfilePath="web/recipes/default.rb",
        )
    )
    guest.start()
    body = mailbox.result()["Body"]
    assert "berks-cookbooks" in body
    assert body.endswith("vendored")


def test_puppet_gets_manifest_hiera_and_modules(guest: Any, make_plan: Any, tools: Path) -> None:
    """puppet apply sees the class, the module path and the attributes as hiera data."""
    _tool(tools, "puppet", 'echo "$@"; cat manifest.pp hieradata/*; exit 4\n')
    plan = _scripts_plan(
        make_plan,
        "Puppet",
        "web::server",
        "return deploy({'port': 80})",
        verifyExitcode=False,
    )
    result = guest.result_of(plan)
    assert result["Body"]["exitCode"] == 4
    lines = result["Body"]["stdout"].splitlines()
    assert lines[0].startswith("apply --hiera_config=hiera.yaml --modulepath=")
    assert lines[1] == "class { 'web::server': }"
    assert lines[2] == '{"web::port": 80}'


def test_a_missing_tool_is_error_100(guest: Any, make_plan: Any, tools: Path) -> None:
    """A tool that is not installed is a preparation failure that names it."""
    guest.environment["PATH"] = str(tools)
    result = guest.result_of(_scripts_plan(make_plan, "Puppet", "web::", "return deploy()"))
    assert result["ErrorCode"] == 100
    assert "puppet does not run" in result["Body"]["Message"]


def test_input_arguments_and_functions(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """The command line is shell text, input goes to stdin, script.function is the script."""
    plan = make_plan(
        "one = s('\"a b\" c', input='typed\\n')\n"
        "two = s.anything('x')\n"
        "return [one.stdout, two['stdout'], two.stderr]",
        {"s": '#!/bin/sh\necho "$#:$1"\ncat\n'},
    )
    mailbox.offer(plan)
    guest.start()
    assert mailbox.result()["Body"] == ["2:a b\ntyped", "1:x", None]


def test_times_are_reported_to_who_asks(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """A plan with `Timings` is answered with how long it and each run of its scripts took; others are not."""
    text = (
        "s('0', input='')\ntry:\n    s.again('3')\nexcept Exception as error:\n    pass\nreturn 1"
    )
    for more in ({"Timings": True}, {"Timings": 1}, {}):
        plan = make_plan(text, {"s": '#!/bin/sh\nexit "$1"\n'})
        mailbox.offer({**plan, **more})
    mailbox.offer({**make_plan("raise ValueError('x')"), "Timings": True})
    guest.start()
    times = mailbox.result()["Timings"]
    first, second = times["Scripts"]
    assert set(first) == {"Name", "Ago", "Seconds"}
    assert set(second) == {"Name", "Ago", "Seconds", "Failed"}
    assert first["Name"] == second["Name"] == "s"
    assert 0 < second["Seconds"] <= second["Ago"] < first["Ago"] <= times["Seconds"]
    assert "Timings" not in mailbox.result()
    assert "Timings" not in mailbox.result()
    failed = mailbox.result()
    assert (failed["ErrorCode"], failed["Timings"]["Scripts"]) == (1, [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("return object()", "not JSON"),
        ("return float('nan')", "not JSON"),
        ("raise ValueError('own words')", "own words"),
        ("import sys; sys.exit(3)", "exit"),
        ("return nothing_here", "nothing_here"),
        ("import os; os.abort()", "interrupted"),
    ],
)
def test_bodies_that_fail_are_error_1(
    guest: Any, mailbox: Any, make_plan: Any, text: str, said: str
) -> None:
    """Whatever a body does to its process, the agent survives and reports it."""
    mailbox.offer(make_plan(text))
    result = guest.result_of(make_plan("return 'alive'"))
    assert result["ErrorCode"] == 1
    assert said in result["Body"]["Message"]
    assert mailbox.result()["Body"] == "alive"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A web server over a folder with `tool.bin`."""
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / "tool.bin").write_bytes(b"\x00\xffbinary")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def _download_plan(make_plan: Any, url: str, body: str, **more: Any) -> Any:
    plan = make_plan(
        body, {"s": "#!/bin/sh\nls -d tool/*; sha256sum tool/* 2>/dev/null\n"}, version="2.1.0"
    )
    plan["Files"]["d"] = {"Name": "tool", "Type": "Downloadable", "URL": url, **more}
    plan["Scripts"]["s"]["Files"] = ["d"]
    return plan


def test_a_url_is_fetched_into_a_folder(guest: Any, mailbox: Any, make_plan: Any, web: str) -> None:
    """The link points to a folder with the fetched file; a right checksum passes."""
    digest = hashlib.sha256(b"\x00\xffbinary").hexdigest()
    mailbox.offer(
        _download_plan(
            make_plan, web + "/tool.bin", "return s().stdout", Checksum="sha256:" + digest
        )
    )
    guest.start()
    lines = mailbox.result()["Body"].splitlines()
    assert lines[0] == "tool/tool.bin"
    assert lines[1].startswith(digest)


@pytest.mark.parametrize(
    ("path", "checksum", "said"),
    [
        ("/absent.bin", None, "404"),
        ("/tool.bin", "sha256:00", "checksum"),
        ("/absent.git", None, "absent.git"),
        ("/svn/trunk", None, "svn/trunk"),
        ("", None, "names no file"),
    ],
)
def test_failed_fetches_name_the_url(
    guest: Any, make_plan: Any, web: str, path: str, checksum: str | None, said: str
) -> None:
    """A file that cannot be fetched or is not the expected one is error 1 with its URL."""
    more = {"Checksum": checksum} if checksum else {}
    result = guest.result_of(_download_plan(make_plan, web + path, "return s().stdout", **more))
    assert result["ErrorCode"] == 1
    assert said in result["Body"]["Message"]
    assert web in result["Body"]["Message"]


@pytest.mark.programs
def test_a_git_repository_is_cloned(
    guest: Any, mailbox: Any, make_plan: Any, tmp_path: Path
) -> None:
    """A URL that ends in .git is cloned."""
    repository = tmp_path / "book.git"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "README").write_text("read me\n")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(repository), "add", "."], check=True)
    subprocess.run(
        ["git", "-C", str(repository), *identity, "commit", "-q", "-m", "first"], check=True
    )
    mailbox.offer(_download_plan(make_plan, f"file://{repository}", "return s().stdout"))
    guest.start()
    assert mailbox.result()["Body"].splitlines()[0] == "tool/README"
