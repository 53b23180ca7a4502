"""MuranoPL: the class language, compiled to Python, bounded and replayable.

    from vetro.muranopl import DirectoryPackage, Runtime

    runtime = Runtime()
    runtime.add_package(DirectoryPackage("library/io.murano"))
    runtime.add_package(DirectoryPackage("my.app"))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"id": "a", "type": "my.app.Main"}}})
    print(session.call(root, "run", 5))
    print(session.dump())

The phases are packages, and none imports a later one while a program runs:

    values → syntax → threads → classes → contracts → inplace → model → runtime →
    compiler → host → tools

Each package opens with what it establishes for the next; a contract in `pyproject.toml` holds the
order. What most programs do not need (`tools`, `replay`, `stepping`, `text_package`) is loaded when it
is first used.
`docs/language/embedding.md` shows all of it at work.
"""

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

from .classes.native import CallContext, meta, native
from .classes.objects import MuranoObject
from .classes.types import MuranoPackage, MuranoType
from .host.runtime import Runtime
from .syntax.findings import Finding
from .syntax.sources import DirectoryPackage, MemoryPackage, PackageResolver, PackageSource
from .syntax.versions import Version, VersionSpec, version_spec
from .threads.effects import DirectEffects, EffectsPort, Json
from .threads.greenthreads import ThreadKey
from .threads.scheduler import current_thread, in_green_thread, wait, wait_turn
from .values.containers import freeze
from .values.errors import (
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
from .values.limits import Limits, YamlLimits

if TYPE_CHECKING:
    from .host.replay import RecordingEffects, ReplayingEffects, ReplayMismatch
    from .host.requests import SessionInfo, TaskReply
    from .host.session import Session
    from .host.stepping import Steps
    from .runtime.traces import CallingPlace, calling_places, statements_of
    from .syntax.documents import MappingNode, ScalarNode, SequenceNode, read_documents
    from .syntax.text_package import loose_package, parents_of, parents_of_all
    from .syntax.yamltree import yaml_hint
    from .tools.checking import check_package
    from .tools.coverage import FileCoverage, LineCoverage
    from .tools.describing import (
        ArgumentDescription,
        ClassDescription,
        MethodDescription,
        PropertyDescription,
        Texts,
        describe_class,
    )
    from .tools.testing import (
        TEST_CLOCK,
        MuranoTest,
        MuranoTestResult,
        discover_tests,
        enable_testing,
        is_test_class,
        run_test,
        run_tests,
        select_tests,
    )

__getattr__ = import_when_used(__name__)


__all__ = [
    "TEST_CLOCK",
    "ArgumentDescription",
    "CallContext",
    "CallingPlace",
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
    "MethodDescription",
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
    "PropertyDescription",
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
    "Texts",
    "ThreadKey",
    "Version",
    "VersionSpec",
    "YamlLimits",
    "calling_places",
    "check_package",
    "current_thread",
    "describe_class",
    "discover_tests",
    "enable_testing",
    "freeze",
    "in_green_thread",
    "is_test_class",
    "loose_package",
    "meta",
    "native",
    "parents_of",
    "parents_of_all",
    "read_documents",
    "run_test",
    "run_tests",
    "select_tests",
    "statements_of",
    "version_spec",
    "wait",
    "wait_turn",
    "yaml_hint",
]
