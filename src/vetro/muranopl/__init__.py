"""MuranoPL: the class language, compiled to Python, bounded and replayable.

    from vetro.muranopl import DirectoryPackage, Runtime

    runtime = Runtime()
    runtime.add_package(DirectoryPackage("library/io.murano"))
    runtime.add_package(DirectoryPackage("my.app"))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"id": "a", "type": "my.app.Main"}}})
    print(session.call(root, "run", 5))
    print(session.dump())

Phases, each in its own module, each with a short account of what it establishes for the next:
`yamltree` (text to nodes with positions) → `declarations` (nodes to class declarations) → `types`
(classes, inheritance, members) → `contracts` and `statements` (Python source) → `objects`,
`loading`, `serializing`, `destruction` (the object graph) → `scheduler`, `session` (the run).
"""

from .declarations import Finding
from .effects import DirectEffects, EffectsPort, Json
from .errors import (
    Cancelled,
    ContractViolationException,
    DslSyntaxError,
    LimitExceeded,
    MuranoError,
    NoClassFound,
    NoMethodFound,
    NoObjectFoundError,
    NoPackageFound,
    Position,
    RunAborted,
    StackFrame,
)
from .limits import Limits, YamlLimits
from .native import CallContext, meta, native
from .objects import MuranoObject
from .replay import RecordingEffects, ReplayingEffects, ReplayMismatch
from .runtime import Runtime
from .scheduler import ThreadKey, current_thread, in_green_thread, wait, wait_turn
from .session import Session, SessionInfo, TaskReply
from .sources import DirectoryPackage, MemoryPackage, PackageResolver, PackageSource
from .types import MuranoPackage, MuranoType
from .versions import Version, VersionSpec, version_spec

__all__ = [
    "CallContext",
    "Cancelled",
    "ContractViolationException",
    "DirectEffects",
    "DirectoryPackage",
    "DslSyntaxError",
    "EffectsPort",
    "Finding",
    "Json",
    "LimitExceeded",
    "Limits",
    "MemoryPackage",
    "MuranoError",
    "MuranoObject",
    "MuranoPackage",
    "MuranoType",
    "NoClassFound",
    "NoMethodFound",
    "NoObjectFoundError",
    "NoPackageFound",
    "PackageResolver",
    "PackageSource",
    "Position",
    "RecordingEffects",
    "ReplayMismatch",
    "ReplayingEffects",
    "RunAborted",
    "Runtime",
    "Session",
    "SessionInfo",
    "StackFrame",
    "TaskReply",
    "ThreadKey",
    "Version",
    "VersionSpec",
    "YamlLimits",
    "current_thread",
    "in_green_thread",
    "meta",
    "native",
    "version_spec",
    "wait",
    "wait_turn",
]
