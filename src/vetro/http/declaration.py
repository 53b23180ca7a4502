"""What a call of a face is declared as; it needs no framework.

`vetro.http.endpoint` makes the routes of the services' faces from declarations, with Litestar. A node's
task API, which loads no framework, dispatches them itself (`vetro.node.work.api`).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from vetro.http.parameters import Param

C = TypeVar("C")


@dataclass(frozen=True)
class Answer:
    """An answer with its own status; ``value`` ``...`` is an empty body."""

    status: int
    value: Any = ...
    headers: dict[str, str] = field(default_factory=dict[str, str])


FIELDS_HEADER = "X-Vetro-Fields"
"""With the value ``all`` it asks for an answer with the members that are ours."""


@dataclass(frozen=True)
class Extras:
    """Members that answers have beyond an API whose field sets are exact; only clients that ask for them
    get them.

    ``names``: of an object's members. ``within``: the member of the answer that lists such objects; ''
    when the answer is one.
    """

    names: tuple[str, ...]
    within: str = ""

    def drop_from(self, shown: dict[str, Any]) -> None:
        """Remove them from a value that is about to be answered."""
        for one in shown[self.within] if self.within else (shown,):
            for name in self.names:
                one.pop(name, None)


#: 200 with an empty body.
EMPTY = Answer(200)


@dataclass(frozen=True)
class Body:
    """The body of a call, for its description. Handlers read the raw request: errors are ours."""

    schema: Mapping[str, Any]
    content_type: str = "application/json"
    required: bool = True


@dataclass(frozen=True)
class Reply:
    """What a call answers when it succeeds.

    ``schema`` ``None``: an empty body. ``status`` 0: the endpoint's. ``media``: its media types.
    ``others``: further success statuses with their schemas.
    """

    schema: Mapping[str, Any] | None = None
    status: int = 0
    media: tuple[str, ...] = ("application/json",)
    others: Mapping[int, Mapping[str, Any] | None] = field(default_factory=dict[int, Any])


@dataclass(frozen=True)
class Endpoint(Generic[C]):
    """A call. ``name`` is the operation's name; ``run``'s docstring its description.

    ``verbs``: one or several with spaces. ``path``: ``{name}`` takes a segment, ``{name:path}`` the
    rest. ``params``: of the query, of headers and of a JSON body. ``takes``: a body that ``params``
    do not describe. ``status``: of a plain success (204: whatever ``run`` returns is dropped).
    ``any_accept``: its media type is chosen by the call, not by the ``Accept`` header.
    ``closed``: its body has no other members than ``params``. ``listed``: whether the document has it.
    ``remembered``: what it answers depends only on the database, the caller and the request, so that it
    may be kept until anything is written (`vetro.http.remembered`).
    ``extras``: what it answers only to who asks with `FIELDS_HEADER`.
    ``for_members``: it is more than reading, though it is a GET: who only reads is refused.
    ``reply``: the schema of what it answers, or a `Reply` where there is more to say. ``errors``: its
    statuses beside those that follow from what it takes and who may call.
    """

    name: str
    verbs: str
    path: str
    run: Callable[[C], Awaitable[Any]]
    params: tuple[Param, ...] = ()
    takes: Body | None = None
    status: int = 200
    deprecated: bool = False
    any_accept: bool = False
    listed: bool = True
    remembered: bool = False
    extras: Extras | None = None
    for_members: bool = False
    reply: Mapping[str, Any] | Reply | None = None
    errors: tuple[int, ...] = ()

    @property
    def closed(self) -> bool:
        """Whether its JSON body has no other members than ``params``."""
        return False

    def reads(self, method: str) -> bool:
        """Whether the call, by this method, only reads."""
        return method == "GET" and not self.for_members

    @property
    def answer(self) -> Reply:
        """What it answers when it succeeds."""
        said = self.reply if isinstance(self.reply, Reply) else Reply(self.reply)
        return said if said.status else replace(said, status=self.status)

    @property
    def path_names(self) -> list[str]:
        """The parameters in the path."""
        return re.findall(r"{(\w+)", self.path)
