"""The embedding face: functions and classes of the host, plugins."""

import asyncio
import importlib.metadata
import sys
import types
from typing import Any

import pytest

from vetro.muranopl import (
    CallContext,
    MuranoError,
    NoClassFound,
    NoObjectFoundError,
    Runtime,
    loose_package,
    meta,
    native,
)


def test_host_functions():
    """Functions and methods of the host, for all code or for some packages only."""
    runtime = Runtime()
    runtime.add_function("double", lambda x: x * 2)
    runtime.add_function("shout", lambda text: text.upper(), kind="method")
    runtime.add_function("secret", lambda: 42, packages=["p"])
    text = """
Name: A
Methods:
  text: {Usage: Static, Body: {Return: ab}}
  run:
    Usage: Static
    Body:
      Return: [double(4), $.text().shout(), secret()]
"""
    runtime.add_package(loose_package("p", text))
    other = "Name: A\nMethods: {run: {Usage: Static, Body: {Return: secret()}}}\n"
    runtime.add_package(loose_package("q", other))
    with runtime.session() as session:
        assert session.call("p.A", "run") == [8, "AB", 42]
        with pytest.raises(MuranoError, match="secret"):
            session.call("q.A", "run")


class Curious:
    """A native class that uses whatever its calls are told."""

    def look(self, ctx: CallContext) -> list:
        ctx.set_attribute("seen", {"times": 1})
        ctx.set_attribute("seen", 2, owner="p.Holder")
        return [
            ctx.class_config(),
            ctx.class_config("p.Holder"),
            ctx.get_attribute("seen"),
            ctx.get_attribute("seen", owner="p.Holder"),
            ctx.get_attribute("never", "default"),
            ctx.find_class("p.Holder").name,
            ctx.evaluate("$.own() + $more", more=5),
            ctx.this.find_owner("p.Holder").id,
            ctx.this.find_owner("p.Nothing"),
        ]

    def own(self) -> int:
        return 4

    @staticmethod
    def nobody(ctx: CallContext) -> Any:
        return [dict(ctx.class_config()), ctx.evaluate("1 + 1")]

    @staticmethod
    def attribute(ctx: CallContext) -> Any:
        return ctx.get_attribute("x")


CURIOUS = """
Namespaces: {=: p}
Name: Holder
Properties:
  held: {Contract: $.class(Curious).notNull()}
Methods:
  say: {Body: {Return: holder}}
  look: {Body: {Return: $.held.look()}}
  nobody:
    Usage: Static
    Body:
      - Return: :Curious.nobody()
  attribute:
    Usage: Static
    Body:
      - Return: :Curious.attribute()
---
Name: Special
Extends: Holder
Methods:
  say: {Body: {Return: special}}
"""


def test_native_methods_reach_what_the_language_offers():
    """Class configs, attributes, classes, expressions, owners; statics have no object to ask."""
    runtime = Runtime(class_configs={"p.Curious": {"a": 1}, "p.Holder": {"b": 2}})
    runtime.add_native_class("p.Curious", Curious, package="p")
    runtime.add_package(loose_package("p", CURIOUS))
    with runtime.session() as session:
        held = {"?": {"type": "p.Curious", "id": "c"}}
        root = session.load({"Objects": {"?": {"type": "p.Special", "id": "h"}, "held": held}})
        assert session.call(root, "look") == [
            {"a": 1}, {"b": 2}, {"times": 1}, 2, "default", "p.Holder", 9, "h", None,
        ]  # fmt: skip
        assert session.dump()["Attributes"] == [
            ["c", "p.Curious", "seen", {"times": 1}],
            ["c", "p.Holder", "seen", 2],
        ]
        assert session.call("p.Holder", "nobody") == [{}, 2]
        with pytest.raises(MuranoError, match="a static call has no object"):
            session.call("p.Holder", "attribute")
        with pytest.raises(NoObjectFoundError, match="no owner of class p.Holder"):
            root.find_owner("p.Holder", optional=False)


def test_an_object_is_seen_as_one_of_its_ancestors():
    """A host calls what an ancestor's code means by a name, as `cast` does."""
    runtime = Runtime()
    runtime.add_native_class("p.Curious", Curious, package="p")
    runtime.add_package(loose_package("p", CURIOUS))
    with runtime.session() as session:
        held = {"?": {"type": "p.Curious", "id": "c"}}
        root = session.load({"Objects": {"?": {"type": "p.Special", "id": "h"}, "held": held}})
        assert session.call(root, "say") == "special"
        assert session.call(root.cast("p.Holder"), "say") == "holder"
        with pytest.raises(NoClassFound, match="p.Curious is not an ancestor of p.Special"):
            root.cast("p.Curious")


