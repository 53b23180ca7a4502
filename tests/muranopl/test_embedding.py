"""The embedding face: one test for each thing a host can do (`docs/language/embedding.md`)."""

import asyncio
import importlib.metadata
import sys
import types
from datetime import UTC, datetime
from typing import Any

import pytest

import vetro.muranopl
from vetro.muranopl import (
    CallContext,
    Cancelled,
    ContractViolationException,
    DirectEffects,
    DirectoryPackage,
    DslSyntaxError,
    LimitExceeded,
    Limits,
    MuranoError,
    NoClassFound,
    NoMethodFound,
    NoObjectFoundError,
    Runtime,
    Steps,
    describe_class,
    loose_package,
    meta,
    native,
)
from vetro.packages import build_archive, open_package

SHOP = """
Namespaces: {=: shop, std: io.murano}
Name: Shop
Properties:
  name: {Contract: $.string().notNull()}
  price: {Contract: $.int().notNull(), Default: 3}
  stock: {Contract: {$.string(): $.int()}, Usage: InOut, Default: {apple: 2}}
  branch: {Contract: $.class(Shop)}
  count: {Contract: $.int(), Usage: Static, Default: 7}
Methods:
  cost:
    Arguments:
      - amount: {Contract: $.int().notNull()}
      - discount: {Contract: $.int(), Default: 0}
    Body:
      Return: $.price * $amount - $discount
  open:
    Usage: Static
    Arguments:
      - name: {Contract: $.string().notNull()}
    Body:
      Return: new(Shop, name => $name)
  rename:
    Body:
      - $.secret: hidden
      - $.stock.pear: 1
  fail:
    Body:
      - Try:
          - $.inner()
        Catch:
          As: e
          Do:
            - Throw: [Broken, ':WorseBroken']
              Message: it is broken
              Extra: {code: 5}
              Cause: $e
  inner:
    Body:
      - Throw: Inner
        Message: the reason
"""


@pytest.fixture
def runtime():
    made = Runtime()
    made.add_package(loose_package("shop", SHOP))
    return made


@pytest.fixture
def session(runtime):
    with runtime.session(effects=DirectEffects(seed=1)) as made:
        yield made


@pytest.fixture
def root(session):
    return session.load(
        {
            "Objects": {
                "?": {"type": "shop.Shop", "id": "a"},
                "name": "one",
                "branch": {"?": {"type": "shop.Shop", "id": "b"}, "name": "two", "price": 9},
            }
        }
    )


# -- packages ------------------------------------------------------------------------------------


def test_directories_archives_and_loose_texts_are_packages(tmp_path):
    """The same class from a folder, a zip and a text gives the same result."""
    folder = tmp_path / "p"
    (folder / "Classes").mkdir(parents=True)
    (folder / "manifest.yaml").write_text(
        "Format: '1.4'\nType: Library\nFullName: p\nClasses: {p.A: A.yaml}\n"
    )
    text = "Name: p.A\nMethods: {run: {Usage: Static, Body: {Return: 5}}}\n"
    (folder / "Classes/A.yaml").write_text(text)
    build_archive(folder, tmp_path / "p.zip")
    sources = [
        DirectoryPackage(folder),
        open_package(folder),
        open_package(tmp_path / "p.zip"),
        open_package((tmp_path / "p.zip").read_bytes()),
        loose_package("p", text),
    ]
    for source in sources:
        runtime = Runtime()
        runtime.add_package(source)
        with runtime.session() as session:
            assert session.call("p.A", "run") == 5


