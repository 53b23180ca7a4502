"""The native classes of ``io.murano.system`` (core-library.md §4)."""

from __future__ import annotations

from vetro.engine.system.agents import Agent, AgentListener
from vetro.engine.system.explorer import NetworkExplorer
from vetro.engine.system.heatstack import HeatStack
from vetro.engine.system.notices import InstanceNotifier, StatusReporter
from vetro.engine.system.openstack import MetadefBrowser, MistralClient
from vetro.engine.system.people import Project, User
from vetro.engine.system.resources import Resources
from vetro.engine.system.volumes import VolumeExplorer
from vetro.muranopl import CallContext, Runtime

CLASSES = {
    "Agent": Agent,
    "AgentListener": AgentListener,
    "HeatStack": HeatStack,
    "InstanceNotifier": InstanceNotifier,
    "MetadefBrowser": MetadefBrowser,
    "MistralClient": MistralClient,
    "NetworkExplorer": NetworkExplorer,
    "Resources": Resources,
    "StatusReporter": StatusReporter,
    "VolumeExplorer": VolumeExplorer,
}


def register(runtime: Runtime) -> None:
    """Make the system classes and ``config`` known to a runtime."""
    for name, python_class in CLASSES.items():
        runtime.add_native_class(f"io.murano.system.{name}", python_class)
    runtime.add_native_class("io.murano.User", User)
    runtime.add_native_class("io.murano.Project", Project)
    runtime.add_function("config", config, packages=["io.murano"])


def config(
    ctx: CallContext, group: str, key: str | None = None, read_as_file: bool = False
) -> object:
    """``config(group, key, readAsFile)`` or ``config(key)``; only the core library sees it."""
    from pathlib import Path

    from vetro.engine.services import services_of

    if key is None:
        group, key = "DEFAULT", group
    value = services_of(ctx).settings.config(group, key)
    if read_as_file and value:
        return Path(str(value)).expanduser().read_text(encoding="utf-8")
    return value
