"""The Debian package, and the image of a container that has it: what `make deb` builds runs where it is
installed.
"""

import json
import re
import shlex
import subprocess
import urllib.request
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.waiting import until

from vetro.server.settings import load_settings

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = """
set -e
mount -t overlay overlay -o lowerdir="$1/usr:/usr" /usr
cd /
vetro --version
/usr/lib/vetro/bin/python -c 'import vetro, yaml; print(vetro.__file__, yaml.__file__)'
vetro --data-dir "$2" doctor --json > "$2/doctor.json" || true
grep -q '"subject": *"python"' "$2/doctor.json"
vetro check "$3"
"""
CONTAINED = """
set -e
mount -t overlay overlay -o lowerdir="$1/usr:/usr" /usr
shift
cd /
exec "$@"
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built from this tree."""
    built = subprocess.run(
        [
            str(ROOT / "tools/debian_package.sh"),
            str(ROOT / ".venv"),
            str(tmp_path_factory.mktemp("deb")),
        ],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return Path(built.stdout.strip())


@pytest.fixture(scope="module")
def unpacked(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what it installs, which every user can read."""
    target = tmp_path_factory.mktemp("root")
    subprocess.run(["dpkg-deb", "-x", str(package), str(target)], check=True)
    return target


@pytest.mark.root
def test_what_is_built_runs_where_it_is_installed(
    package: Path, unpacked: Path, tmp_path: Path
) -> None:
    """The package has its own environment and names what it needs; its command and its library work from
    /usr, wherever it was built."""
    control = subprocess.run(
        ["dpkg-deb", "--field", str(package)], capture_output=True, text=True, check=True
    ).stdout
    assert "Depends: python3 (>= 3." in control
    assert "lxc" in control
    shebang = (unpacked / "usr/lib/vetro/bin/vetro").read_text(encoding="utf-8").split("\n")[0]
    assert shebang == "#!/usr/lib/vetro/bin/python"
    sample = ROOT / "library/ApacheHttpServer"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", INSTALLED, "sh", str(unpacked), str(tmp_path), str(sample)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("/usr/lib/vetro/lib/python3") == 2


def image() -> dict[str, str]:
    """The instructions of the Containerfile; each is there once."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    found = [line.split(maxsplit=1) for line in text.splitlines() if re.match("[A-Z]", line)]
    assert len({name for name, _ in found}) == len(found)
    return {name: rest.strip() for name, rest in found}


def variables() -> dict[str, str]:
    """What it sets."""
    return dict(one.split("=", 1) for one in shlex.split(image()["ENV"]))


def test_an_image_has_the_package_and_settings_that_exist() -> None:
    """It installs the file that `make deb` makes and nothing else of the tree; its variables are settings."""
    given = image()
    assert given["COPY"] == "dist/vetro_*.deb /tmp/"
    assert (ROOT / ".containerignore").read_text() == "*\n!dist/vetro_*.deb\n"
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()
    subprocess.run(["sh", "-n", "-c", given["RUN"]], check=True)
    assert "/tmp/vetro_*.deb" in given["RUN"]
    assert f"--uid {given['USER']} " in given["RUN"]
    settings = load_settings(environ=variables())
    assert (settings.server.host, settings.node.enabled) == ("0.0.0.0", False)
    assert (settings.server.log_format, str(settings.data_dir)) == ("json", given["VOLUME"])
    ports = [settings.server.port, settings.compute.port, settings.repository.port]
    assert given["EXPOSE"].split() == [str(port) for port in ports]


@pytest.mark.root
def test_an_image_starts_as_its_user(unpacked: Path, tmp_path: Path) -> None:
    """The command of the image, with its variables and as its user, serves from the installed package, and
    ends when it is told to."""
    given = image()
    data, port = tmp_path / "data", free_port()
    data.mkdir()
    subprocess.run(["chown", f"{given['USER']}:{given['USER']}", str(data)], check=True)
    for directory in [data, *data.parents]:
        if not directory.stat().st_mode & 0o001:
            directory.chmod(directory.stat().st_mode | 0o011)
    for directory in [unpacked, *unpacked.parents]:
        if not directory.stat().st_mode & 0o001:
            directory.chmod(directory.stat().st_mode | 0o055)
    own = {"VETRO_DATA_DIR": str(data), "VETRO_PORT": str(port), "VETRO_HOST": "127.0.0.1"}
    tini, dashes, *command = [*json.loads(given["ENTRYPOINT"]), *json.loads(given["CMD"])]
    assert [tini, dashes] == ["tini", "--"]
    user = ["setpriv", f"--reuid={given['USER']}", f"--regid={given['USER']}", "--clear-groups"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", CONTAINED, "sh", str(unpacked), *user, *command],
            env={"PATH": "/usr/bin:/bin", **variables(), **own},
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    def ready() -> bool:
        assert process.poll() is None, (tmp_path / "log").read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    until(ready, "the service of the image is ready")
    assert (data / "admin-openrc").stat().st_uid == int(given["USER"])
    process.terminate()
    assert process.wait(120) == 0, (tmp_path / "log").read_text()
    assert '"event": "service_started"' in (tmp_path / "log").read_text()