def test_loose_texts_find_their_class_names():
    """Bare names belong to the package, dotted and namespaced ones are taken as they are."""
    package = loose_package(
        "p",
        "Name: A\n---\nName: q.B\n",
        "Namespaces: {=: r}\nName: C\n---\nName: D\n",
        version="2.1",
        format="1.2",
        requirements={"x": None},
        resources={"a.txt": b"1"},
    )
    assert sorted(package.classes) == ["p.A", "q.B", "r.C", "r.D"]
    assert (package.version, package.format, package.requirements) == ("2.1", "1.2", {"x": None})
    assert package.read_resource("a.txt") == b"1"
    with pytest.raises(DslSyntaxError, match="needs a Name") as caught:
        loose_package("p", "Name: A\n", "Methods: {}\n")
    assert caught.value.position.file == "text 2"


def test_a_package_in_an_older_format_has_the_older_expressions():
    """The format of a package decides on the flavour of its code."""
    body = 'Methods:\n  run:\n    Usage: Static\n    Body: {Return: "toUpper(a)"}\n'.replace(
        '"', ""
    )
    for format_, works in (("1.0", True), ("1.4", False)):
        runtime = Runtime()
        runtime.add_package(loose_package("p", "Name: A\n" + body, format=format_))
        with runtime.session() as session:
            if works:
                assert session.call("p.A", "run") == "A"
            else:
                with pytest.raises(MuranoError, match="toUpper"):
                    session.call("p.A", "run")


# -- host functions and classes ------------------------------------------------------------------


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
        with pytest.raises(NoClassFound, match="p.Curious is no ancestor of p.Special"):
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
    runtime.add_package(loose_package("p", "Name: A\n"))
    assert runtime.load_plugins() == ["p.Till"]
    assert prepared == [1]
    with runtime.session() as session:
        assert session.call("p.Till", "currency") == "EUR"


# -- sessions ------------------------------------------------------------------------------------


def test_settings_of_a_session():
    """Limits, class configs, effects and secrets are the host's to give."""
    text = """
Namespaces: {=: p}
Name: A
Properties:
  size: {Contract: $.int(), Usage: Config, Default: 1}
Methods:
  run:
    Body:
      Return: [$.size, decryptData(ref), str(now())]
  forever:
    Body:
      - While: 1 = 1
        Do: {$x: 1}
"""
    runtime = Runtime(class_configs={"p.A": {"size": 12}})
    runtime.add_package(loose_package("p", text))
    with runtime.session(
        limits=Limits(steps=10_000),
        effects=DirectEffects(seed=3, start=datetime(2030, 1, 2, tzinfo=UTC)),
        secrets=lambda reference: f"secret of {reference}",
    ) as session:
        root = session.load({"Objects": {"?": {"type": "p.A", "id": "a"}}})
        size, secret, moment = session.call(root, "run")
        assert (size, secret) == (12, "secret of ref")
        assert "2030" in moment
        with pytest.raises(LimitExceeded, match="10000 steps"):
            session.call(root, "forever")
        assert session.call(root, "run")[0] == 12, "a session goes on after a limit"


def test_models_objects_and_properties(session, root):
    """Load, find, read as plain data, write by the contract, dump."""
    assert session.root is root
    branch = session.find("b")
    assert branch is root["branch"]
    assert branch.owner is root
    assert session.find("none") is None
    assert sorted(item.id for item in session.objects()) == ["a", "b"]
    assert (branch["price"], root.get("stock"), root.get("nothing", 5)) == (9, {"apple": 2}, 5)
    root.set("price", "12")
    assert root["price"] == 12
    with pytest.raises(ContractViolationException, match="price"):
        root.set("price", None)
    dumped = session.dump()["Objects"]
    assert dumped["price"] == 12
    assert dumped["branch"]["?"]["id"] == "b"


def test_calls_with_positional_and_named_arguments(session, root):
    """Instance methods of objects, static ones of types and of class names."""
    assert session.call(root, "cost", 4) == 12
    assert session.call(root, "cost", 4, discount=2) == 10
    assert session.call(root, "cost", amount=1) == 3
    opened = session.call("shop.Shop", "open", name="three")
    assert opened["name"] == "three"
    assert session.call(session.runtime.type("shop.Shop"), "open", "four")["name"] == "four"
    assert session.to_plain(opened)["name"] == "three"
    with pytest.raises(NoMethodFound, match="did you mean cost"):
        session.call(root, "costs", 1)


