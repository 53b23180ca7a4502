"""Building root file systems with the distribution's bootstrap tool.

The result is a tar that any node can unpack (image type ``lxc-rootfs``). Built images start with
sysvinit: it needs nothing from the host (docs/decisions/0004). Building is content-addressed: the
same inputs give the same file name, and the same packages give the same bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vetro.compute.wire import NewImage
from vetro.node.commands import run
from vetro.node.errors import CommandFailed, ConfigurationError, ImageBuildError
from vetro.node.guest.former_machine import OF_ONE_MACHINE
from vetro.node.images.build_scratch import build_directory, contained

BASE_PACKAGES = (
    "ca-certificates",
    "iproute2",
    "netbase",
    "procps",
    "python3",
    "sysvinit-core",
)
# Newer files get this time stamp, so that two builds give the same bytes.
SOURCE_DATE_EPOCH = "1700000000"
# Increase it when a change of the recipe below changes the result.
RECIPE = 2

# The exit status of setpriv and unshare for a missing program.
_NO_SUCH_PROGRAM = 127
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?")
_SUITE = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class ImageFile:
    """A built image: its path and description."""

    name: str
    path: Path
    sha256: str
    size: int
    suite: str
    packages: tuple[str, ...]
    compression: str = "zstd"
    type: str = "lxc-rootfs"

    def manifest(self) -> NewImage:
        """The body that makes its record in the compute service (``POST /compute/images``)."""
        return NewImage(
            name=self.name,
            version=self.sha256[:12],
            type=self.type,
            description=f"Debian {self.suite} with {', '.join(self.packages) or 'nothing more'}",
            tags={"suite": self.suite, "packages": ",".join(self.packages)},
        )


async def build_image(
    name: str,
    packages: Sequence[str] = (),
    *,
    suite: str = "bookworm",
    cache_dir: Path,
    mirrors: Sequence[str] = (),
    refresh: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> ImageFile:
    """Build a Debian root file system, or take the one built before from ``cache_dir``.

    ``packages`` are installed besides the base (init, Python for the guest agent, ``ip``); their
    services do not start during the build. ``mirrors`` are lines or files as ``mmdebstrap`` takes
    them; default: this host's own sources for ``suite``. ``refresh`` forces a new build.
    ``on_step`` is called with each step of the tool. While another process builds the same image, this waits
    and takes that one.
    Errors: ``ImageBuildError`` with the tool's last output.
    """
    if not _NAME.fullmatch(name):
        raise ImageBuildError(f"'{name}' is not an image name: letters, digits, '.', '_', '+', '-'")
    if not _SUITE.fullmatch(suite):
        raise ImageBuildError(f"'{suite}' is not a release name, such as 'bookworm'")
    wanted = tuple(sorted(set(packages)))
    for package in wanted:
        if not _PACKAGE.fullmatch(package):
            raise ImageBuildError(f"'{package}' is not a package name")

    sources = "\n".join(mirrors) if mirrors else host_sources(suite, Path("/etc/apt"))
    inputs = {
        "recipe": RECIPE,
        "suite": suite,
        "packages": [*BASE_PACKAGES, *wanted],
        "sources": sources,
        "architecture": platform.machine(),
        "epoch": SOURCE_DATE_EPOCH,
    }
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:24]
    cache_dir.mkdir(parents=True, exist_ok=True)
    path = cache_dir / f"{suite}-{key}.tar.zst"
    record = path.with_suffix(".json")
    tell: Callable[[str], None] = on_step or (lambda _: None)
    if refresh or not (path.exists() and record.exists()):
        # Beside the target: /tmp is small on many machines, and the last step is a rename.
        async with build_directory(
            cache_dir, key, lambda: tell("waiting for another build of the same image")
        ) as work:
            if refresh or not (path.exists() and record.exists()):
                await _bootstrap(suite, wanted, sources, path, work, tell)
                digest, size = await asyncio.to_thread(_digest, path)
                facts = {"sha256": digest, "size": size, "inputs": inputs}
                _write(record, json.dumps(facts, indent=1))
    facts = json.loads(record.read_text(encoding="utf-8"))
    return ImageFile(name, path, facts["sha256"], facts["size"], suite, wanted)


def keep_once(built: Path, stored: Path) -> bool:
    """Make ``built`` a hard link to ``stored``, the same bytes kept by a service on this machine.

    False, with nothing changed, if the service has no such file here or on another file system.
    """
    linked = built.with_name(f".{built.name}.linked")
    try:
        if stored.stat().st_size != built.stat().st_size:
            return False
        linked.unlink(missing_ok=True)
        os.link(stored, linked)
        linked.replace(built)
    except OSError:
        return False  # keep two copies, as on two machines
    return True


async def _bootstrap(
    suite: str,
    packages: Sequence[str],
    sources: str,
    target: Path,
    work: Path,
    on_step: Callable[[str], None],
) -> None:
    if os.geteuid() != 0 and not shutil.which("newuidmap"):
        raise ImageBuildError("Building needs root, or the uidmap package for user namespaces")
    # mmdebstrap's sandboxed apt user must be able to enter it.
    work.chmod(0o755)
    result = work / target.name
    arguments = [
        "--variant=minbase",
        f"--include={','.join([*BASE_PACKAGES, *packages])}",
        "--aptopt=APT::Install-Recommends false",
        *(f"--aptopt={line}" for line in await apt_transport_options()),
        # Keys that packages make when they are installed would be those of every machine.
        f"--customize-hook={_removal()}",
        # The host's name server does not belong into an image.
        '--customize-hook=rm -f "$1/etc/resolv.conf" "$1/etc/hostname"',
        '--customize-hook=rm -rf "$1"/var/log/*.log "$1"/var/log/apt "$1"/var/cache/ldconfig/aux-cache',
        suite,
        str(result),
    ]
    try:
        await run(
            *await contained("mmdebstrap", *arguments, *([] if not sources else ["-"])),
            on_line=steps(on_step),
            stdin=sources.encode() if sources else None,
            timeout=3600,
            environment={
                "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH,
                "TMPDIR": str(work),
                **{
                    name: os.environ[name]
                    for name in ("http_proxy", "https_proxy", "no_proxy")
                    if name in os.environ
                },
            },
        )
    except ConfigurationError as error:
        raise ImageBuildError(str(error)) from error
    except CommandFailed as error:
        if error.status == _NO_SUCH_PROGRAM:
            raise ImageBuildError(
                "mmdebstrap is not installed; run tools/system-packages.sh or install it by hand"
            ) from error
        raise ImageBuildError(_last_words(error.output, packages)) from error
    os.replace(result, target)


def _removal() -> str:
    """A line of shell that removes what belongs to one machine from the root that is built."""
    return "rm -rf " + " ".join(f'"$1"/{pattern}' for pattern in OF_ONE_MACHINE)


def steps(report: Callable[[str], None]) -> Callable[[str], None]:
    """Call ``report`` with the steps in mmdebstrap's output (``I: installing …``), no repeats."""
    last = ""

    def line(text: str) -> None:
        nonlocal last
        step = text.removeprefix("I: ").strip()
        if text.startswith("I: ") and step != last:
            last = step
            report(step)

    return line


