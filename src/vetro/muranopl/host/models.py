"""The object model of a session: loading it whole, and saving it (muranopl.md sections 13, 15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from vetro.muranopl.classes.objects import MuranoObject
from vetro.muranopl.model.loading import Transaction, load_missing, place_in_model
from vetro.muranopl.model.serializing import Serializer
from vetro.muranopl.runtime.run import Run
from vetro.muranopl.threads.effects import Json
from vetro.muranopl.values.errors import DslSyntaxError, MuranoError, ObjectModelError


class SessionModel:
    """The root of a session's objects, and the objects of the last deployment (`ObjectsCopy`)."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.root: MuranoObject | None = None
        self.copied: Json = None
        self._is_whole = True

    def load(self, top: Mapping[str, Json]) -> MuranoObject | None:
        """Make the objects of a model; the root. Raises MuranoError."""
        run = self._run
        run.attributes.load(top.get("Attributes") or ())
        self.root = None
        objects = top.get("Objects")
        if objects is not None:
            if not isinstance(objects, Mapping):
                raise ObjectModelError("Objects of a model must be an object or null")
            transaction = Transaction(run, keep_ids=True)
            try:
                self.root = transaction.make(cast("Mapping[str, Json]", objects), None, None)
                transaction.finish()
            except MuranoError as error:
                self._is_whole = False
                if transaction.failed is not None and not isinstance(error, DslSyntaxError):
                    where = _where(objects, *transaction.failed)
                    error.message = error.message.removesuffix(where) + where
                raise
        copied = top.get("ObjectsCopy")
        self.copied = copied
        if isinstance(copied, Mapping):
            transaction = Transaction(run, keep_ids=True, objects=dict(run.objects))
            load_missing(transaction, cast("Mapping[str, Json]", copied))
            transaction.finish()
        return self.root

    def dump(self) -> dict[str, Json]:
        """The model as it is now: `Objects`, `ObjectsCopy`, `Attributes`."""
        serializer = Serializer(self._run, keep_references=False)
        objects = serializer.model(self.root)
        return {
            "Objects": objects,
            "ObjectsCopy": self.copied,
            "Attributes": self._run.attributes.dump(serializer.written.keys()),
        }

    def written_ids(self) -> set[str]:
        """The ids of the objects that a saved model would contain."""
        serializer = Serializer(self._run, keep_references=False)
        try:
            serializer.model(self.root)
        except MuranoError:
            if self._is_whole:
                raise
            # References are open in a model that could not be loaded. It keeps all that there is of it.
            return set(self._run.objects)
        return set(serializer.written)

    def copy_objects(self) -> Json:
        """Store `Objects` as `ObjectsCopy`, which the next task compares with."""
        serializer = Serializer(self._run, keep_references=False, designer_data=False)
        self.copied = serializer.model(self.root)
        return self.copied


def _where(objects: Json, model: object, object_id: str | None) -> str:
    """The end of an error message: the object of the model that the error concerns."""
    named = "object" if object_id is None else f"object {object_id}"
    return f" ({named} at {place_in_model(objects, model)})"
