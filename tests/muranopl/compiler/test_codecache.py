"""Compiled classes on disk: used when they are ours and whole, ignored otherwise."""

import os
import stat
from pathlib import Path

import pytest

from vetro.muranopl import MemoryPackage, Runtime
from vetro.muranopl.compiler import codecache
from vetro.muranopl.compiler.codecache import CodeCache

TEXT = """
Namespaces: {=: t}
Name: Main
Properties:
  n: {Contract: $.int().notNull().check($ > 0), Default: 3}
Methods:
  run:
    Arguments: [{by: {Contract: $.int().notNull()}}]
    Body:
      - $x: []
      - Repeat: $.n
        Do:
          - $x: $x.append($by)
      - Return: $x
  fails:
    Body:
      - Throw: Wrong
        Message: here
"""


def start(directory, text=TEXT):
    runtime = Runtime(code_cache=directory)
    runtime.add_package(MemoryPackage("t", {"a": text}, {"t.Main": "a"}))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    return runtime.code_cache, session, root


def test_a_second_runtime_compiles_nothing(tmp_path):
    """What one runtime compiled another one loads, with the same results."""
    cache, session, root = start(tmp_path / "c")
    assert session.call(root, "run", 2) == [2, 2, 2]
    assert (cache.loaded, cache.refused) == (0, 0)
    assert cache.stored > 0
    again, session, root = start(tmp_path / "c")
    assert session.call(root, "run", 4) == [4, 4, 4]
    assert (again.loaded, again.stored, again.refused) == (cache.stored, 0, 0)


def test_positions_of_loaded_code(tmp_path):
    """Errors of code from the cache have their own runtime's classes, lines and instructions."""
    from vetro.muranopl import MuranoError

    start(tmp_path / "c")
    _, session, root = start(tmp_path / "c")
    with pytest.raises(MuranoError) as caught:
        session.call(root, "fails")
    frame = caught.value.stack_trace[-1]
    assert (frame.method_name, frame.position.line, frame.instruction) == (
        "fails",
        17,
        "Throw: t.Wrong",
    )


def damage_cut(data):
    return data[: len(data) // 2]


def damage_flip(data):
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def damage_empty(_data):
    return b""


def damage_unsealed(data):
    return bytes(32) + data[32:]


@pytest.mark.parametrize("damage", [damage_cut, damage_flip, damage_empty, damage_unsealed])
def test_a_damaged_entry_is_ignored_and_replaced(tmp_path, damage):
    """Entries that were cut, changed or written by somebody without the key do not count."""
    directory = tmp_path / "c"
    cache, session, root = start(directory)
    assert session.call(root, "run", 1) == [1, 1, 1]
    for entry in directory.iterdir():
        if entry.name != "key":
            entry.write_bytes(damage(entry.read_bytes()))
    again, session, root = start(directory)
    assert session.call(root, "run", 1) == [1, 1, 1]
    assert (again.loaded, again.refused, again.stored) == (0, cache.stored, cache.stored)
    third, session, root = start(directory)
    assert session.call(root, "run", 1) == [1, 1, 1]
    assert third.loaded == cache.stored


def test_an_entry_under_another_name_is_ignored(tmp_path):
    """A sealed entry moved to another name is not taken for that one."""
    directory = tmp_path / "c"
    start(directory)
    names = sorted(entry.name for entry in directory.iterdir() if entry.name != "key")
    contents = [(directory / name).read_bytes() for name in names]
    for name, content in zip(names, contents[1:] + contents[:1], strict=True):
        (directory / name).write_bytes(content)
    again, session, root = start(directory)
    assert session.call(root, "run", 1) == [1, 1, 1]
    assert again.loaded == 0


def test_a_directory_others_may_write_to_is_not_used(tmp_path):
    """A cache directory that is open to others is neither read nor written."""
    directory = tmp_path / "c"
    directory.mkdir()
    directory.chmod(0o777)
    cache, session, root = start(directory)
    assert session.call(root, "run", 1) == [1, 1, 1]
    assert not cache.usable
    assert list(directory.iterdir()) == []


def test_a_link_is_not_used(tmp_path):
    """A cache directory that is a symbolic link is not trusted."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "c").symlink_to(tmp_path / "real")
    assert not CodeCache(tmp_path / "c").usable


def test_the_key_is_for_its_owner_alone(tmp_path):
    """The cache's secret is readable by its owner only."""
    CodeCache(tmp_path / "c")
    assert stat.S_IMODE(os.stat(tmp_path / "c" / "key").st_mode) == 0o600


def test_another_text_is_another_entry(tmp_path):
    """A changed class is compiled again."""
    start(tmp_path / "c")
    _, session, root = start(tmp_path / "c", TEXT.replace("Default: 3", "Default: 1"))
    assert session.call(root, "run", 5) == [5]


def test_the_limits_of_yaml_hold_for_known_files(tmp_path):
    """A file that is in the cache is still refused by stricter limits."""
    from vetro.muranopl import MuranoError, YamlLimits

    start(tmp_path / "c")
    runtime = Runtime(code_cache=tmp_path / "c", yaml_limits=YamlLimits(nodes=5))
    runtime.add_package(MemoryPackage("t", {"a": TEXT}, {"t.Main": "a"}))
    with pytest.raises(MuranoError):
        runtime.compile_all()


def test_processes_that_write_little_make_room_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache of many short-lived workers does not grow without end."""
    monkeypatch.setattr(codecache, "MAX_ENTRIES", 100)
    entries = 0
    # Which entry makes room is its name's chance, one of 256: none of 10,000 does it once in 10 ** 17 runs.
    for number in range(10_000):
        CodeCache(tmp_path / "cache").keep_documents(str(number), "file", [])
        before, entries = entries, len(os.listdir(tmp_path / "cache"))
        if entries < before:
            break
    assert entries <= before // 2 + 2
