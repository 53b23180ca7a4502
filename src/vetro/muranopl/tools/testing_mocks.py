"""Mocks for test classes: `inject`, `originalMethod`, `withOriginal` (muranopl.md section 26).

A mock replaces one method of a class, or of one object. While a test runs, the Python attribute
`m_NAME` of the affected classes is a dispatcher: it binds the arguments as the original would
(signature and contracts), then runs the newest mock that applies to the receiver, or the original.
`remove_mocks` restores the originals.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from vetro.muranopl.classes.objects import CastView, MuranoObject
from vetro.muranopl.classes.types import Method, MuranoType
from vetro.muranopl.compiler.expressions import MuranoCodegen
from vetro.muranopl.contracts.tree import MISSING
from vetro.muranopl.runtime.nativecalls import StaticAttribute
from vetro.muranopl.runtime.traces import calling_type
from vetro.muranopl.syntax.names import argument_slot
from vetro.muranopl.values.containers import Value, preview
from vetro.muranopl.values.errors import MuranoError
from vetro.yaql import (
    Code,
    Context,
    Evaluation,
    LambdaAny,
    Scope,
    ast,
    finalize,
)

from .mock_arguments import BoundArguments, SignatureBinder, arguments_of_mock

if TYPE_CHECKING:
    from vetro.muranopl.host.runtime import Runtime
    from vetro.muranopl.host.session import Session
    from vetro.muranopl.runtime.run import Run

_STATE = "interception"


class MockError(MuranoError):
    """A mock cannot be set, or a mock function was called where no call is intercepted."""

    own_names = ("ValueError",)


# -- one intercepted call ------------------------------------------------------------------------


@dataclass(slots=True)
class Interception:
    """A call that a mock answers."""

    method: Method
    bound: BoundArguments
    call_original: Callable[..., object]
    caller: FrameType | None

    def variable(self, name: str) -> object:
        """A variable of the method that made the call; `$` and `$this` are its object."""
        wanted = "this" if name in ("", "this", "1") else argument_slot(name)
        frame = self.caller
        unit = frame.f_code.co_filename if frame is not None else ""
        while frame is not None and frame.f_code.co_filename == unit:
            found = frame.f_locals.get(wanted, MISSING)
            if found is not MISSING:
                return found
            if frame.f_code.co_name.startswith("m_"):
                break
            frame = frame.f_back
        return None


def _calling_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and not frame.f_code.co_filename.startswith("<muranopl "):
        frame = frame.f_back
    return frame


def _current(run: Run) -> Interception:
    thread = run.threads.current
    found = None if thread is None or thread.state is None else thread.state.get(_STATE)
    if found is None:
        raise MockError(
            "there is no intercepted call here",
            hint="use originalMethod() and withOriginal() only in the expression of inject()",
        )
    return cast(Interception, found)


Answer = Callable[["Run", Interception], Value]


def _expression_answer(expression: Callable[..., object], test: object) -> Answer:
    def answer(run: Run, call: Interception) -> Value:
        values = (test, *call.bound.positional)
        return finalize(expression(*values, **call.bound.named), run)

    return answer


def _method_answer(holder: Any, name: str, run: Run) -> Answer:
    type_ = holder if isinstance(holder, MuranoType) else holder.type
    method = type_.find_method(name)
    if method is None:
        run.missing_method(holder, type_, name)

    def answer(run: Run, call: Interception) -> Value:
        bound = call.bound
        declared = method.arguments
        if declared is None:
            return run.invoke(holder, name, bound.positional, bound.keywords)
        positional, keywords = arguments_of_mock(declared, bound)
        return run.invoke(holder, name, positional, keywords)

    return answer


# -- the mocks of a session ----------------------------------------------------------------------


@dataclass(slots=True)
class _Mock:
    target: Any
    """The object it is for; None when it is for a class."""
    answer: Answer


class _Dispatcher:
    """Replaces one method in one Python class."""

    def __init__(self, run: Run, method: Method, original: Callable[..., Any]) -> None:
        self.run = run
        self.method = method
        self.original = original
        self.binder = SignatureBinder(method)
        self.mocks: list[_Mock] = []

    def __call__(
        self, this: Value, run: Run, args: Sequence[object], named: dict[str, Value]
    ) -> Value:
        mock = self._chosen(this, run)
        if mock is None:
            return self.original(this, run, *args, **named)
        bound = self.binder.bind(this, run, args, named)

        def call_original(*others: object, **other_names: object) -> object:
            if others or other_names:
                renamed = {argument_slot(key): value for key, value in other_names.items()}
                return self.original(this, run, *others, **renamed)
            if self.method.native is not None:
                return self.original(this, run, *args, **named)
            keywords = {argument_slot(key): value for key, value in bound.keywords.items()}
            return self.original(this, run, *bound.positional, **keywords)

        call = Interception(self.method, bound, call_original, _calling_frame())
        thread = run.threads.current
        assert thread is not None
        before = thread.state
        thread.state = {**(before or {}), _STATE: call}
        try:
            return finalize(mock.answer(run, call), run)
        finally:
            thread.state = before

    def _chosen(self, this: object, run: Run) -> _Mock | None:
        if run is not self.run:
            return None
        for mock in reversed(self.mocks):
            if mock.target is None or mock.target is this:
                return mock
        return None


class MockTable:
    """The mocks of one session, and what they replaced."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._dispatchers: dict[tuple[MuranoType, str], _Dispatcher] = {}
        self._undo: list[Callable[[], None]] = []

    def inject(self, target: object, name: str, answer: Answer) -> None:
        """Replace a method of a class (or of one object) by a mock."""
        item: MuranoObject | None = None
        if isinstance(target, CastView):
            type_, item = target.type, target.target
        elif isinstance(target, MuranoObject):
            type_, item = target.type, target
        else:
            type_ = cast(MuranoType, target)
        known = {"initialize": ".init", "destroy": ".destroy"}.get(name, name)
        method = type_.find_method(known) or type_.find_method(name)
        if method is None:
            self._run.missing_method(target, type_, name)
        mock = _Mock(item, answer)
        for owner in self._concerned(type_, item, method):
            self._dispatcher(owner, method).mocks.append(mock)

    def _concerned(
        self, type_: MuranoType, item: MuranoObject | None, method: Method
    ) -> list[MuranoType]:
        """The classes in which the name means the same definition as in the target."""
        if method.name in (".init", ".destroy"):
            return [method.declaring_type]
        if item is not None:
            candidates: Sequence[MuranoType] = item.type.ancestors
        else:
            candidates = [made for made in _built_types(type_.runtime) if made.is_compatible(type_)]
        return [made for made in candidates if made.method_declarations(method.name) == [method]]

    def _dispatcher(self, owner: MuranoType, method: Method) -> _Dispatcher:
        key = owner, method.name
        known = self._dispatchers.get(key)
        if known is not None:
            return known
        if method.name in (".init", ".destroy"):
            made = self._in_method(method)
        else:
            made = self._in_class(owner, method)
        self._dispatchers[key] = made
        return made

    def _in_method(self, method: Method) -> _Dispatcher:
        """Replace a constructor or destructor in its declaration, through which it is called."""
        function = method.function
        assert function is not None
        made = _Dispatcher(self._run, method, function)

        def mocked(this: object, run: Run, *args: object, **named: object) -> object:
            return made(this, run, args, named)

        method.function = mocked
        self._undo.append(functools.partial(setattr, method, "function", function))
        return made

    def _in_class(self, owner: MuranoType, method: Method) -> _Dispatcher:
        python_class = owner.python_class
        attribute = "m_" + method.name
        raw: Any = vars(python_class)[attribute]
        if isinstance(raw, StaticAttribute):
            made = self._native_static(python_class, attribute, method, raw.function)
        elif method.is_static:

            def original(_this: object, *args: Value, **named: Value) -> object:
                return raw(*args, **named)

            made = _Dispatcher(self._run, method, original)

            def mocked_static(run: Run, *args: object, **named: object) -> object:
                return made(method.declaring_type, run, args, named)

            setattr(python_class, attribute, staticmethod(mocked_static))
        else:
            made = _Dispatcher(self._run, method, raw)

            def mocked(this: object, run: Run, *args: object, **named: object) -> object:
                return made(this, run, args, named)

            setattr(python_class, attribute, mocked)
        self._undo.append(functools.partial(setattr, python_class, attribute, raw))
        return made

    def _native_static(
        self,
        python_class: type[object],
        attribute: str,
        method: Method,
        plain: Callable[..., object],
    ) -> _Dispatcher:
        """Replace a static method written in Python, which receives the object it is called on."""

        def original(holder: object, *args: object, **named: object) -> object:
            if isinstance(holder, MuranoObject):
                return plain(*args, this=holder, **named)
            return plain(*args, **named)

        made = _Dispatcher(self._run, method, original)

        def mocked(
            run: Run, *args: object, this: object = None, called: object = None, **named: object
        ) -> object:
            return made(method.declaring_type if this is None else this, run, args, named)

        setattr(python_class, attribute, StaticAttribute(mocked))
        return made

    def remove_all(self) -> None:
        """Restore the originals."""
        while self._undo:
            self._undo.pop()()
        self._dispatchers.clear()


