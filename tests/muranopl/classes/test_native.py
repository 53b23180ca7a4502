"""Native classes: muranopl.md section 25."""

import asyncio

import pytest

from vetro.muranopl import CallContext, LimitExceeded, MuranoError, MuranoObject, Runtime, native


class Counter:
    """A native class as an embedder writes it."""

    def __init__(self, ctx: CallContext, start: int = 0, step_size: int = 1) -> None:
        self.value = start
        self.step = step_size
        self.this = ctx.this

    def increase_by(self, ctx: CallContext, amount: int = 1, *more: int, **named: int) -> int:
        self.value += amount * self.step + sum(more) + sum(named.values())
        return self.value

    @native(name=["report_error", "reportError"])
    def fail(self, text):
        raise OSError(text)

    def exhaust(self):
        raise MemoryError

    @property
    def enabled(self):
        return True

    @staticmethod
    def largest(ctx: CallContext):
        return [ctx.caller_type.name, 99]

    @classmethod
    def kind(cls):
        return cls.__name__

    async def fetch(self, what):
        await asyncio.sleep(0)
        return {"got": what}

    def mutate(self, items):
        items.append(1)
        items[0]["x"] = 2
        return items

    def give_back(self, obj: MuranoObject):
        return obj

    @native(hidden=True)
    def secret(self):
        return 1

    @staticmethod
    @native(extends="string")
    def shout(text):
        return text.upper() + "!"

    def _private(self):
        return 1


SOURCE = """
Namespaces: {=: t}
Name: Main
Import: Counter
Properties:
  c: {Contract: $.class(Counter), Default: {start: 5}}
Methods:
  run:
    Body:
      - Return: list($.c.increaseBy(), $.c.increaseBy(2), $.c.increaseBy(amount => 3),
          $.c.increaseBy(1, 1, x => 1))
  props:
    Body:
      - Return: list($.c.enabled, :Counter.largest(), $.c.largest(), :Counter.kind(), abc.shout())
  fetched: {Body: {Return: $.c.fetch(it).got}}
  raises: {Body: $.c.reportError(broken)}
  literal: {Body: $.c.report_error(broken)}
  exhausted:
    Body:
      - Try: $.c.exhaust()
        Catch:
          - Do: {Return: caught}
  mutated:
    Body:
      - $x: [{x: 1}]
      - $y: $.c.mutate($x)
      - Return: list($x, $y)
  object:
    Body:
      - Return: $.c.giveBack($) = $
  hidden: {Body: $.c.secret()}
  private: {Body: $.c._private()}
  missing: {Body: $.c.fetch()}
  steps:
    Body:
      - $c: new(Counter, stepSize => 10)
      - Return: $c.increaseBy(2)
"""


@pytest.fixture
def counter(load):
    return load(SOURCE, natives={"t.Counter": Counter})


def test_constructor_and_methods_take_camel_case_names(counter):
    """Positional, named, *args and **kwargs arguments reach Python."""
    session, root = counter
    assert session.call(root, "run") == [6, 8, 11, 14]


def test_properties_statics_and_extensions_are_visible(counter):
    """Python properties, static and class methods and extensions have their MuranoPL form."""
    session, root = counter
    assert session.call(root, "props") == [True, ["t.Main", 99], ["t.Main", 99], "Counter", "ABC!"]


def test_a_coroutine_suspends_only_its_green_thread(counter):
    """An async method is awaited without a loop of the host."""
    session, root = counter
    assert session.call(root, "fetched") == "it"


async def test_a_coroutine_runs_in_the_hosts_loop(counter):
    """call_async drives async methods from the caller's loop."""
    session, root = counter
    assert await session.call_async(root, "fetched") == "it"


@pytest.mark.parametrize("method", ["raises", "literal"])
def test_python_exceptions_keep_their_identity(counter, method):
    """A host meets MuranoError with the Python exception inside."""
    session, root = counter
    with pytest.raises(MuranoError) as caught:
        session.call(root, method)
    assert isinstance(caught.value.native, OSError)
    assert caught.value.names[0] == "OSError"
    assert caught.value.message == "broken"
    assert [frame.method_name for frame in caught.value.stack_trace] == [method]


