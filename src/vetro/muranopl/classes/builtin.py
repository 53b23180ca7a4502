"""The classes of `io.murano` that the language itself needs.

An added package `io.murano` replaces the classes that it declares; the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CORE = "io.murano"

_OBJECT = """
# What every class extends.
Name: io.murano.Object
"""

_EXCEPTIONS = """
Name: io.murano.Exception
Properties:
  name: {Contract: $.string(), Usage: Runtime}
  message: {Contract: $.string(), Usage: Runtime}
  stackTrace: {Contract: $.class('io.murano.StackTrace'), Usage: Runtime}
  extra: {Contract: {}, Usage: Runtime, Default: {}}
  nativeException: {Contract: $, Usage: Runtime}
  cause: {Contract: $.class('io.murano.Exception'), Usage: Runtime}
---
Name: io.murano.StackTrace
Properties:
  frames: {Contract: [], Usage: Runtime, Default: []}
"""

_SYSTEM = """
Name: io.murano.system.GC
---
Name: io.murano.system.Logger
Properties:
  name: {Contract: $.string().notNull()}
"""

_METADATA = """
Namespaces: {=: io.murano.metadata}
# The name of a class, property, method or argument that people see.
Name: Title
Usage: Meta
Inherited: true
Properties:
  text: {Contract: $.string().notNull()}
---
# What it is, in a sentence for people.
Name: Description
Usage: Meta
Inherited: true
Properties:
  text: {Contract: $.string().notNull()}
---
# What to do with it, for the person who fills it in.
Name: HelpText
Usage: Meta
Inherited: true
Properties:
  text: {Contract: $.string().notNull()}
---
# A static method that makes an object model out of its arguments.
Name: ModelBuilder
Usage: Meta
Applies: Method
Inherited: true
Properties:
  enabled: {Contract: $.bool().notNull(), Default: true}
---
Namespaces: {=: io.murano.metadata.engine}
# How a property is written in a result: as a copy of the object or a reference to it.
Name: Serialize
Usage: Meta
Applies: Property
Inherited: true
Properties:
  as: {Contract: "$.string().notNull().check($ in list(reference, copy))", Default: copy}
---
# Which calls of a method wait for each other: by object, by arguments.
Name: Synchronize
Usage: Meta
Applies: Method
Inherited: true
Properties:
  onThis: {Contract: $.bool().notNull(), Default: true}
  onArgs: {Contract: [$.string().notNull()], Default: []}
---
Namespaces: {=: io.murano.metadata.forms}
# Whether a form shows a property or argument.
Name: Hidden
Usage: Meta
Applies: [Property, Argument]
Inherited: true
Properties:
  visible: {Contract: $.bool().notNull(), Default: false}
---
# Where a form shows a property or argument.
Name: Position
Usage: Meta
Applies: [Property, Argument]
Inherited: true
Properties:
  section: {Contract: $.string()}
  index: {Contract: $.int()}
---
# A part of a form.
Name: Section
Usage: Meta
Cardinality: Many
Applies: [Type, Method]
Inherited: true
Properties:
  name: {Contract: $.string().notNull()}
  title: {Contract: $.string(), Default: $.name}
  index: {Contract: $.int()}
"""

_FILES = {
    "object.yaml": _OBJECT,
    "exceptions.yaml": _EXCEPTIONS,
    "system.yaml": _SYSTEM,
    "metadata.yaml": _METADATA.replace(
        'Contract: "$.string().notNull().check($ in list(reference, copy))"',
        'Contract: !yaql "$.string().notNull().check($ in list(reference, copy))"',
    ),
}


def _names(file: str, prefix: str, *names: str) -> dict[str, str]:
    return {f"{prefix}.{name}": file for name in names}


class BuiltinCore:
    """The source of the built-in part of `io.murano`."""

    full_name = CORE
    version = "0.0.0"
    format = "1.4"
    requirements: Mapping[str, str | None] = {}
    meta: Any = None
    classes: Mapping[str, str] = {
        **_names("object.yaml", CORE, "Object"),
        **_names("exceptions.yaml", CORE, "Exception", "StackTrace"),
        **_names("system.yaml", CORE + ".system", "GC", "Logger"),
        **_names(
            "metadata.yaml",
            CORE + ".metadata",
            *("Title", "Description", "HelpText", "ModelBuilder"),
            *("engine.Serialize", "engine.Synchronize"),
            *("forms.Hidden", "forms.Position", "forms.Section"),
        ),
    }

    def read_class(self, file: str) -> str:
        return _FILES[file]

    def read_resource(self, name: str) -> bytes:
        raise FileNotFoundError(f"{CORE} has no resource {name}")
