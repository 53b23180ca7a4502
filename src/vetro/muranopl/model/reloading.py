"""Loading again in place: what the next session would make of the objects as they are now.

A deployment loads the model anew, so that every `.init` runs (muranopl.md section 6.1), and what is not
stored is not there. A test keeps its references: each object stays the Python object that it is.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from vetro.muranopl.classes.objects import MuranoObject
from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.model.loading import Header, Transaction
from vetro.muranopl.model.running import ModelRun
from vetro.muranopl.model.serializing import Serializer


class _Reload(Transaction):
    """A load whose objects are those of the session with the same ids."""

    __slots__ = ("known",)

    def __init__(self, run: ModelRun, known: dict[str, MuranoObject]) -> None:
        others = {key: one for key, one in run.objects.items() if key not in known}
        super().__init__(run, keep_ids=True, objects=others)
        self.known = known

    def type_of(self, header: Header, default: MuranoType | None) -> MuranoType:
        known = self.known.get(header.object_id or "")
        return super().type_of(header, default) if known is None else known.type

    def create(self, type_: MuranoType, *header: Any) -> MuranoObject:
        known = self.known.get(header[1])
        if known is None:
            return super().create(type_, *header)
        run, id_, owner, *others = header
        owner = known.owner or owner  # by its place, as in a model, when it has none yet
        known.__dict__.clear()
        type(known).__init__(known, run, id_, owner, *others)
        return known


@contextmanager
def restored_on_failure(run: ModelRun) -> Generator[None]:
    """A context that leaves every object of the session as it was when an error ends it."""
    objects = dict(run.objects)
    states = [(one, dict(one.__dict__)) for one in objects.values()]
    try:
        yield
    except BaseException:
        run.objects.clear()
        run.objects.update(objects)
        for one, state in states:
            one.__dict__.clear()
            one.__dict__.update(state)
        raise


def reload(
    run: ModelRun, root: MuranoObject, outside: Iterable[MuranoObject]
) -> list[MuranoObject]:
    """Load an object, and what it holds, as they would be saved; all of them. Raises MuranoError.

    `outside`: objects that stay as they are. When it fails, objects are half made: see `restored_on_failure`.
    """
    serializer = Serializer(run, keep_references=True, actions=False, outside=outside)
    model = serializer.model(root)
    owner = root.owner
    transaction = _Reload(run, dict(serializer.written))
    transaction.make(model, owner, None)
    transaction.finish()
    return list(serializer.written.values())