def test_everything_works_in_a_running_event_loop(runtime):
    """The async forms wait without blocking the host's loop."""

    async def host():
        async with runtime.session() as session:
            loaded = await session.load_async(
                {"Objects": {"?": {"type": "shop.Shop", "id": "a"}, "name": "x"}}
            )
            return await session.call_async(loaded, "cost", 2)

    assert asyncio.run(host()) == 6


def test_schemas(runtime):
    """A class's JSON schema, ready for a form."""
    schema = runtime.schema("shop.Shop")[""]
    assert schema["properties"]["price"] == {"type": "integer", "default": 3}
    assert schema["properties"]["name"] == {"type": "string"}


# -- expressions and statements ------------------------------------------------------------------


def test_an_expression_in_the_context_of_an_object(session, root):
    """`$` is the object, its methods, private properties and namespaces are at hand."""
    assert session.evaluate("$.cost(2) + $extra", root, extra=10) == 16
    assert session.evaluate("$.branch.price + $this.price", root) == 12
    session.call(root, "rename")
    assert session.evaluate("$.secret", root) == "hidden"
    assert session.evaluate("new(Shop, name => x) is :Shop", root) is True
    assert session.evaluate("$.count", session.runtime.type("shop.Shop")) == 7
    assert session.evaluate("[1, $x].select($ * 2)", x=4) == [2, 8]
    assert session.evaluate("$") is None


def test_the_same_expression_is_compiled_once(session, root):
    """Asking again costs an evaluation only."""
    from vetro.muranopl import evaluating

    session.evaluate("$.price + $x", root, x=1)
    table = evaluating._compiled[root.type]
    before = dict(table)
    assert session.evaluate("$.price + $x", root, x=5) == 8
    assert dict(table) == before


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("1 +", DslSyntaxError, "not an expression"),
        ("$.nothing()", MuranoError, "no method 'nothing'"),
        ("$.price / 0", MuranoError, "zero"),
    ],
)
def test_an_expression_that_fails_is_a_murano_error(session, root, text, kind, message):
    """Syntax and run-time failures reach the host as its one exception type."""
    with pytest.raises(kind, match=message) as caught:
        session.evaluate(text, root)
    error = caught.value
    place = error.position or error.stack_trace[-1].position
    assert place.file == "<input>"


def test_names_of_variables_are_words(session):
    """A host cannot slip code in by the name of a variable."""
    for name in ("a b", "x=1", "", "this"):
        with pytest.raises(MuranoError, match="not the name of a variable"):
            session.evaluate("1", **{name: 1})


def test_statements_keep_their_variables(session, root):
    """A block runs as a method's body would; what it assigns is there for the next one."""
    variables = {"n": 3}
    assert (
        session.execute(
            "- $total: 0\n- For: i\n  In: range($n)\n  Do:\n    $total: $total + $i",
            root,
            variables,
        )
        is None
    )
    assert variables["total"] == 3
    assert session.execute("$total + $.price", root, variables) == 6
    assert session.execute("- $.stock.kiwi: 9\n- Return: $.stock", root, variables)["kiwi"] == 9
    assert session.execute("", root) is None
    with pytest.raises(DslSyntaxError, match="did you mean If"):
        session.execute("Iff: 1", root)
    with pytest.raises(MuranoError, match="boom"):
        session.execute("- $kept: 1\n- Throw: Bad\n  Message: boom", root, variables)
    assert variables["kept"] == 1


# -- failures ------------------------------------------------------------------------------------