def _last_words(output: str, packages: Sequence[str]) -> str:
    lines = [line for line in output.splitlines() if line.startswith(("E:", "W:"))]
    reason = "; ".join(lines[-4:]) or output.strip()[-500:]
    names = ", ".join(packages) or "none"
    return f"mmdebstrap could not build the image (extra packages: {names}): {reason}"


async def apt_transport_options() -> list[str]:
    """How this host's apt reaches its mirrors: proxies and certificates, as ``Name "value"``."""
    if not shutil.which("apt-config"):
        return []
    dump = await run("apt-config", "dump")
    kept: list[str] = []
    for line in dump.output.splitlines():
        option, _, value = line.rstrip(";").partition(" ")
        if value.strip('"') and re.match(
            r"Acquire::(https?(::|$)|Check-(Valid-Until|Date)$|Retries$)", option
        ):
            kept.append(f"{option} {value}")
    return kept


def host_sources(suite: str, apt: Path) -> str:
    """This host's apt sources that belong to ``suite``, as apt reads them; '' when it has none.

    Third parties' sources are excluded: an image holds the distribution only.
    """
    wanted = {suite, f"{suite}-updates", f"{suite}-security"}
    kept: list[str] = []
    for file in sorted([apt / "sources.list", *(apt / "sources.list.d").glob("*")]):
        if not file.is_file():
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix == ".sources":
            for stanza in re.split(r"\n\s*\n", text):
                kept.extend(_one_line_sources(stanza, wanted))
        elif file.suffix == ".list":
            for line in text.splitlines():
                match = re.match(r"deb\s+(?:\[[^]]*\]\s+)?\S+\s+(\S+)\s", line)
                if match and match[1] in wanted:
                    kept.append(line.strip())
    return "".join(f"{line}\n" for line in kept)


def _one_line_sources(stanza: str, wanted: set[str]) -> list[str]:
    fields: dict[str, str] = {}
    for line in stanza.splitlines():
        if line.startswith("#") or ":" not in line:
            continue
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes") == "no":
        return []
    signed = fields.get("signed-by", "")
    options = f"[signed-by={signed}] " if signed.startswith("/") else ""
    return [
        f"deb {options}{uri} {name} {fields.get('components', 'main')}"
        for uri in fields.get("uris", "").split()
        for name in fields.get("suites", "").split()
        if name in wanted
    ]


def _digest(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return digest, path.stat().st_size


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


__all__ = [
    "BASE_PACKAGES",
    "ImageBuildError",
    "ImageFile",
    "build_image",
    "host_sources",
    "keep_once",
]
