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

Beside them, loaded when first used: `testing` (test classes and mocks), `coverage`, `describing`
(what a class offers), `stepping` (a call that the host drives itself), `loose` (classes from texts).
`docs/language/embedding.md` shows all of it at work.
"""

from typing import TYPE_CHECKING, Any

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
from .greenthreads import ThreadKey
from .limits import Limits, YamlLimits
from .native import CallContext, meta, native
from .objects import MuranoObject
from .runtime import Runtime
from .scheduler import current_thread, in_green_thread, wait, wait_turn
from .sources import DirectoryPackage, MemoryPackage, PackageResolver, PackageSource
from .types import MuranoPackage, MuranoType
from .versions import Version, VersionSpec, version_spec

if TYPE_CHECKING:
    from .coverage import FileCoverage, LineCoverage
    from .describing import ClassDescription, describe_class
    from .documents import MappingNode, ScalarNode, SequenceNode, read_documents
    from .loose import loose_package
    from .replay import RecordingEffects, ReplayingEffects, ReplayMismatch
    from .session import Session, SessionInfo, TaskReply
    from .stepping import Steps
    from .testing import (
        MuranoTest,
        MuranoTestResult,
        discover_tests,
        enable_testing,
        run_test,
        run_tests,
        select_tests,
    )

_LATER = {
    "MappingNode": "documents",
    "ScalarNode": "documents",
    "SequenceNode": "documents",
    "read_documents": "documents",
    "ClassDescription": "describing",
    "FileCoverage": "coverage",
    "LineCoverage": "coverage",
    "MuranoTest": "testing",
    "MuranoTestResult": "testing",
    "RecordingEffects": "replay",
    "ReplayMismatch": "replay",
    "ReplayingEffects": "replay",
    "Session": "session",
    "SessionInfo": "session",
    "Steps": "stepping",
    "TaskReply": "session",
    "describe_class": "describing",
    "discover_tests": "testing",
    "enable_testing": "testing",
    "loose_package": "loose",
    "run_test": "testing",
    "run_tests": "testing",
    "select_tests": "testing",
}


def __getattr__(name: str) -> Any:
    """Names of modules that most programs do not need."""
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


__all__ = [
    "CallContext",
    "Cancelled",
    "ClassDescription",
    "ContractViolationException",
    "DirectEffects",
    "DirectoryPackage",
    "DslSyntaxError",
    "EffectsPort",
    "FileCoverage",
    "Finding",
    "Json",
    "LimitExceeded",
    "Limits",
    "LineCoverage",
    "MappingNode",
    "MemoryPackage",
    "MuranoError",
    "MuranoObject",
    "MuranoPackage",
    "MuranoTest",
    "MuranoTestResult",
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
    "ScalarNode",
    "SequenceNode",
    "Session",
    "SessionInfo",
    "StackFrame",
    "Steps",
    "TaskReply",
    "ThreadKey",
    "Version",
    "VersionSpec",
    "YamlLimits",
    "current_thread",
    "describe_class",
    "discover_tests",
    "enable_testing",
    "in_green_thread",
    "loose_package",
    "meta",
    "native",
    "read_documents",
    "run_test",
    "run_tests",
    "select_tests",
    "version_spec",
    "wait",
    "wait_turn",
]