def test_a_failure_carries_all_a_host_may_ask(session, root):
    """Names, message, extra, cause, MuranoPL stack trace, and that the program threw it."""
    with pytest.raises(MuranoError) as caught:
        session.call(root, "fail")
    error = caught.value
    assert error.names == ("shop.Broken", "shop.WorseBroken")
    assert error.message == "it is broken"
    assert error.extra == {"code": 5}
    assert error.from_program is True
    assert isinstance(error.cause, MuranoError)
    assert error.cause.names == ("shop.Inner",)
    assert [frame.method_name for frame in error.stack_trace] == ["fail"]
    assert "Caused by shop.Inner: the reason" in error.format()


def test_host_exceptions_keep_their_identity():
    """An exception of a native method is found again, and a program can catch it by its names."""

    class NotReady(Exception):
        murano_names = ("p.NotReady",)

    thrown = NotReady("not yet")

    class Machine:
        def start(self):
            raise thrown

    text = """
Namespaces: {=: p}
Name: A
Methods:
  through:
    Body: new(Machine).start()
  caught:
    Body:
      - Try: new(Machine).start()
        Catch:
          With: NotReady
          As: e
          Do: {Return: $e.message}
"""
    runtime = Runtime()
    runtime.add_native_class("p.Machine", Machine, package="p")
    runtime.add_package(loose_package("p", text))
    with runtime.session() as session:
        root = session.load({"Objects": {"?": {"type": "p.A", "id": "a"}}})
        with pytest.raises(MuranoError) as caught:
            session.call(root, "through")
        assert caught.value.native is thrown
        assert caught.value.from_program is False
        assert caught.value.names[0] == "p.NotReady"
        assert session.call(root, "caught") == "not yet"


# -- stepping ------------------------------------------------------------------------------------

PARALLEL = """
Namespaces: {=: p}
Name: A
Properties:
  log: {Contract: [], Usage: InOut, Default: []}
Methods:
  run:
    Body:
      - Parallel:
          - Do:
              - $.log: $.log.append(a1)
              - sleep(5)
              - $.log: $.log.append(a2)
          - Do:
              - $.log: $.log.append(b1)
              - sleep(3)
              - $.log: $.log.append(b2)
      - Return: done
  guarded:
    Body:
      - Try:
          - sleep(100)
        Finally:
          - $.log: $.log.append(cleaned)
"""


@pytest.fixture
def stepped():
    runtime = Runtime()
    runtime.add_package(loose_package("p", PARALLEL))
    session = runtime.session(effects=DirectEffects(seed=1, start=datetime(2030, 1, 1, tzinfo=UTC)))
    return session, session.load({"Objects": {"?": {"type": "p.A", "id": "a"}}})


def test_a_host_steps_through_a_call(stepped):
    """Every slice runs one thread until it waits; objects can be looked at in between."""
    session, root = stepped
    steps = Steps(session, root, "run")
    seen = [root["log"]]
    while steps.step():
        if root["log"] != seen[-1]:
            seen.append(root["log"])
    assert seen == [[], ["a1"], ["a1", "b1"], ["a1", "b1", "b2"], ["a1", "b1", "b2", "a2"]]
    assert steps.done
    assert steps.result() == "done"
    assert session.call(root, "run") == "done", "an ordinary call goes on as before"


def test_a_host_stops_where_it_likes(stepped):
    """Between two slices the host sees what each thread waits for, and goes on later."""
    session, root = stepped
    steps = Steps(session, root, "run")
    assert steps.run_until(lambda: "b1" in root["log"]) is True
    texts = sorted(steps.waiting().values())
    assert texts[-1] == "the time 2030-01-01T00:00:05+00:00"
    assert steps.run_until(lambda: False) is False
    assert steps.result() == "done"


def test_closing_a_stepped_call_runs_its_clean_up(stepped):
    """Giving up in the middle cancels the program; its Finally blocks run."""
    session, root = stepped
    steps = Steps(session, root, "guarded")
    steps.step()
    steps.close()
    assert root["log"] == ["cleaned"]
    again = Steps(session, root, "guarded")
    again.step()
    session.cancel("the host says so")
    with pytest.raises(Cancelled, match="the host says so"):
        again.result()


