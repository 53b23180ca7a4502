"""Every exception of the language.

    MuranoError                      a failure of a program; the only type that hosts get
    ├── NoPackageFound, NoPackageForClassFound, NoClassFound, NoMethodFound, NoPropertyFound,
    │   NoObjectFoundError, AmbiguousClassName, AmbiguousMethodName, AmbiguousPropertyNameError
    ├── MethodNotExposed
    ├── ContractViolationException
    ├── PropertyAccessError
    │   ├── PropertyReadError, PropertyWriteError, NoWriteAccessError
    │   └── UninitializedPropertyAccessError
    ├── CircularExpressionDependenciesError, InvalidLhsTargetError, InvalidInheritanceError,
    │   ObjectDestroyedError, ObjectModelError
    ├── DeadlockDetected
    ├── DslSyntaxError               source that cannot be compiled (has a position)
    │   ├── YamlSyntaxError, DuplicateKey, YamlLimitExceeded, DslContractSyntaxError
    │   └── AmbiguousClassDocument, PackageFormatError
    ├── DslInvalidOperationError
    └── RunAborted                   cannot be caught by a program, `Finally` still runs
        ├── LimitExceeded
        └── Cancelled

Python exceptions raised by native classes cross a program unchanged; a `Catch` sees them under
their qualified name, and a host gets them back as `MuranoError.native` (muranopl.md section 11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from vetro.muranopl.values.containers import Value

LEGACY = "murano.dsl.exceptions."


# Not frozen: many are made, and a frozen one takes four times as long.
@dataclass(slots=True, unsafe_hash=True)
class Position:
    """A place in a source file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One frame of a MuranoPL stack trace."""

    type_name: str
    method_name: str
    position: Position | None
    instruction: str

    def as_map(self) -> dict[str, str | None]:
        """The frame as programs see it."""
        return {
            "instruction": self.instruction,
            "location": None if self.position is None else str(self.position),
            "methodName": self.method_name,
            "typeName": self.type_name,
        }

    def __str__(self) -> str:
        where = (
            f'File "{self.position.file}", line {self.position.line}:{self.position.column}'
            if self.position
            else "File <native>"
        )
        text = f"  {where} in method {self.method_name} of type {self.type_name}"
        return f"{text}\n    {self.instruction}" if self.instruction else text


class MuranoError(Exception):
    """A failure of a program (muranopl.md section 11).

    `names`: every fully qualified name a `Catch` can match, most specific first.
    `message`: text for people. `extra`: a plain map given by the thrower.
    `cause`: the exception this one was thrown for. `from_program`: true when a `Throw` raised it.
    `native`: the Python exception behind it when one crossed the program unchanged.
    `stack_trace`: MuranoPL frames, outermost first; computed when first read.

    Native classes raise it too: `raise MuranoError("text", names=["my.lib.NotReady"])`.
    """

    own_names: ClassVar[tuple[str, ...]] = ()
    """Older names of the class; with `legacy=True` that of the first language's exceptions."""
    cause: BaseException | None = None
    from_program: bool = False
    native: BaseException | None = None
    position: Position | None = None
    hint: str | None = None
    lint_code: str = "E305"
    """The code of a check's finding for it (packages-and-forms.md A8)."""
    _extra: dict[str, Value] | None = None
    _frozen_extra: object = None
    """The program's value until `extra` is first read, which is a copy of it."""
    _trace: list[StackFrame] | None = None
    _trace_source: Callable[[], list[StackFrame]] | None = None

    def __init_subclass__(cls, *, legacy: bool = False) -> None:
        super().__init_subclass__()
        if legacy:
            cls.own_names = (LEGACY + cls.__name__,)

    def __init__(
        self,
        message: str = "",
        *,
        names: Iterable[str] | None = None,
        extra: Mapping[str, Value] | None = None,
        cause: BaseException | None = None,
        from_program: bool = False,
        native: BaseException | None = None,
        position: Position | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.names: tuple[str, ...] = tuple(names) if names is not None else self._class_names()
        if extra:
            self._extra = dict(extra)
        # Set only values that differ from the class's: programs throw often, attributes cost time.
        if cause is not None:
            self.cause = cause
        if from_program:
            self.from_program = True
        if native is not None:
            self.native = native
        if position is not None:
            self.position = position
        if hint is not None:
            self.hint = hint

    @classmethod
    def of_program(
        cls, message: str, names: tuple[str, ...], extra: object, cause: BaseException | None
    ) -> MuranoError:
        """The error of a `Throw`: a faster `__init__`, because programs throw often.

        `extra` is a program's value: None or a frozen map.
        """
        made = cls.__new__(cls, message)
        made.message = message
        made.names = names
        made.from_program = True
        if extra is not None:
            made._frozen_extra = extra
        if cause is not None:
            made.cause = cause
        return made

    def fresh(self) -> MuranoError:
        """The same error without a trace, to be raised at another place."""
        made = type(self).__new__(type(self), self.message)
        made.__dict__.update(self.__dict__)
        made.__dict__.pop("_trace", None)
        made.__dict__.pop("_trace_source", None)
        return made

    @property
    def extra(self) -> dict[str, Value]:
        """A plain map given by the thrower."""
        known = self._extra
        if known is None:
            from .containers import thaw

            frozen = self._frozen_extra
            known = self._extra = {} if frozen is None else thaw(frozen)
            self._frozen_extra = None
        return known

    @extra.setter
    def extra(self, value: dict[str, object]) -> None:
        self._extra, self._frozen_extra = value, None

    def frozen_extra(self) -> Value:
        """`extra` as a program's value."""
        if self._frozen_extra is not None:
            return self._frozen_extra
        from .containers import empty_map, freeze

        return freeze(self._extra) if self._extra else empty_map()

    @classmethod
    def _class_names(cls) -> tuple[str, ...]:
        found: list[str] = []
        for base in cls.__mro__:
            if issubclass(base, MuranoError) and base is not MuranoError:
                found.append(f"vetro.muranopl.{base.__name__}")
                found.extend(base.__dict__.get("own_names", ()))
        return tuple(found) or ("vetro.muranopl.MuranoError",)

    @property
    def stack_trace(self) -> list[StackFrame]:
        """MuranoPL frames, outermost first."""
        if self._trace is None:
            self._trace = self._trace_source() if self._trace_source is not None else []
            self._trace_source = None
        return self._trace

    def set_trace_source(self, source: Callable[[], list[StackFrame]]) -> None:
        """Set the function that computes the trace; only the first call has an effect."""
        if self._trace is None and self._trace_source is None:
            self._trace_source = source

    def __str__(self) -> str:
        names = ", ".join(self.names)
        text = f"[{names}]: {self.message}"
        if self.position is not None:
            text += f" ({self.position})"
        return f"{text}; {self.hint}" if self.hint else text

    def format(self) -> str:
        """The text people see: name, message, trace, causes (muranopl.md section 11)."""
        lines = [f"{self.names[0]}: {self.message}"]
        if self.stack_trace:
            lines.append("Traceback (most recent call last):")
            lines.extend(str(frame) for frame in self.stack_trace)
        elif self.position is not None:
            place = self.position
            lines.append(f'  File "{place.file}", line {place.line}:{place.column}')
        if self.cause is not None:
            cause = self.cause
            text = (
                cause.format() if isinstance(cause, MuranoError) else _in_words_of_programs(cause)
            )
            lines.append(f"Caused by {text}")
        return "\n".join(lines)


def _by_python(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


_in_words_of_programs: Callable[[BaseException], str] = _by_python


def describe_causes_by(describe: Callable[[BaseException], str]) -> None:
    """Set how `format` writes Python errors: their names are known to a later phase, `throwing`."""
    global _in_words_of_programs
    _in_words_of_programs = describe


class NoPackageFound(MuranoError, legacy=True):
    """A package of the wanted name and version is not available."""

    lint_code = "E307"


class NoPackageForClassFound(MuranoError, legacy=True):
    """No available package declares the class."""

    lint_code = "E301"


class NoClassFound(MuranoError, legacy=True):
    """The class is not visible from the package that names it (section 3)."""

    lint_code = "E301"


class NoMethodFound(MuranoError, legacy=True):
    """The type has no such method (section 4)."""


class NoPropertyFound(MuranoError, LookupError, legacy=True):
    """The type has no such property (section 4)."""


class NoObjectFoundError(MuranoError, legacy=True):
    """No object of the session has the id."""

    object_id: str | None = None
    """The id, where one was given."""


class MethodNotExposed(MuranoError, legacy=True):
    """The method is not an action and was called from outside (section 23)."""


class AmbiguousClassName(MuranoError, legacy=True):
    """Several ancestors have the class name."""


class AmbiguousMethodName(MuranoError, legacy=True):
    """Two unrelated definitions of a method are inherited (section 4)."""


class AmbiguousPropertyNameError(MuranoError, legacy=True):
    """Two unrelated declarations of a property are inherited (section 4)."""


class ContractViolationException(MuranoError, legacy=True):
    """A value does not satisfy a contract (section 7)."""


class PropertyAccessError(MuranoError, LookupError, legacy=True):
    """A property may not be read or written here (section 6.2).

    A LookupError, so that an index of legacy code that raises it becomes a filter (yaql.md 8).
    """


class PropertyReadError(PropertyAccessError, legacy=True):
    """The property cannot be read by this code."""


class PropertyWriteError(PropertyAccessError, legacy=True):
    """The property cannot be written by this code."""


class NoWriteAccessError(PropertyAccessError, legacy=True):
    """The property is immutable to the caller."""


class UninitializedPropertyAccessError(PropertyAccessError, legacy=True):
    """The property has no value yet."""


class CircularExpressionDependenciesError(MuranoError, legacy=True):
    """Property defaults need each other (section 6.1)."""


class InvalidLhsTargetError(MuranoError, legacy=True):
    """The left side of an assignment cannot be assigned to (section 10)."""

    lint_code = "E204"


class InvalidInheritanceError(MuranoError, legacy=True):
    """A class extends itself or a class that it must not extend (section 2)."""

    lint_code = "E302"


class ObjectDestroyedError(MuranoError, legacy=True):
    """The object was destroyed (section 21)."""


class ObjectModelError(MuranoError):
    """A model is not of the shape of section 13."""

    own_names = ("ValueError",)


class DeadlockDetected(MuranoError):
    """Green threads wait for each other and no event can resume them (section 28)."""


class DslInvalidOperationError(MuranoError, legacy=True):
    """A statement occurs at a place where it has no meaning (section 9)."""

    lint_code = "E206"


class DslSyntaxError(MuranoError):
    """A class source cannot be compiled; `position` says where."""

    own_names = (LEGACY + "DslSyntaxError", "SyntaxError")


class YamlSyntaxError(DslSyntaxError):
    """The text is not YAML."""

    lint_code = "E002"


class DuplicateKey(DslSyntaxError):
    """A mapping has the same key twice; the message names both places."""

    lint_code = "E006"


class YamlLimitExceeded(DslSyntaxError):
    """The text is larger, deeper or more aliased than allowed."""

    lint_code = "E003"


class DslContractSyntaxError(DslSyntaxError, legacy=True):
    """A contract is malformed (section 7)."""

    lint_code = "E303"


class AmbiguousClassDocument(DslSyntaxError):
    """A file has more than one class without a name (section 1.2)."""

    lint_code = "E051"


class PackageFormatError(DslSyntaxError):
    """The package's `Format` is not known (section 1.3)."""


class RunAborted(MuranoError):
    """The run must end: no `Catch` handles it, every `Finally` runs."""


class LimitExceeded(RunAborted):
    """A budget of the run is used up; `limit` names it."""

    def __init__(self, message: str, *, limit: str, position: Position | None = None) -> None:
        super().__init__(message, position=position)
        self.limit = limit


class Cancelled(RunAborted):
    """The host cancelled the run; the message is its reason."""
