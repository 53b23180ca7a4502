"""Whose a resource of a stack is: none that keeps data is ever taken over by another object.

Applications share the template of their region's stack, and resources have names in it. A machine of the
class library has that of its host (``CloudRegion.claimServer``); programs of packages choose names as they
like. What the second one puts there under a name would be merged into the resource of the first: its
machine gets other properties, or is made anew. So what an application has put there is noted with the
region, and a definition by another one is refused while the first one lives.
"""

from __future__ import annotations

from typing import cast

from vetro.engine.errors import HeatStackError
from vetro.engine.system.leaving import application_of, region_of
from vetro.engine.system.template_spelling import section
from vetro.json_values import Json
from vetro.muranopl import CallContext, MuranoObject, calling_places

KEPT = frozenset(
    {
        *("OS::Nova::Server", "AWS::EC2::Instance", "OS::Trove::Instance", "OS::Trove::Cluster"),
        *("OS::Cinder::Volume", "AWS::EC2::Volume", "OS::Manila::Share", "OS::Swift::Container"),
    }
)
"""The types whose resources keep data. What others of them share on purpose, such as a security group,
joins when it is merged."""
INSTANCE = "io.murano.resources.Instance"


class Owners:
    """The applications of one stack's resources, and its instances' names."""

    def __init__(self, stack: str, region: str | None) -> None:
        self._attribute = f"owners {stack}"
        self._region = region
        self._known: dict[str, str] | None = None
        self._servers: dict[str, list[str]] | None = None

    def taken(
        self, ctx: CallContext, before: dict[str, Json], after: dict[str, Json], given: list[str]
    ) -> list[str]:
        """Note that the calling application defines the resources ``given`` anew; those whose former owner
        is gone, or has taken them out: they have to go first.

        Errors: ``HeatStackError`` for one that is another application's.
        """
        caller = next((one.this for one in calling_places() if one.this is not None), None)
        mine = application_of(caller)
        region = region_of(ctx)
        if caller is None or mine is None or region is None:
            return []
        known = self._owners(ctx, region)
        there, wanted = section(before, "resources"), section(after, "resources")
        first: list[str] = []
        for name in given:
            if _type(wanted[name]) not in KEPT or (name in there and there[name] == wanted[name]):
                continue
            holder = known.get(name, mine.id)
            other = ctx.session.find(holder)
            if name in there and holder == mine.id:
                instances = self.instances(ctx, name)
                other = application_of(instances[0]) if instances else mine
            if other is not None and other is not mine and name in there:
                raise HeatStackError(
                    f"The resource {name} of the stack is of {described(other)}; {described(mine)} would"
                    " take it over with its data. Let one of them use another name"
                )
            if other is not mine:
                first.append(name)
            # Machines of the class library, and what has the id of its object in its name, need no note.
            if known.get(name) != mine.id and not caller.is_a("io.murano.CloudResource"):
                known[name] = mine.id
                ctx.set_attribute(self._attribute, dict(known), of=region)
        return first

    def instances(self, ctx: CallContext, name: str) -> list[MuranoObject]:
        """The instances whose server this resource has been since an earlier session."""
        if self._servers is None:
            # Once: there may be a thousand, and each asks.
            self._servers = {}
            for one in ctx.session.objects():
                if (server := self._server(ctx, one)) is not None:
                    self._servers.setdefault(server, []).append(one.id)
        found = [ctx.session.find(id_) for id_ in self._servers.get(name, ())]
        return [one for one in found if one is not None and self._server(ctx, one) == name]

    def _server(self, ctx: CallContext, one: MuranoObject) -> str | None:
        """The resource that is an instance's server in this region."""
        if not one.is_a(INSTANCE):
            return None
        server: Json = ctx.get_attribute("serverName", owner=INSTANCE, of=one)
        where: Json = ctx.get_attribute("serverRegion", self._region, owner=INSTANCE, of=one)
        return server if where == self._region else None

    def _owners(self, ctx: CallContext, region: MuranoObject) -> dict[str, str]:
        if self._known is None:
            self._known = ctx.get_attribute(self._attribute, {}, of=region)
        assert self._known is not None
        return self._known


def _type(body: Json) -> Json:
    known = cast("dict[str, Json]", body) if isinstance(body, dict) else {}
    return known.get("type", known.get("Type"))


def described(one: MuranoObject) -> str:
    """An object as people know it: its name, its class and its id, and the application that it is in."""
    name = one.name or one.get("name")
    words = f"{name} " if isinstance(name, str) and name else ""
    text = f"{words}({one.type.name.rpartition('.')[2]} {one.id})"
    home = application_of(one)
    return text if home is None or home is one else f"{text} of {described(home)}"


def refusal(name: str, asking: MuranoObject, holder: MuranoObject) -> HeatStackError:
    """Of a server's name that another instance has."""
    return HeatStackError(
        f"The host name {name} of {described(asking)} is taken: {described(holder)} has this machine, and"
        " two machines of one name would be one. Give one of them another name"
    )