def test_a_host_says_which_formats_it_takes():
    """Packages in others are refused with the list; the class library always comes along."""
    runtime = Runtime(formats=["1.3", "1.4"])
    runtime.add_package(
        loose_package("new", "Name: A\nMethods: {run: {Usage: Static, Body: {Return: 1}}}")
    )
    assert runtime.session().call("new.A", "run") == 1
    with pytest.raises(MuranoError, match="package old has format 1.0") as caught:
        runtime.add_package(loose_package("old", "Name: A\n", format="1.0"))
    assert caught.value.hint == "accepted here: 1.3, 1.4"
    old = Runtime(formats=["1.0"])
    old.add_package(
        loose_package(
            "old", "Name: A\nMethods: {run: {Usage: Static, Body: {Return: 1}}}", format="1.0"
        )
    )
    assert old.session().call("old.A", "run") == 1
    with pytest.raises(MuranoError, match="Unsupported format 9"):
        Runtime(formats=["9"])


class Till:
    """A native class with everything that may be injected or marked."""

    def __init__(self, ctx: CallContext, start: int = 0) -> None:
        self.total = start
        self.owner_type = ctx.caller_type

    def pay_in(self, ctx: CallContext, amount: int, *, note: str = "") -> list:
        self.total += amount
        caller = ctx.caller_package
        return [self.total, note, ctx.this.type.name, caller.name if caller else None]

    @staticmethod
    def currency() -> str:
        return "EUR"

    @native(extends="integer", static=True)
    @staticmethod
    def cents(value: int) -> int:
        return value * 100

    @meta("Usage", "Extension")
    @staticmethod
    def twice(value):
        return value * 2

    async def later(self, value: int) -> int:
        await asyncio.sleep(0)
        return value + self.total


def test_native_classes_static_extension_and_injected():
    """Instance, static, extension and waiting methods; the context is not visible to programs."""
    runtime = Runtime()
    runtime.add_native_class("p.Till", Till, package="p")
    text = """
Namespaces: {=: p}
Name: A
Import: Till
Methods:
  run:
    Usage: Static
    Body:
      - $three: 3
      - $t: new(Till, start => 5)
      - $own:
          - $t.payIn(2, note => x)
          - $t.later(1)
      - $currency: :Till.currency()
      - Return: $own + [$currency, $three.cents(), $three.twice()]
"""
    runtime.add_package(loose_package("p", text))
    with runtime.session() as session:
        assert session.call("p.A", "run") == [[7, "x", "p.Till", "p"], 8, "EUR", 300, 6]


def test_plugins_are_entry_points(monkeypatch):
    """Installed distributions add classes; a name that two of them use is left out."""
    module = types.ModuleType("till_plugin")
    module.Till = Till
    prepared = []
    module.init_plugin = lambda: prepared.append(1)
    monkeypatch.setitem(sys.modules, "till_plugin", module)
    group = "io.murano.extensions"
    point = importlib.metadata.EntryPoint("p.Till", "till_plugin:Till", group)
    doubled = [importlib.metadata.EntryPoint("p.Two", "till_plugin:Till", group)] * 2
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point, *doubled])
    runtime = Runtime()
    text = """
Namespaces: {p: p}
Name: A
Methods:
  currency:
    Usage: Static
    Body: {Return: !yaql "p:Till.currency()"}
"""
    runtime.add_package(loose_package("another", text))
    assert runtime.load_plugins() == ["p.Till"]
    assert prepared == [1]
    with runtime.session() as session:
        assert session.call("p.Till", "currency") == "EUR"
        assert session.call("another.A", "currency") == "EUR"


def test_a_broken_plugin_keeps_no_other_away(monkeypatch):
    """What is wrong is raised with the names of the classes, after the others were added."""
    module = types.ModuleType("till_plugin")
    module.Till = Till
    monkeypatch.setitem(sys.modules, "till_plugin", module)
    group = "io.murano.extensions"
    points = [
        importlib.metadata.EntryPoint(f"p.{name}", f"till_plugin:{name}", group)
        for name in ("Absent", "Till")
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    runtime = Runtime()
    with pytest.raises(ExceptionGroup) as raised:
        runtime.load_plugins()
    (error,) = raised.value.exceptions
    assert error.__notes__ == ["native class p.Absent of till_plugin:Absent"]
    with runtime.session() as session:
        assert session.call("p.Till", "currency") == "EUR"