def test_arguments_are_copies_that_the_method_owns(counter):
    """Python code may change what it is given; the program's value stays."""
    session, root = counter
    assert session.call(root, "mutated") == [[{"x": 1}], [{"x": 2}, 1]]


def test_objects_pass_as_they_are(counter):
    """A MuranoObject goes in and comes out as itself."""
    session, root = counter
    assert session.call(root, "object") is True


@pytest.mark.parametrize("method", ["hidden", "private"])
def test_hidden_members_do_not_exist(counter, method):
    """Underscored and hidden methods are not methods of the class."""
    session, root = counter
    with pytest.raises(MuranoError, match="has no method"):
        session.call(root, method)


def test_wrong_arguments_show_the_signature(counter):
    """A missing argument is named together with what the method takes."""
    session, root = counter
    with pytest.raises(MuranoError, match=r"t.Counter.fetch\(what\) needs what"):
        session.call(root, "missing")


def test_constructor_arguments_of_new(counter):
    """Properties given to `new` reach the Python constructor by name."""
    session, root = counter
    assert session.call(root, "steps") == 20


def test_a_class_may_be_both_yaml_and_native(load):
    """Native methods are added to a YAML class and may use its properties."""

    class Greeter:
        def greet(self, ctx: CallContext):
            return f"hello {ctx.this['who']}"

    session, root = load(
        """
Namespaces: {=: t}
Name: Main
Properties:
  who: {Contract: $.string(), Default: you}
Methods:
  run:
    Body:
      - Return: list($.greet(), $.own())
  own: {Body: {Return: own}}
""",
        natives={"t.Main": Greeter},
    )
    assert session.call(root, "run") == ["hello you", "own"]
    assert isinstance(root.native(), Greeter)


def test_exceptions_are_caught_by_the_names_they_list(load):
    """`murano_names` gives older names to a Python exception class."""

    class Lost(Exception):
        murano_names = ("murano.common.exceptions.TimeoutException",)

    class Agent:
        def call(self):
            raise Lost("no answer")

    session, root = load(
        """
Namespaces: {=: t, exc: murano.common.exceptions}
Name: Main
Methods:
  run:
    Body:
      - Try: new(Agent).call()
        Catch:
          With: exc:TimeoutException
          As: e
          Do: {Return: $e.message}
""",
        natives={"t.Agent": Agent},
    )
    assert session.call(root, "run") == "no answer"


def test_native_code_calls_methods_and_reads_and_writes_properties(load):
    """The host face of an object: get, set, call, find_owner."""

    class Probe:
        def look(self, ctx: CallContext, obj: MuranoObject):
            obj.set("n", "7")
            made = ctx.session.new("t.Main", obj, n=1)
            return [
                obj["n"],
                obj.get("nothing", "default"),
                obj.call("twice"),
                made.find_owner("t.Main") is obj,
                obj.is_a("io.murano.Object"),
            ]

    session, root = load(
        """
Namespaces: {=: t}
Name: Main
Properties:
  n: {Contract: $.int()}
Methods:
  twice: {Body: {Return: $.n * 2}}
  run: {Body: {Return: new(Probe).look($)}}
""",
        natives={"t.Probe": Probe},
    )
    assert session.call(root, "run") == [7, "default", 14, True, True]


def test_host_functions_of_a_package_are_only_seen_there(package):
    """`add_function(packages=…)` hides a function from other packages."""
    runtime = Runtime()
    runtime.add_function("config", lambda key: key * 2, packages=["a"])
    text = """
Name: {0}.Main
Methods:
  run:
    Usage: Static
    Body:
      - Return: config(x)
"""
    runtime.add_package(package("a", text.replace("{0}", "a")))
    runtime.add_package(package("b", text.replace("{0}", "b")))
    session = runtime.session()
    assert session.call("a.Main", "run") == "xx"
    with pytest.raises(MuranoError, match="Unknown function"):
        session.call("b.Main", "run")


def test_memory_that_runs_out_ends_the_program(counter):
    """No handler catches it, and the host is told which limit it was."""
    session, root = counter
    with pytest.raises(LimitExceeded, match="there is not enough memory") as caught:
        session.call(root, "exhausted")
    assert caught.value.limit == "memory"
