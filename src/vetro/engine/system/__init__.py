"""The native classes of ``io.murano.system`` (core-library.md §4), and a cloud in memory for them.

A face of its own, for programs that run the class library without services: nothing here
imports a database, a web server or the compute service.

    runtime = system_runtime()
    runtime.add_package(open_package(library_path() / "io.murano"))
    runtime.add_package(open_package(Path("MyApplication")))
    cloud = trial_cloud()
    with runtime.session(services=cloud.services()) as session: ...
    cloud.transport.plans, cloud.reports.reports, cloud.stacks
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vetro.engine.services import library_path
from vetro.engine.system.agents import Agent, AgentListener
from vetro.engine.system.explorer import NetworkExplorer, VolumeExplorer
from vetro.engine.system.heatstack import HeatStack
from vetro.engine.system.installation import Installation
from vetro.engine.system.notices import InstanceNotifier, StatusReporter
from vetro.engine.system.openstack import MetadefBrowser, MistralClient
from vetro.engine.system.people import Project, User
from vetro.engine.system.resources import Resources
from vetro.lazy_names import import_when_used
from vetro.muranopl import CallContext, Runtime

if TYPE_CHECKING:
    from vetro.engine.system.memory import MemoryCloud, trial_cloud

CLASSES = {
    "Agent": Agent,
    "AgentListener": AgentListener,
    "HeatStack": HeatStack,
    "Installation": Installation,
    "InstanceNotifier": InstanceNotifier,
    "MetadefBrowser": MetadefBrowser,
    "MistralClient": MistralClient,
    "NetworkExplorer": NetworkExplorer,
    "Resources": Resources,
    "StatusReporter": StatusReporter,
    "VolumeExplorer": VolumeExplorer,
}


def system_runtime(code_cache: Path | None = None) -> Runtime:
    """A runtime that knows the system classes, and no package. ``code_cache``: see ``Runtime``."""
    runtime = Runtime(code_cache=code_cache)
    register(runtime)
    return runtime


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
    from vetro.engine.services import services_of

    if key is None:
        group, key = "DEFAULT", group
    value = services_of(ctx).settings.config(group, key)
    if read_as_file and value:
        return Path(str(value)).expanduser().read_text(encoding="utf-8")
    return value


__getattr__ = import_when_used(__name__)
