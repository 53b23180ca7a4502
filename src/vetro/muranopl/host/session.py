"""A session: one run of programs over one object model."""

from __future__ import annotations

import itertools
from collections.abc import (
    Callable,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vetro.muranopl.classes.objects import CastView, MuranoObject
from vetro.muranopl.classes.types import MuranoPackage, MuranoType
from vetro.muranopl.model.serializing import Serializer
from vetro.muranopl.runtime.destruction import Collector
from vetro.muranopl.runtime.run import Run
from vetro.muranopl.syntax.versions import Version, version_spec
from vetro.muranopl.threads.effects import EffectsPort, Json
from vetro.muranopl.threads.greenthreads import GreenThread
from vetro.muranopl.values.containers import Value, freeze, thaw
from vetro.muranopl.values.errors import (
    Cancelled,
    NoObjectFoundError,
    ObjectModelError,
)
from vetro.muranopl.values.limits import Limits
from vetro.yaql.comparing import afford

from .calls import Hook, Hooks, HostCalls
from .models import SessionModel
from .requests import SessionInfo, TaskReply
from .worlds import packages_of

if TYPE_CHECKING:
    from .runtime import Runtime

T = TypeVar("T")


class Session:
    """Made by `Runtime.session`. Host calls run one at a time; concurrent calls wait.

    Every operation has a plain form, which starts an event loop only if a program waits, and an
    `_async` form, which runs in the caller's loop and never blocks it.

    `services`: whatever the host gave `Runtime.session(services=…)`; native classes find their
    back ends there. `system_attributes`: `SystemData` of the model, kept from task to task.
    """

    def __init__(
        self,
        runtime: Runtime,
        effects: EffectsPort,
        limits: Limits,
        info: SessionInfo,
        services: object = None,
        secrets: Callable[[object], object] | None = None,
    ) -> None:
        self.runtime = runtime
        """The classes the session runs on: the host's runtime, or another world of it."""
        self.fixed: dict[str, frozenset[Version]] = {}
        """Versions of packages that the environment already uses (section 5)."""
        self._packages: tuple[int, str | None, frozenset[MuranoPackage]] = (0, None, frozenset())
        self._types: set[MuranoType] = set()
        """Classes that are not among those of the objects: called ones, and those of the gone."""
        self.effects = effects
        self.limits = limits
        self.info = info
        self.services = services
        self.secrets = secrets
        self.system_attributes: dict[str, Json] = {}
        self.run = Run(self)
        self.collector = Collector(self.run)
        self.meta_objects: dict[Any, tuple[MuranoObject, ...]] = {}
        self.warnings: list[str] = []
        """Messages that the host should show to its user, in order."""
        self._model = SessionModel(self.run)
        self._calls = HostCalls(self.run, self._enter)
        self._start_hooks = Hooks()
        self._finish_hooks = Hooks()
        self._closed = False

    # -- running -------------------------------------------------------------------------------

    async def in_green_thread_async(self, function: Callable[[], T]) -> T:
        """Run host code in a green thread, where it may `wait` and call objects directly."""
        return await self._calls.run_async(function)

    def in_green_thread(self, function: Callable[[], T]) -> T:
        """The same without the caller's event loop."""
        return self._calls.run(function)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close_async()

    # -- models --------------------------------------------------------------------------------

    def load(self, model: Json) -> MuranoObject | None:
        """Load `{"Objects": …, "ObjectsCopy": …, "Attributes": …, "SystemData": …}`; the root.

        Objects in `ObjectsCopy` that are not in `Objects` become candidates for `collect`.
        Raises MuranoError.
        """
        self._calls.entered = True  # loading chooses the classes, by what the model says
        return self._calls.run(lambda: self._load(model))

    async def load_async(self, model: Json) -> MuranoObject | None:
        """`load` from a running event loop."""
        self._calls.entered = True
        return await self._calls.run_async(lambda: self._load(model))

    def _load(self, model: Json) -> MuranoObject | None:
        if not isinstance(model, Mapping):
            raise ObjectModelError("a model must be a map with the key Objects")
        top = cast("Mapping[str, Json]", model)
        self.system_attributes.update(cast("dict[str, object]", top.get("SystemData") or {}))
        self.fix_packages(top)
        return self._model.load(top)

    async def check_async(self, model: Mapping[str, Json]) -> None:
        """Check that a task could load a model: judge edits and load it, without the objects that
        were removed from it. Raises MuranoError."""
        from vetro.muranopl.model.edits import settle_edits

        def load() -> None:
            self.fix_packages(model)
            settled = settle_edits(self.class_in_model, model, [])
            self._load({key: value for key, value in settled.items() if key != "ObjectsCopy"})

        self._calls.entered = True
        await self._calls.run_async(load)

    def fix_packages(self, model: Mapping[str, Json]) -> None:
        """Prefer the versions that a model's fixation table names (section 5)."""
        system: Any = model.get("SystemData") or {}
        fixed: dict[str, list[str] | str] = system.get("Packages") or {}
        for name, versions in fixed.items():
            listed = [versions] if isinstance(versions, str) else versions
            found = {Version.parse(text) for text in listed}
            self.fixed[name] = self.fixed.get(name, frozenset()) | found
        if not self.run.objects:
            self._enter()
        else:  # the classes of its objects stay
            self.runtime.shelf.fixed_packages = dict(self.fixed)

    def _enter(self) -> None:
        """Choose the classes to run on; runs in a green thread because it may call a resolver."""
        self._calls.entered = True
        main = self.runtime.main
        self.runtime = main.worlds.enter(main, self, dict(self.fixed))

    def stay(self) -> None:
        """Run on the classes of the given runtime itself."""
        self._calls.entered = True

    def own_type(self, type_: MuranoType) -> MuranoType:
        """The session's form of a class that the host looked up in its runtime."""
        if type_.runtime is self.runtime:
            return type_
        package = self.runtime.shelf.find_package(
            type_.package.name, version_spec(f"=={type_.package.version}")
        )
        return self.runtime.classes.own_type(package, type_.name) or type_

    def class_in_model(self, name: str, version: str | None, package: str | None) -> MuranoType:
        """The class that a model names. Raises NoPackageForClassFound, NoPackageFound."""
        project = self.info.project_id
        return self.runtime.classes.type_from_model(name, version, package, None, project)

    def class_of(self, item: Mapping[str, Json]) -> MuranoType | None:
        """The class of an object in a model; ``None`` when it is not found."""
        # Imported late, as where edits are settled.
        from vetro.muranopl.model.edits import type_of_item

        return type_of_item(self.class_in_model, item)

    @property
    def closed(self) -> bool:
        """True once the session has ended."""
        return self._closed

    def note_types(self, types: Iterable[MuranoType]) -> None:
        """Remember classes that the session uses, for its fixation table."""
        self._types.update(types)

    def _used_packages(self) -> dict[str, list[str]]:
        run = self.run
        statics = (item.declaring_type for item in run.statics)
        objects = (item.type for item in run.objects.values())
        return packages_of({*self._types, *statics, *objects})

    def dump(self) -> dict[str, Json]:
        """The model as it is now: `Objects`, `ObjectsCopy`, `Attributes`, `SystemData`."""
        system = {**self.system_attributes, "Packages": self._used_packages()}
        return {**self._model.dump(), "SystemData": system}

    def copy_objects(self) -> Json:
        """Store `Objects` as `ObjectsCopy`, which the next task compares with."""
        return self._model.copy_objects()

    def serialize(self, value: object, *, references: bool = True) -> Json:
        """A value as an action result (section 15.2).

        Objects outside the value stay as their ids; without `references` they are left out, as in a
        saved model.
        """
        serializer = Serializer(self.run, keep_references=references, honour_reference_meta=True)
        return serializer.value(freeze(value))

    def to_plain(self, value: object) -> Json:
        """`serialize`: a result as JSON, objects as their models."""
        return self.serialize(value)

    def find(self, object_id: str) -> MuranoObject | None:
        """The object with the id."""
        return self.run.find_object(object_id)

    def packages_in_use(self) -> frozenset[MuranoPackage]:
        """The packages of its objects; collected again only when objects were removed."""
        objects = self.run.objects
        count, last, packages = self._packages
        fresh = list(itertools.takewhile(lambda key: key != last, reversed(objects)))
        if len(objects) != count + len(fresh):
            fresh, packages = list(objects), frozenset[MuranoPackage]()
        if fresh:
            packages |= {objects[key].type.package for key in fresh}
            self._packages = len(objects), next(reversed(objects)), packages
        return packages

    def objects(self) -> list[MuranoObject]:
        """Every object of the session that is constructed and not destroyed."""
        return list(self.run.objects.values())

    @property
    def root(self) -> MuranoObject | None:
        """The root of the loaded model."""
        return self._model.root

    # -- calls ---------------------------------------------------------------------------------

    def call(
        self,
        target: MuranoObject | CastView | MuranoType | str,
        method: str,
        /,
        *args: object,
        **kwargs: object,
    ) -> Value:
        """Call a method of an object, or a static method of a type or class name.

        The result is plain data and `MuranoObject`. Raises MuranoError.
        """
        return self._calls.run(lambda: self._call(target, method, args, kwargs))

    async def call_async(
        self,
        target: MuranoObject | CastView | MuranoType | str,
        method: str,
        /,
        *args: object,
        **kwargs: object,
    ) -> object:
        """`call` from a running event loop; only green threads wait."""
        return await self._calls.run_async(lambda: self._call(target, method, args, kwargs))

    def _call(
        self, target: object, method: str, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        receiver = self.runtime.type(target) if isinstance(target, str) else target
        if isinstance(receiver, MuranoType):
            receiver = self.own_type(receiver)
            self._types.add(receiver)
        if receiver is None:
            raise NoObjectFoundError(
                "there is no object to call a method of: the loaded model has no root"
            )
        result = self.run.invoke(
            receiver,
            method,
            [freeze(item) for item in args],
            {key: freeze(item) for key, item in kwargs.items()},
        )
        return thaw(afford(result, self.run))

    def begin_call(
        self,
        target: MuranoObject | MuranoType | str,
        method: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> GreenThread:
        """A call that the host steps through itself (`stepping.Steps`)."""
        return self._calls.begin(lambda: self._call(target, method, args, kwargs))

    def end_call(self, thread: GreenThread) -> object:
        """The value of such a call once it has ended. Raises MuranoError."""
        return self._calls.end(thread)

    def evaluate(
        self, text: str, this: MuranoObject | MuranoType | None = None, /, **variables: object
    ) -> Value:
        """Evaluate an expression as code of the object's class; returns plain data.

        `$` and `$this` are the object (or the class); `variables` are `$name`. Raises MuranoError.
        """
        from . import evaluating

        def evaluate() -> Value:
            subject = self._subject(this)
            scope = evaluating.scope_of(self.runtime, subject)
            value = evaluating.evaluate(self.run, text, subject, variables, scope)
            return afford(value, self.run)

        return thaw(self._calls.run(evaluate))

    def execute(
        self,
        statements: str,
        this: MuranoObject | MuranoType | None = None,
        variables: MutableMapping[str, object] | None = None,
        *,
        scope: MuranoType | None = None,
    ) -> Value:
        """Run statements (YAML, as in a `Body`) as code of the object's class, or of `scope`.

        Returns the value of `Return`, or of a trailing expression. Assigned variables are kept in
        `variables` (program values, not plain data). Raises MuranoError.
        """
        from . import evaluating

        kept: MutableMapping[str, object] = {} if variables is None else variables

        def execute() -> Value:
            subject = self._subject(this)
            if scope is None:
                seen_from = evaluating.scope_of(self.runtime, subject)
            else:
                seen_from = self.own_type(scope)
            value = evaluating.execute(self.run, statements, subject, kept, seen_from)
            return afford(value, self.run)

        return thaw(self._calls.run(execute))

    def _subject(self, this: MuranoObject | MuranoType | None) -> MuranoObject | MuranoType | None:
        return self.own_type(this) if isinstance(this, MuranoType) else this

    def act(
        self,
        object_id: str,
        method: str,
        args: Mapping[str, Json] | Sequence[Json] | None = None,
    ) -> object:
        """Call an action by object id, as from outside: it must be Public (section 23).

        `args`: by name, or a list by position.
        """
        from .tasks import action_call

        return thaw(self._calls.run(action_call(self, object_id, method, args or {})))

    async def act_async(
        self,
        object_id: str,
        method: str,
        args: Mapping[str, Json] | Sequence[Json] | None = None,
    ) -> object:
        """`act` from a running event loop."""
        from .tasks import action_call

        return thaw(await self._calls.run_async(action_call(self, object_id, method, args or {})))

    async def run_task_async(self, task: Mapping[str, Json]) -> TaskReply:
        """A whole task: load, collect, act, save, clean up (section 23).

        `task`: `{"action": {"object_id", "method", "args"} | None, "model": …}`. The reply reports
        failures of the program; they are not raised.
        """
        from .tasks import run_task

        return await run_task(self, task)

    def act_static(
        self,
        class_name: str,
        method: str,
        args: Mapping[str, Json] | Sequence[Json] = (),
        *,
        package: str | None = None,
        class_version: str | None = None,
    ) -> object:
        """Call a Public Static method without a model; returns as `call` does (section 23)."""
        from .tasks import static_action

        called = static_action(self, class_name, method, args, package, class_version)
        return self._calls.run(lambda: thaw(called()))

    async def call_static_action_async(
        self,
        class_name: str,
        method: str,
        args: Mapping[str, Json] | Sequence[Json],
        *,
        package: str | None = None,
        class_version: str | None = None,
    ) -> Json:
        """The value of `act_static` as JSON, as the service answers it."""
        from .tasks import static_action

        called = static_action(self, class_name, method, args, package, class_version)
        return await self._calls.run_async(lambda: self.serialize(called()))

    def new(
        self, type_name: str, owner: MuranoObject | None = None, /, **properties: object
    ) -> MuranoObject:
        """Make an object; only inside a green thread (native classes)."""
        given = {key: freeze(value) for key, value in properties.items()}
        return self.run.create(self.runtime.type(type_name), given, owner)

    # -- life ----------------------------------------------------------------------------------

    def on_start(self, hook: Hook) -> None:
        """Run before the action; errors are logged."""
        self._start_hooks.add(hook)

    def on_finish(self, hook: Hook) -> None:
        """Run after the action and at the end of the session; errors are logged."""
        self._finish_hooks.add(hook)

    async def start_hooks_async(self) -> None:
        """Run the start hooks."""
        await self._start_hooks.run()

    async def finish_hooks_async(self) -> None:
        """Run the finish hooks."""
        await self._finish_hooks.run()

    async def close_async(self) -> None:
        """End of the session: finish hooks, then every object not in the model is destroyed."""
        if self._closed:
            return
        self._closed = True
        await self.finish_hooks_async()
        kept = self._model.written_ids()
        await self._calls.run_async(lambda: self.collector.destroy_except(kept))
        # Runs the work that destruction deferred (an update without the destroyed machine).
        await self.finish_hooks_async()
        self.run.statics.clear()

    def close(self) -> None:
        """`close_async` without a loop."""
        if self._closed:
            return
        import asyncio

        with asyncio.Runner() as runner:
            runner.run(self.close_async())

    def cancel(self, reason: str) -> None:
        """End the call in progress with `Cancelled`; safe from another OS thread."""
        self.run.threads.request_abort(Cancelled(reason))

    # -- garbage (for io.murano.system.GC) ------------------------------------------------------

    def collect(self) -> int:
        """Destroy objects that no root reaches (section 21); returns their number."""
        return self._calls.run(self.collector.collect)

    async def collect_async(self) -> int:
        """`collect` from a running event loop."""
        return await self._calls.run_async(self.collector.collect)
