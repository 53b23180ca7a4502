"""Who asks, what is completed, and what needs machines."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from tests.cli.serving import Service

from vetro.cli import cli

pytestmark = [pytest.mark.e2e]


def test_images_are_looked_at_before_they_are_sent(service: Service, tmp_path: Path) -> None:
    """A file that is not a tar is refused here, an unknown type as well; lists and deletes work."""
    import tarfile

    text = tmp_path / "text"
    text.write_text("no tar" * 200)
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(text, "etc/hostname")
    assert "not a tar archive" in service.refused("image", "import", "i", text)
    assert "'floppy'" in service.refused("image", "import", "i", text, "--type", "floppy", code=2)
    (row,) = service.json("image", "import", "i", archive)
    assert "i" in service.ok("image", "list")
    copy = tmp_path / "copy.tar"
    told = service.json("image", "export", "i", copy)
    assert copy.read_bytes() == Path(archive).read_bytes()
    assert (told["sha256"], told["size"]) == (row["sha256"], copy.stat().st_size)
    assert "exists" in service.refused("image", "export", "i", copy)
    assert "not exported" in service.refused("image", "export", "i", tmp_path / "no/such.tar")
    assert "There is no image" in service.refused("image", "export", "j", tmp_path / "j.tar")
    assert sorted(path.name for path in tmp_path.iterdir() if "partial" in path.name) == []
    assert service.json("image", "delete", "--yes", "i") == {"deleted": [f"i ({row['uuid']})"]}
    assert "Images: none." in service.refused("image", "delete", "--yes", "i")


def test_machines_that_are_not_there(service: Service) -> None:
    """Lists are empty, names are unknown."""
    assert service.json("server", "list") == []
    assert service.json("vm", "list") == []
    assert "vetro server list" in service.refused("server", "show", "x")
    for command in ("show", "start", "stop", "reboot"):
        assert "vetro vm list" in service.refused("vm", command, "x")
    assert "vetro vm list" in service.refused("vm", "destroy", "x", "--yes")


def test_tokens_and_passwords(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token works in the place of the file; a wrong one, or password, is said to be wrong."""
    token = service.json("token")["token"]
    assert service.ok("token").strip()
    monkeypatch.setenv("VETRO_TOKEN", token)
    service.ok("--url", service.json("token")["url"], "env", "list")
    monkeypatch.setenv("VETRO_TOKEN", "wrong")
    assert "unset VETRO_TOKEN" in service.refused("env", "list")
    monkeypatch.delenv("VETRO_TOKEN")
    monkeypatch.setenv("OS_USERNAME", "admin")
    monkeypatch.setenv("OS_PASSWORD", "wrong")
    assert "Login of" in service.refused("env", "list")
    monkeypatch.delenv("OS_PASSWORD")
    monkeypatch.delenv("OS_USERNAME")
    monkeypatch.setenv("VETRO_DATA_DIR", "/nowhere")
    assert "No credentials" in service.refused("env", "list")
    monkeypatch.setenv("VETRO_TOKEN", "t")
    assert "No Vetro answers" in service.refused("--url", "http://127.0.0.1:1", "env", "list")


def completions(*words: str) -> list[str]:
    """What a shell offers for the last word."""
    completer = ShellComplete(cli, {}, "vetro", "_VETRO_COMPLETE")
    return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]


def test_shells_complete_names(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, choices and the names on the server; nothing when there is no server."""
    shop.ok("env", "create", "alpha")
    shop.ok("env", "create", "beta")
    assert completions("pac") == ["package"]
    assert completions("up", "--driver", "lx") == ["lxc", "lxc+qemu"]
    assert completions("env", "show", "") == ["alpha", "beta"]
    assert completions("env", "show", "b") == ["beta"]
    assert completions("env", "add", "alpha", "test") == ["test.Shop"]
    assert completions("package", "import", "-c", "") == []
    assert completions("project", "show", "ad") == ["admin"]
    assert completions("project", "delete", "nosuch") == []
    assert completions("keypair", "list", "--project", "ad") == ["admin"]
    monkeypatch.setenv("VETRO_DATA_DIR", "/nowhere")
    assert completions("env", "show", "") == []
    monkeypatch.setenv("VETRO_DATA_DIR", str(shop.directory / "data"))
    assert completions("env", "add", "alpha", "test.Shop", "--set", "") == ["port="]
    assert completions("env", "add", "alpha", "test.Shop", "--set", "x") == []
    assert completions("env", "add", "alpha", "test.Shop", "--set", "port=") == []
    assert completions("env", "add", "alpha", "test.Nope", "--set", "") == []
    assert completions("env", "add", "alpha", "--set", "") == []
    shop.ok("env", "add", "alpha", "test.Shop", "--name", "corner")
    assert {"name=", "port="} <= set(completions("env", "edit", "alpha", "corner", "--set", ""))
    assert completions("env", "edit", "alpha", "corner", "--set", "po") == ["port="]
    assert completions("env", "edit", "alpha", "nosuch", "--set", "") == []
    assert completions("env", "edit", "beta", "corner", "--set", "") == []
    for name in ("alpha", "beta"):
        shop.ok("env", "destroy", "--yes", name)