def _built_types(runtime: Runtime) -> list[MuranoType]:
    return [
        made
        for package in runtime.packages
        for made in list(package.types.values())
        if made.usage == "Class"
    ]


_tables: weakref.WeakKeyDictionary[Session, MockTable] = weakref.WeakKeyDictionary()


def mocks_of(session: Session) -> MockTable:
    """The mocks of a session."""
    table = _tables.get(session)
    if table is None:
        table = _tables[session] = MockTable(session.run)
    return table


def remove_mocks(session: Session) -> None:
    """Restore every method that the session's programs mocked."""
    table = _tables.pop(session, None)
    if table is not None:
        table.remove_all()


# -- functions of test code ----------------------------------------------------------------------


def _run_of(evaluation: Evaluation) -> Run:
    return cast("Run", getattr(evaluation, "main", evaluation))


def inject(
    rt: Evaluation, target: object, method: str, mock: LambdaAny, mock_method: str | None = None
) -> None:
    """`inject(target, method, expression)`, `inject(target, method, mockObject, mockMethod)`"""
    run = _run_of(rt)
    test = _test_object()
    if not isinstance(target, (MuranoObject, CastView)):
        target = run.as_type(target, calling_type(2))
    if mock_method is None:
        answer = _expression_answer(mock, test)
    else:
        holder = mock()
        if isinstance(holder, str):
            holder = run.as_type(holder, calling_type(2))
        if isinstance(holder, CastView):
            holder = holder.target
        if not isinstance(holder, (MuranoObject, MuranoType)):
            raise MockError(
                f"{method} can be mocked on an object or a class, not on {preview(holder)}"
            )
        answer = _method_answer(holder, mock_method, run)
    mocks_of(run.session).inject(target, method, answer)


