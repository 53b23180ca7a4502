"""Objects of a running program, as native classes and hosts see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .session import Session
    from .types import MuranoType


class MuranoObject:
    """One object of a session. Programs reach it only through the language.

    Hosts and native classes use the members below; calls and property writes obey contracts.
    """

    id: str
    type: MuranoType
    owner: MuranoObject | None
    name: str | None
    metadata: Any
    session: Session
    destroyed: bool

    def get(self, name: str, default: Any = None) -> Any:
        """A property's value as plain data and objects; `default` when it has none."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        """A property's value. Raises MuranoError when there is none."""
        raise NotImplementedError

    def set(self, name: str, value: Any) -> None:
        """Write a property as host code: usage is not checked, the contract is."""
        raise NotImplementedError

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method; only inside a green thread (hosts use `Session.call`)."""
        raise NotImplementedError

    def is_a(self, type_name: str) -> bool:
        """True when the object's class is, or descends from, the named class."""
        raise NotImplementedError

    def find_owner(self, type_name: str) -> MuranoObject | None:
        """The nearest strict owner that is of the type."""
        raise NotImplementedError

    def native(self, python_class: type[Any] | None = None) -> Any:
        """The Python instance behind a native part of the object."""
        raise NotImplementedError
