"""The embedding face: one test for each thing a host can do (`docs/language/embedding.md`)."""

import asyncio
from datetime import UTC, datetime

import pytest

import vetro.muranopl
from vetro.muranopl import (
    ContractViolationException,
    DirectEffects,
    DirectoryPackage,
    DslSyntaxError,
    LimitExceeded,
    Limits,
    MuranoError,
    NoMethodFound,
    Runtime,
    describe_class,
    loose_package,
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
    from vetro.muranopl.host import evaluating

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


def test_a_session_whose_model_could_not_be_loaded_is_closed(package):
    """References that were open at the failure are no part of it, and what failed is what is said."""
    runtime = Runtime()
    properties = "  other: {Contract: $.class(Main)}\n  more: {Contract: $.class(Main)}\n"
    runtime.add_package(package("t", f"Name: Main\nProperties:\n{properties}"))
    session = runtime.session(effects=DirectEffects(seed=1))
    model = {"?": {"type": "t.Main", "id": "root"}, "other": "gone", "more": "gone"}
    with pytest.raises(MuranoError, match='Object "gone" is not found'), session:
        session.load({"Objects": model})
