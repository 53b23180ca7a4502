"""What the project promises its contributors holds: targets, public names, commit subjects."""

import ast
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import vetro.muranopl
import vetro.packages
import vetro.yaql

from . import public_face

ROOT = Path(__file__).parents[2]
VERSIONS = (ROOT / "docs/versions.md").read_text(encoding="utf-8")


def test_the_makefile_describes_every_target() -> None:
    """`make help` prints a line for each phony target, with what it does."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.M)
    assert phony is not None
    described = dict(re.findall(r"^([a-z-]+):.*?## (.+)$", makefile, re.M))
    assert set(described) == set(phony[1].split())


@pytest.mark.parametrize("room", [vetro.yaql, vetro.muranopl, vetro.packages])
def test_public_names_are_exported(room: ModuleType) -> None:
    """Each name that docs/versions.md lists for a package is in its `__all__` and can be imported."""
    row = re.search(rf"^\| `{room.__name__}` \| (.*) \|$", VERSIONS, re.M)
    assert row is not None
    for name in re.findall(r"`([A-Za-z_]+)`", row[1]):
        if name != "__all__":
            assert name in room.__all__, name
    for name in room.__all__:
        assert getattr(room, name) is not None, name


def test_the_public_face_works_as_it_is_typed() -> None:
    """The program whose types `make lint` checks gives the results that it names."""
    assert public_face.expressions() == [2, 4]
    assert public_face.programs() == 1


def test_a_package_is_checked_and_packed_through_the_public_face(tmp_path: Path) -> None:
    """The package functions of the public face accept a sample package."""
    copy = tmp_path / "apache"
    shutil.copytree(ROOT / "library/ApacheHttpServer", copy)
    public_face.archives(copy)
    assert copy.with_suffix(".zip").exists()


@pytest.mark.parametrize(
    ("message", "accepted"),
    [
        ("Add a verb\n\nBecause.\n", True),
        ("Add a verb\n# comment of the editor\n", True),
        ("Add a verb", True),
        ("A" * 72 + "\n", True),
        ("A" * 73 + "\n", False),
        ("Add a verb\nand more\n", False),
    ],
)
def test_a_long_subject_is_refused_before_the_commit(
    tmp_path: Path, message: str, accepted: bool
) -> None:
    """The commit hook takes subjects of 72 characters with an empty line after them, and no others."""
    file = tmp_path / "message"
    file.write_text(message, encoding="utf-8")
    done = subprocess.run(
        [ROOT / "tools/commit-subject.sh", file], capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is accepted, done.stderr


MAY_PAUSE = {
    "tests/waiting.py",
    # Native methods and processes whose work takes a while.
    "tests/muranopl/host/test_replay.py", "tests/muranopl/threads/test_effects.py",
    "tests/storage/claimer.py",
    # Looks for an instant in the start of a machine.
    "tests/node/drivers/test_qemu_faults.py",
    # A guest that refuses connections for as long as a peer of it may try.
    "tests/node/lxc_guests.py",
}  # fmt: skip


def test_tests_do_not_pause_to_wait() -> None:
    """Only `tests/waiting.py` pauses, and no test turns in a loop until something has happened."""
    found: list[str] = []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        name = str(file.relative_to(ROOT))
        tree = ast.parse(file.read_text(encoding="utf-8"))
        loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
        turning = {inner for loop in loops for inner in ast.walk(loop)}
        found += [
            f"{name}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep")
            and (node in turning or ast.unparse(node.args[0]) != "0")
            and name not in MAY_PAUSE
        ]
    assert found == []


def alternatives(pattern: str) -> list[str]:
    """The alternatives of a regular expression that stand outside of groups and sets."""
    bare = re.sub(r"\\.|\[[^\]]*\]", "", pattern)
    while bare != (bare := re.sub(r"\([^()]*\)", "", bare)):
        pass
    return bare.split("|")


def test_a_test_of_an_error_expects_one_text() -> None:
    """No `match` of `pytest.raises` has alternatives: such a test passes for the wrong error as well."""
    found: list[str] = []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises":
                found += [
                    f"{file.relative_to(ROOT)}:{node.lineno}"
                    for word in node.keywords
                    if word.arg == "match"
                    and isinstance(word.value, ast.Constant)
                    and len(alternatives(str(word.value.value))) > 1
                ]
    assert found == []


def test_texts_are_asked_for_digits_in_one_way() -> None:
    """`isdigit` is also true of texts that `int` refuses; each use of it also asks for ASCII.

    YAQL has numbers of its own: its scanner bounds them.
    """
    loose = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "src/vetro").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\.is(digit|decimal|numeric)\(\)", line) and "isascii()" not in line
        if not (path.is_relative_to(ROOT / "src/vetro/yaql") and "isdecimal" in line)
    ]
    assert loose == [], f"use vetro.digits.is_number: {', '.join(loose)}"


def _events(tree: ast.Module) -> list[ast.expr]:
    """What a module gives to its structlog logger as the event."""
    levels = ("debug", "info", "warning", "error", "exception")
    return [
        node.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in levels
        and ast.unparse(node.func.value) in ("log", "audit", "logger(__name__)")
    ]


def test_log_events_are_names_with_fields() -> None:
    """Events of structlog loggers are in snake_case, so that programs find them; the rest is fields."""
    named = re.compile(r"\{[\w.]+\}_[a-z_]+|[a-z][a-z0-9]*(_[a-z0-9]+)*")
    found = 0
    sentences: list[str] = []
    for path in sorted((ROOT / "src/vetro").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "structlog.get_logger" not in text and "logger(__name__)." not in text:
            continue  # the guest agent and the languages log text, with the standard library
        for event in _events(ast.parse(text)):
            found += 1
            choices = [event.body, event.orelse] if isinstance(event, ast.IfExp) else [event]
            sentences += [
                f"{path.relative_to(ROOT)}:{one.lineno}: {ast.unparse(one)}"
                for one in choices
                if named.fullmatch(ast.unparse(one).removeprefix("f").strip("\"'")) is None
            ]
    assert found > 200
    assert sentences == []


def _normal(release: str) -> str:
    """A release with its project's normal name."""
    name, _, version = release.partition("==")
    return f"{re.sub('[._]', '-', name)}=={version}"


def test_every_locked_release_has_its_files_digests() -> None:
    """hashes.txt has the releases of constraints.txt, each with digests and none with an address."""
    compiled_here = {"libvirt-python"}  # against the distribution's library (docs/decisions/0256)
    locked = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().split()
    lines = (ROOT / "hashes.txt").read_text(encoding="utf-8").lower().splitlines()
    release = re.compile(r"([a-z0-9._-]+==[^ ;]+)( ; [^-]*)?( --hash=sha256:[0-9a-f]{64})+")
    found = [release.fullmatch(line) for line in lines]
    assert None not in found
    named = {_normal(one[1]) for one in found if one is not None}
    wanted = {_normal(one) for one in locked if one.split("==")[0] not in compiled_here}
    assert named == wanted


def test_what_the_demo_installs_is_locked_as_for_tests() -> None:
    """hashes-run.txt has lines of hashes.txt, and among them what pyproject.toml requires."""
    everything = (ROOT / "hashes.txt").read_text(encoding="utf-8").splitlines()
    running = (ROOT / "hashes-run.txt").read_text(encoding="utf-8").splitlines()
    assert set(running) < set(everything)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[\[>]", one)[0] for one in project["dependencies"]}
    assert wanted <= {line.partition("==")[0] for line in running}
