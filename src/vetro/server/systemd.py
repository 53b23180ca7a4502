"""``vetro install``: the parts of an installation as units of systemd, with user and directories."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vetro.server.data_directory import write_private
from vetro.server.errors import StartError

#: Part -> the command that runs it.
PARTS = {
    "up": "up",
    "api": "api",
    "engine": "engine",
    "compute": "compute",
    "repository": "repository serve",
    "broker": "broker",
    "node": "node",
}
STOP_SECONDS = 60
ENGINE_STOP_SECONDS = 660
"""An engine lets its deployments continue for `engine.drain_seconds`."""
#: They make containers, networks and mounts: a service without root's rights has only plain processes.
ROOT = ("up", "node")

_UNIT = """\
# Written by 'vetro install'.
[Unit]
Description=Vetro: {title}
After=network-online.target postgresql.service rabbitmq-server.service
Wants=network-online.target

[Service]
# The process says when it listens. A newer version migrates the database before that.
Type=notify
TimeoutStartSec=900
ExecStart={program} {command} --config {config} --data-dir {data}
Restart=on-failure
RestartSec=2
LimitNOFILE=65536
TimeoutStopSec={stop}
{rights}
[Install]
WantedBy=multi-user.target
"""
_AS_ROOT = """\
# Containers and virtual machines are children of the agent's processes and outlive it: end it alone.
KillMode=process
# The control groups of containers are made below the unit's own.
Delegate=yes
"""
_AS_USER = """\
User={user}
Group={user}
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ReadWritePaths={writable}
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
"""
_SETTINGS = """\
# Settings of Vetro: docs/settings.md has all of them. 'vetro doctor --config {config}' checks this machine.
[server]
host = "127.0.0.1"        # a proxy with a certificate serves the world (docs/operating.md)
log_format = "json"
"""
_SHARED = """\
shared_dir = {shared}
# The same database for all parts:
# database_url = "postgresql://vetro:PASSWORD@db.example.org/vetro"
"""


@dataclass(frozen=True)
class Places:
    """Where things are put."""

    config: Path = Path("/etc/vetro")
    data: Path = Path("/var/lib/vetro")
    units: Path = Path("/etc/systemd/system")
    user: str = "vetro"
    program: Path = field(default_factory=lambda: Path(sys.executable).with_name("vetro"))


def install(parts: Sequence[str], places: Places) -> list[str]:
    """Write the units of ``parts``, their directories and a first settings file; what was done.

    Existing settings are not changed; units are written again. Errors: ``StartError``: not root,
    or a directory cannot be written.
    """
    if os.geteuid() != 0:
        raise StartError("Only root can create units and users", "Run it with sudo.")
    several = parts != ["up"]
    done: list[str] = []
    try:
        if any(part not in ROOT for part in parts):
            done += _user(places.user)
        places.config.mkdir(mode=0o755, parents=True, exist_ok=True)
        done += _settings(places, several=several)
        places.data.mkdir(mode=0o711, parents=True, exist_ok=True)
        for part in parts:
            data = places.data / part if several else places.data
            data.mkdir(mode=0o711, exist_ok=True)
            if part not in ROOT:
                shutil.chown(data, places.user, places.user)
            unit = places.units / ("vetro.service" if part == "up" else f"vetro-{part}.service")
            places.units.mkdir(parents=True, exist_ok=True)
            unit.write_text(unit_of(part, places, data), encoding="utf-8")
            done.append(f"wrote {unit}")
        if several:
            shared = places.data / "shared"
            shared.mkdir(mode=0o700, exist_ok=True)
            if any(part not in ROOT for part in parts):
                shutil.chown(shared, places.user, places.user)
    except OSError as error:
        raise StartError(
            f"{error.filename} cannot be written: {error.strerror}", "See its owner and mode."
        ) from error
    if Path("/run/systemd/system").is_dir() and places.units == Places().units:
        subprocess.run(["systemctl", "daemon-reload"], check=False)
        done.append("reloaded the units of systemd")
    return done


def unit_of(part: str, places: Places, data: Path) -> str:
    """The unit of a part."""
    if part in ROOT:
        rights = _AS_ROOT
    else:
        writable = f"{_word(data)} {_word(places.data / 'shared')}"
        rights = _AS_USER.format(user=places.user, writable=writable)
    return _UNIT.format(
        title="all services" if part == "up" else part,
        program=_word(places.program),
        command=PARTS[part],
        config=_word(places.config / "vetro.toml"),
        data=_word(data),
        stop=ENGINE_STOP_SECONDS if part == "engine" else STOP_SECONDS,
        rights=rights,
    )


def _word(path: Path) -> str:
    """A path as one word of a unit, in which spaces, quotes, backslashes and '%' mean something."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"'


def _user(name: str) -> list[str]:
    try:
        pwd.getpwnam(name)
    except KeyError:
        command = ["useradd", "--system", "--user-group", "--shell", "/usr/sbin/nologin"]
        made = subprocess.run(
            [*command, "--home-dir", "/nonexistent", name],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise StartError(
                f"The user {name} cannot be created: {made.stderr.strip()}",
                "Create it yourself, or name another with --user.",
            ) from None
        return [f"made the user {name}"]
    return []


def _settings(places: Places, *, several: bool) -> list[str]:
    file = places.config / "vetro.toml"
    if file.exists():
        return [f"kept {file}"]
    text = _SETTINGS.format(config=file)
    if several:
        text += _SHARED.format(shared=json.dumps(str(places.data / "shared"), ensure_ascii=False))
    write_private(file, text)
    if several and _known(places.user):
        # The parts' user reads it; it may hold the password of the database.
        shutil.chown(file, places.user, places.user)
    return [f"wrote {file}"]


def _known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
