"""Templates in saved models: they look like objects and are none (muranopl.md sections 7, 13)."""

import copy

from vetro.muranopl import DirectEffects, MemoryPackage, Runtime

LIBRARY = """
Namespaces: {=: lib, std: io.murano}
Name: Maker
Properties:
  one:
    Contract: $.template(std:Object, excludeProperties => [name])
  many:
    Contract:
      - $.template(std:Object, excludeProperties => [name])
  named:
    Contract:
      main: $.template(std:Object, excludeProperties => [name])
      $.string(): $.class(std:Object)
  plain:
    Contract: []
"""
APP = """
Namespaces: {=: t, std: io.murano, lib: lib}
Name: Main
Properties:
  maker: {Contract: $.class(lib:Maker)}
Methods:
  count: {Scope: Public, Body: []}
---
Name: Thing
Properties:
  name: {Contract: $.string().notNull()}
Methods:
  .init:
    Body:
      - trace('made')
  .destroy:
    Body:
      - trace('destroyed ' + $.name)
"""


def thing(id_, **properties):
    return {"?": {"type": "t.Thing", "id": id_}, **properties}


async def run(model):
    """One task on the model: its reply, and what things did."""
    trace = []
    runtime = Runtime()
    runtime.add_function("trace", trace.append)
    runtime.add_package(MemoryPackage("lib", {"a": LIBRARY}, {"lib.Maker": "a"}, format="1.4"))
    classes = {"t.Main": "a", "t.Thing": "a"}
    needed = {"lib": None}
    runtime.add_package(MemoryPackage("t", {"a": APP}, classes, format="1.4", requirements=needed))
    session = runtime.session(effects=DirectEffects(seed=1))
    task = {"action": {"object_id": "a", "method": "count", "args": {}}, "model": model}
    reply = await session.run_task_async(task)
    assert not reply.is_exception, reply.details
    return reply, trace


async def test_a_template_that_was_saved_is_not_made_into_an_object():
    """Neither by the next deployment nor by the one after the property was emptied."""
    maker = {
        "?": {"type": "lib.Maker", "id": "m"},
        "one": thing("x1"),
        "many": [thing("x2"), thing("x3")],
        "named": {"main": thing("x4"), "other": thing("x5", name="real")},
    }
    root = {"?": {"type": "t.Main", "id": "a"}, "maker": maker}
    reply, trace = await run({"Objects": root, "ObjectsCopy": None})
    assert trace == ["made"]
    saved = reply.model
    assert saved["Objects"]["maker"]["one"]["?"]["id"] == "x1"

    _, trace = await run(copy.deepcopy(saved))
    assert trace == ["made"]

    emptied = copy.deepcopy(saved)
    emptied["Objects"]["maker"] |= {"one": None, "many": [], "named": {}}
    _, trace = await run(emptied)
    assert trace == ["made", "destroyed real"]


async def test_a_template_names_its_class_as_other_objects_of_the_model_do():
    """The package that declares the property does not require the package of the class."""
    root = {"?": {"type": "t.Main", "id": "a"}, "maker": {
        "?": {"type": "lib.Maker", "id": "m"}, "one": thing("x1")},
    }  # fmt: skip
    reply, _ = await run({"Objects": root, "ObjectsCopy": None})
    assert reply.model["Objects"]["maker"]["one"]["?"]["type"] == "t.Thing/0.0.0@t"


async def test_what_looks_like_an_object_in_plain_data_was_one():
    """An object that a property without a class held is still removed with it."""
    maker = {"?": {"type": "lib.Maker", "id": "m"}}
    root = {"?": {"type": "t.Main", "id": "a"}, "maker": maker}
    copied = {**root, "maker": {**maker, "plain": [thing("p", name="kept")]}}
    _, trace = await run({"Objects": root, "ObjectsCopy": copied})
    assert trace == ["made", "destroyed kept"]
