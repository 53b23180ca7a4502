"""Whose a resource of a stack is: none that keeps data is ever taken over by another object.

Applications share the template of their region's stack, and resources have names in it. A machine of the
class library has that of its host (``CloudRegion.claimServer``); programs of packages choose names as they
like. What the second one puts there under a name would be merged into the resource of the first: its
machine gets other properties, or is made anew. So what an application has put there is noted with the
region, and a definition by another one is refused while the first one lives.
"""

from __future__ import annotations

import re
from typing import cast

from vetro.engine.errors import HeatStackError
from vetro.engine.services import services_of
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
ENVIRONMENT = "io.murano.Environment"
REGION = "io.murano.CloudRegion"
GENERATED = "generatedStackName"
"""The attribute of a region that its stack is named after."""
PREFIX = "murano-"
"""Before it, in the name."""
_OF_ENVIRONMENT = re.compile(rf"{PREFIX}.+-([0-9a-f]{{32}})")


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


class Holder:
    """The component that a stack is of which a program names itself.

    Two objects for one stack each push what they know, so each removes what the other has put there.
    Inside a component that is its author's decision. Of two the first one keeps the stack while it lives.
    The stack of a region, of this environment or another one, is never a component's.
    """

    def __init__(self, ctx: CallContext, stack: str, region: str | None) -> None:
        self._stack = stack
        self._region = region
        self._maker = next((one.this for one in calling_places() if one.this is not None), None)

    def take(self, ctx: CallContext) -> None:
        """Note that the stack is the component's, unless it is another one's, or a region's.

        Errors: ``HeatStackError`` that names both.
        """
        mine = self._component(ctx)
        if mine is None:
            return
        if whose := self._region_of(ctx):
            raise HeatStackError(
                f"The stack {self._stack} is that of {whose}; {described(mine)} would take over all that is"
                " in it. Give the application's stack another name"
            )
        if other := self._other(ctx, mine):
            raise HeatStackError(
                f"The stack {self._stack} is of {described(other)}; {described(mine)} names it as well, and"
                " each would remove what the other has in it. Give one of them another name for its stack"
            )
        self._note(ctx, mine, mine.id)

    def is_another(self, ctx: CallContext) -> bool:
        """Whether another component has the stack, and keeps it, or it is a region's."""
        mine = self._component(ctx)
        if mine is None:
            return False
        return self._other(ctx, mine) is not None or bool(self._region_of(ctx))

    def give_up(self, ctx: CallContext) -> None:
        """The stack is gone."""
        mine = self._component(ctx)
        if mine is not None:
            self._note(ctx, mine, None)

    def _region_of(self, ctx: CallContext) -> str:
        """The region that has a stack of this name, in words; empty: none.

        Of another environment by the name alone: it may have no such stack yet, or one without the tag.
        """
        home = services_of(ctx).settings.engine.home_region
        place = self._region or home
        for region in ctx.session.objects():
            if region.is_a(REGION) and (region.get("name") or home) == place:
                generated: Json = ctx.get_attribute(GENERATED, owner=REGION, of=region)
                if self._stack == f"{PREFIX}{generated}":
                    return f"the region {place} of this environment"
        found = _OF_ENVIRONMENT.fullmatch(self._stack)
        own = services_of(ctx).environment_id
        if found is None or found[1] == own or ctx.session.find(found[1]) is not None:
            return ""
        return f"a region of the environment {found[1]}"

    def _other(self, ctx: CallContext, mine: MuranoObject) -> MuranoObject | None:
        holder: Json = ctx.get_attribute(self._attribute(ctx), of=mine.owner)
        other = ctx.session.find(holder) if isinstance(holder, str) else None
        is_there = other is not None and not ctx.session.collector.is_doomed(other)
        return other if is_there and other is not mine else None

    def _note(self, ctx: CallContext, mine: MuranoObject, holder: str | None) -> None:
        attribute = self._attribute(ctx)
        if ctx.get_attribute(attribute, of=mine.owner) != holder:
            ctx.set_attribute(attribute, holder, of=mine.owner)

    def _attribute(self, ctx: CallContext) -> str:
        home = services_of(ctx).settings.engine.home_region
        return f"holder {self._region or home} {self._stack}"

    def _component(self, ctx: CallContext) -> MuranoObject | None:
        """The one that has made the object; a region's stack is of none."""
        this = ctx.this
        one = None if this is None else this.owner
        if one is None or one.is_a(ENVIRONMENT):
            # The environment names no stacks itself: it was given to a program to keep.
            one = self._maker
        found: MuranoObject | None = None
        while one is not None and one.owner is not None:
            if one.owner.is_a(ENVIRONMENT):
                found = one
            one = one.owner
        return None if found is None or found.is_a(REGION) else found


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