def test_steps_bring_what_comes_from_outside():
    """A native method that awaits is resumed by a step of its own."""

    class Remote:
        async def fetch(self, value):
            await asyncio.sleep(0)
            return value + 1

    runtime = Runtime()
    runtime.add_native_class("p.Remote", Remote, package="p")
    text = "Namespaces: {=: p}\nName: A\nMethods: {run: {Body: {Return: new(Remote).fetch(1)}}}\n"
    runtime.add_package(loose_package("p", text))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"type": "p.A", "id": "a"}}})
    steps = Steps(session, root, "run")
    assert steps.step() is True
    assert list(steps.waiting().values()) == ["an effect"]
    assert steps.result() == 2


def test_a_stepped_call_fails_as_any_other(session, root):
    """What the program throws comes from `result`."""
    steps = Steps(session, root, "fail")
    with pytest.raises(MuranoError, match="it is broken"):
        steps.result()
    assert session.call(root, "cost", 1) == 3


# -- the rest ------------------------------------------------------------------------------------


def test_a_class_is_described(runtime):
    """Members with contracts and defaults as written, signatures, comments and metadata."""
    text = """
Namespaces: {=: q, m: io.murano.metadata}
# Sells things.
# All of them.
Name: Stall
Extends: 'shop.Shop'
Meta:
  - m:Title: {text: A stall}
Properties:
  # What it sells.
  goods: {Contract: [$.string().notNull()], Default: [apple, 'a, b']}
  flags: {Contract: {$.string(): $.bool()}, Usage: Out}
Methods:
  # Sells one.
  sell:
    Scope: Public
    Meta: {m:Description: {text: Sells something}}
    Arguments:
      - item: {Contract: $.string().notNull()}
      - count: {Contract: $.int(), Default: 1}
      - rest: {Contract: $, Usage: VarArgs}
      - more: {Contract: $, Usage: KwArgs}
"""
    runtime.add_package(loose_package("q", text, requirements={"shop": None}))
    found = describe_class(runtime.type("q.Stall"))
    assert (found.name, found.package, found.extends) == ("q.Stall", "q", ("shop.Shop",))
    assert found.texts.title == "A stall"
    goods, flags = found.properties
    assert (goods.contract, goods.default) == ("[$.string().notNull()]", '[apple, "a, b"]')
    assert goods.texts.text == "What it sells."
    assert (flags.contract, flags.usage) == ("{$.string(): $.bool()}", "Out")
    (sell,) = found.methods
    assert sell.signature == "sell(item, count => 1, *rest, **more)"
    assert sell.is_action
    assert sell.texts.text == "Sells something"
    assert sell.texts.comment == "Sells one."
    assert "shop.Shop.price" in found.inherited_properties
    assert "shop.Shop.cost" in found.inherited_methods
    assert found.as_json()["properties"][0]["name"] == "goods"
    assert [m.name for m in describe_class(runtime.type("shop.Shop")).methods][:2] == [
        "cost",
        "open",
    ]


def test_every_published_name_is_there():
    """What `__all__` promises can be imported; anything else is an ordinary AttributeError."""
    for name in vetro.muranopl.__all__:
        assert getattr(vetro.muranopl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = vetro.muranopl.nonsense


def test_test_classes_run_through_the_face():
    """Embedding programs run test classes as `vetro test` does."""
    runtime = Runtime()
    vetro.muranopl.enable_testing(runtime)
    text = (
        "Namespaces: {=: p, t: io.murano.test}\nName: ATest\nExtends: t:TestFixture\n"
        "Methods:\n  testIt:\n    Body: $.assertEqual(1, 1)\n"
    )
    package = runtime.add_package(loose_package("p", text))
    tests = vetro.muranopl.discover_tests(runtime, package)
    assert [r.outcome for r in vetro.muranopl.run_tests(runtime, tests)] == ["passed"]
