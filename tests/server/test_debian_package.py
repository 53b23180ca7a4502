"""The Debian package: what `make deb` builds runs where it is installed."""

import subprocess
from pathlib import Path

import pytest

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


@pytest.mark.root
def test_what_is_built_runs_where_it_is_installed(tmp_path: Path) -> None:
    """The package has its own environment and names what it needs; its command and its library work from
    /usr, wherever it was built."""
    built = subprocess.run(
        [str(ROOT / "tools/debian_package.sh"), str(ROOT / ".venv"), str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    package = built.stdout.strip()
    control = subprocess.run(
        ["dpkg-deb", "--field", package], capture_output=True, text=True, check=True
    ).stdout
    assert "Depends: python3 (>= 3." in control
    assert "lxc" in control
    target = tmp_path / "root"
    subprocess.run(["dpkg-deb", "-x", package, str(target)], check=True)
    shebang = (target / "usr/lib/vetro/bin/vetro").read_text(encoding="utf-8").split("\n")[0]
    assert shebang == "#!/usr/lib/vetro/bin/python"
    sample = ROOT / "library/ApacheHttpServer"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", INSTALLED, "sh", str(target), str(tmp_path), str(sample)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("/usr/lib/vetro/lib/python3") == 2
