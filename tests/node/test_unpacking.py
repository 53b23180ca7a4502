"""Archives from elsewhere are unpacked below one directory, alike on every Python."""

import io
import tarfile
from pathlib import Path

import pytest

from vetro.node.unpacking import unpack_tar

Member = tuple[str, bytes, str | bytes]


def archive(*members: Member, mode: int = 0o644) -> io.BytesIO:
    """A tar of (name, type, content or link target)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, data in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.uid, info.gid = kind, mode, 12345, 12345
            if isinstance(data, str):
                info.linkname = data
            else:
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data) if isinstance(data, bytes) else None)
    out.seek(0)
    return out


def unpack(source: io.BytesIO, directory: Path, mode: str = "r|*") -> None:
    directory.mkdir()
    with tarfile.open(fileobj=source, mode=mode) as tar:  # type: ignore[call-overload]
        unpack_tar(tar, directory)


FILE, DIRECTORY, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.mark.parametrize("mode", ["r|*", "r:*"])
def test_files_directories_and_links_that_stay_inside_are_unpacked(
    tmp_path: Path, mode: str
) -> None:
    """Names without a leading slash, links within the tree, also through a stream."""
    source = archive(
        (".", DIRECTORY, b""), ("d", DIRECTORY, b""), ("d/f", FILE, b"one"),
        ("/abs/g", FILE, b"two"), ("d/l", LINK, "../abs/g"), ("h", HARD, "d/f"),
    )  # fmt: skip
    unpack(source, tmp_path / "tree", mode)
    tree = tmp_path / "tree"
    assert (tree / "d/f").read_bytes() == (tree / "h").read_bytes() == b"one"
    assert (tree / "d/l").read_bytes() == (tree / "abs/g").read_bytes() == b"two"


def test_members_belong_to_the_caller_and_lose_dangerous_modes(tmp_path: Path) -> None:
    """No foreign owner, no set-user-id, nothing that others may write; all can be removed again."""
    unpack(archive(("d", DIRECTORY, b""), ("d/f", FILE, b"x"), mode=0o6777), tmp_path / "a")
    unpack(archive(("d", DIRECTORY, b""), ("d/f", FILE, b"x"), mode=0), tmp_path / "b")
    modes = {
        f"{tree}/{name}": (tmp_path / tree / name).stat().st_mode & 0o7777
        for tree in "ab"
        for name in ("d", "d/f")
    }
    assert modes == {"a/d": 0o755, "a/d/f": 0o755, "b/d": 0o755, "b/d/f": 0o600}
    assert (tmp_path / "a/d/f").stat().st_uid == tmp_path.stat().st_uid


@pytest.mark.parametrize(
    "members",
    [
        [("../f", FILE, b"x")],
        [("d/../../f", FILE, b"x")],
        [("l", LINK, "/etc")],
        [("l", LINK, "../outside")],
        [("d/l", LINK, "../../outside")],
        [("l", LINK, "."), ("l/f", FILE, b"x")],
        [("d/l", LINK, ".."), ("m", LINK, "d/l/../outside")],
        [("h", HARD, "../outside")],
        [("l", LINK, "d"), ("h", HARD, "l/f")],
        [("n", tarfile.CHRTYPE, b"")],
        [("n", tarfile.BLKTYPE, b"")],
        [("n", tarfile.FIFOTYPE, b"")],
    ],
    ids=lambda members: " ".join(f"{name}>{data!r}" for name, _, data in members),
)
def test_what_leads_out_and_what_is_no_file_is_refused(
    tmp_path: Path, members: list[Member]
) -> None:
    """By dots, by absolute or nested links, through links; devices and pipes."""
    (tmp_path / "outside").write_text("kept")
    with pytest.raises(tarfile.TarError):
        unpack(archive(*members), tmp_path / "tree")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["outside", "tree"]
    assert (tmp_path / "outside").read_text() == "kept"