def _test_object() -> object:
    frame = _calling_frame()
    while frame is not None:
        found = frame.f_locals.get("this", MISSING)
        if found is not MISSING:
            return found
        frame = frame.f_back
    return None


def original_method(rt: Evaluation, *args: object, **named: object) -> object:
    """`originalMethod()`: the intercepted call, with its own arguments unless others are given."""
    run = _run_of(rt)
    settled = [finalize(value, run) for value in args]
    names = {key: finalize(value, run) for key, value in named.items()}
    return _current(run).call_original(*settled, **names)


def with_original(rt: Evaluation, **named: object) -> Context:
    """`withOriginal(name => expression, …)`; compiled by `_with_original_form`."""
    return Context(dict(named))


class _OriginalScope:
    """The expressions of `withOriginal`: variables are those of the intercepted call's caller."""

    def __init__(self, parent: Scope | None, codegen: MuranoCodegen) -> None:
        self.parent = parent
        self._reader = codegen.class_scope.constant(_original_variable)

    def read(self, name: str, outer: object, *, simple: bool) -> tuple[str, bool]:
        return f"{self._reader}(S, {name!r})", False

    def defining(self, name: str) -> list[str]:
        return []


def _original_variable(run: Run, name: str) -> object:
    return _current(run).variable(name)


def _with_original_form(codegen: MuranoCodegen, node: ast.Call, scope: Scope | None) -> Code:
    inner = _OriginalScope(scope, codegen)
    parts: list[str] = []
    for item in node.arguments:
        if not isinstance(item, ast.Pair) or not isinstance(item.key, ast.Keyword):
            raise MockError("withOriginal() takes names: withOriginal(x => $.value) -> …")
        parts.append(f"{item.key.name!r}: {codegen.settled(item.value, inner)}")
    make = codegen.class_scope.constant(_context)
    from vetro.yaql.kinds import CONTEXT

    return Code(f"{make}({{{', '.join(parts)}}})", CONTEXT)


def _context(variables: dict[str, object]) -> Context:
    return Context(variables)


def register_mock_functions(runtime: Runtime) -> None:
    """Register the mock functions for a runtime's classes; call it before they are compiled."""
    MuranoCodegen.forms.setdefault("withOriginal", _with_original_form)
    for flavour in ("current", "legacy"):
        library = runtime.library(flavour)
        if not library.has("inject", False):
            library.register(inject, "inject")
            library.register(original_method, "originalMethod")
            library.register(with_original, "withOriginal")
