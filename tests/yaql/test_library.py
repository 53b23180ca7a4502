"""Registration of functions, methods and operators, and how one is chosen."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from vetro.yaql import (
    STANDARD,
    AmbiguousFunctionException,
    Evaluation,
    InvalidMethodException,
    Lambda,
    Lambda2,
    LambdaAny,
    Library,
    NoFunctionRegisteredException,
    NoMatchingFunctionException,
    NoMatchingMethodException,
    Thunk,
    compile,
    function_site,
    method_site,
    standard_library,
)
from vetro.yaql.grammar import COMPARISON, PRODUCT, SIGN, SUM
from vetro.yaql.standard import AREAS, areas_by_name, define


@pytest.fixture
def library() -> Library:
    """A layer of one's own in front of the standard library."""
    return standard_library().child()


def test_index_is_what_the_areas_define() -> None:
    """The list of names says exactly what each module of the standard library registers."""
    for area, names in AREAS.items():
        module = __import__(f"vetro.yaql.standard.{area}", fromlist=["registry"])
        assert {item.name for item in module.registry.definitions} == set(names.split())


@pytest.mark.parametrize("flavour", ["current", "legacy"])
def test_every_definition_can_be_read(flavour: str) -> None:
    """Each signature of the standard library is sound, alone and beside its overloads."""
    library = standard_library(flavour)
    for name, areas in areas_by_name().items():
        expected = sum(True for area in areas for _ in define(area, name, flavour))
        found = {
            id(overload)
            for method in (False, True)
            for layer in library.layers(name, method)
            for overload in layer
        }
        assert len(found) == expected


def test_standard_libraries_are_shared() -> None:
    """All threads get one object, complete in every name."""
    found: list[tuple[Library, int]] = []

    def look() -> None:
        library = standard_library()
        found.append((library, len(library.layers("replace", True)[0])))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(library) for library, _ in found}) == 1
    assert {count for _, count in found} == {6}


def test_unknown_flavour() -> None:
    """There are two flavours."""
    with pytest.raises(ValueError, match="current and legacy"):
        standard_library("future")


def test_function_and_method(library: Library) -> None:
    """A decorated function is called by its name in camelCase, in its own form only."""

    @library.function
    def full_name(first: str, last_name: str = "?") -> str:
        return f"{first} {last_name}"

    @library.method
    def initials(text: str) -> str:
        return "".join(word[0] for word in text.split())

    def value(text: str) -> Any:
        return compile(text, library=library).evaluate()

    assert value("fullName(Ada, Lovelace)") == "Ada Lovelace"
    assert value("fullName(Ada, lastName => L)") == "Ada L"
    assert value("fullName(lastName => L, first => A)") == "A L"
    assert value("fullName(Ada).initials()") == "A?"
    with pytest.raises(NoFunctionRegisteredException, match="is a method"):
        value("initials(a)")
    with pytest.raises(NoMatchingFunctionException, match="lastName is integer 5"):
        value("fullName(Ada, 5)")
    with pytest.raises(NoMatchingFunctionException, match="first is missing"):
        value("fullName(lastName => x)")


def test_both_forms(library: Library) -> None:
    """A function may be registered in both forms under a name of its own."""

    def doubled(value: int) -> int:
        return value * 2

    library.register(doubled, "dbl", function=True, method=True)
    assert compile("dbl(2) + 3.dbl()", library=library).evaluate() == 10


def test_lazy_parameters(library: Library) -> None:
    """Parameters that take expressions get callables of one, two, any number or no values."""

    @library.function
    def one(step: Lambda) -> Any:
        return step(5)

    @library.function
    def two(step: Lambda2) -> Any:
        return step(5, 6)

    @library.function
    def many(step: LambdaAny) -> Any:
        return step(1, 2, 3, name="n")

    @library.function
    def none(step: Thunk) -> Any:
        return [step(), step()]

    def value(text: str) -> Any:
        return compile(text, library=library).evaluate(100, {"v": 7})

    assert value("one($ + $v)") == 12
    assert value("two($1 - $2)") == -1
    assert value("many([$, $2, $3, $4, $name])") == [1, 2, 3, None, "n"]
    assert value("none($ + 1)") == [101, 101]
    assert value("one(two($1 + $2) + $)") == 16


def test_lazy_and_eager_overloads_disagree(library: Library) -> None:
    """Overloads of one name must agree on which arguments are evaluated."""

    def eager(value: int) -> int:
        return value

    def lazy(value: Lambda) -> Any:
        return value(1)

    library.register(eager, "f")
    with pytest.raises(InvalidMethodException, match="lazy"):
        library.register(lazy, "f")


def test_overloads_by_type(library: Library) -> None:
    """The argument's kind chooses; the more specific parameter wins."""

    def of_integer(value: int) -> str:
        return "integer"

    def of_number(value: float) -> str:
        return "number"

    def of_text(value: str) -> str:
        return "text"

    def of_anything(value: Any) -> str:
        return "anything"

    for implementation in (of_anything, of_number, of_integer, of_text):
        library.register(implementation, "sort_of")
    expression = compile("[1, 1.5, a, null, [1], true].select(sort_of($))", library=library)
    assert expression.evaluate() == ["integer", "number", "text", *["anything"] * 3]


def test_ambiguous_overloads(library: Library) -> None:
    """Two overloads that fit equally well are an error that names both."""

    def first(left: int, right: Any) -> int:
        return 1

    def second(left: Any, right: int) -> int:
        return 2

    library.register(first, "f")
    library.register(second, "f")
    assert compile("f(1, a)", library=library).evaluate() == 1
    with pytest.raises(AmbiguousFunctionException, match=r"f\(left: integer, right: any\)"):
        compile("f(1, 1)", library=library).evaluate()


def test_inner_layer_first(library: Library) -> None:
    """A layer in front is asked first; what it does not match falls through."""

    def shout(value: str) -> str:
        return value.upper() + "!"

    library.register(shout, "toUpper", function=False, method=True)
    assert compile("a.toUpper()", library=library).evaluate() == "A!"
    assert compile("a.toUpper()").evaluate() == "A"

    def length(value: int) -> int:
        return -1

    library.register(length, "len")
    assert compile("[len(5), len(abc)]", library=library).evaluate() == [-1, 3]


def test_exclusive_hides_the_rest(library: Library) -> None:
    """An exclusive registration is the only one for its name."""

    def length(value: int) -> int:
        return -1

    library.register(length, "len", exclusive=True)
    assert compile("len(5)", library=library).evaluate() == -1
    with pytest.raises(NoMatchingFunctionException):
        compile("len(abc)", library=library).evaluate()


def test_unions_defaults_and_rest(library: Library) -> None:
    """`X | None`, `X | Y`, defaults, `*args`, keyword-only and `**kwargs` are understood."""

    @library.function
    def either(value: int | str | None) -> str:
        return repr(value)

    @library.function
    def gather(first: int, *rest: int, scale: int = 1, **named: Any) -> Any:
        return [first, list(rest), scale, named]

    def value(text: str) -> Any:
        return compile(text, library=library).evaluate()

    assert value("[either(1), either(a), either(null)]") == ["1", "'a'", "None"]
    with pytest.raises(NoMatchingFunctionException):
        value("either(1.5)")
    assert value("gather(1)") == [1, [], 1, {}]
    assert value("gather(1, 2, 3, scale => 5, x => y)") == [1, [2, 3], 5, {"x": "y"}]
    with pytest.raises(NoMatchingFunctionException, match="rest is string"):
        value("gather(1, a)")
    with pytest.raises(NoMatchingFunctionException, match="given twice"):
        value("gather(1, first => 2)")


def test_omitted_arguments(library: Library) -> None:
    """An argument left out before a comma takes its default, and fails where there is none."""

    @library.function
    def three(first: int, second: int = 20, third: int = 30) -> list[int]:
        return [first, second, third]

    assert compile("three(1,,3)", library=library).evaluate() == [1, 20, 3]
    with pytest.raises(NoMatchingFunctionException, match="first is missing"):
        compile("three(,2)", library=library).evaluate()


def test_evaluation_is_injected(library: Library) -> None:
    """A first parameter of type Evaluation is not a parameter for programs."""

    @library.function
    def budget(rt: Evaluation, factor: int) -> int:
        rt.charge(1)
        return rt.max_items * factor

    assert compile("budget(2)", library=library).evaluate() == 2_000_000


@dataclass(frozen=True)
class Money:
    """A host class."""

    cents: int


@dataclass(frozen=True)
class Coin(Money):
    """A more special one."""


def test_operators_on_host_classes(library: Library) -> None:
    """Operators get a meaning for host classes, the base classes' included, and keep their own."""

    def add(left: Money, right: Money) -> Money:
        return Money(left.cents + right.cents)

    def scale(left: Money, right: int) -> Money:
        return Money(left.cents * right)

    def less(left: Money, right: Money) -> bool:
        return left.cents < right.cents

    def negate(value: Money) -> Money:
        return Money(-value.cents)

    def has(left: int, right: Money) -> bool:
        return left == right.cents

    library.operator("+", add)
    library.operator("*", scale)
    library.operator("<", less)
    library.operator("-", negate, unary=True)
    library.operator("in", has)
    library.expose(Money, ["cents"])

    def value(text: str) -> Any:
        return compile(text, library=library).evaluate({"a": Money(5), "b": Coin(7)})

    assert value("($.a + $.b).cents") == 12
    assert value("($.b * 2 + $.a).cents") == 19
    assert value("$.a < $.b and not $.b < $.a")
    assert value("(-$.a).cents") == -5
    assert value("7 in $.b and 1 in [1]")
    assert value("1 + 2 * 3 - -1") == 8
    with pytest.raises(NoMatchingFunctionException, match=r"\+\(left: Money, right: Money\)"):
        value("$.a + 1")


def test_special_class_is_more_specific(library: Library) -> None:
    """An overload for a derived class wins over that for its base."""

    def of_money(value: Money) -> str:
        return "money"

    def of_coin(value: Coin) -> str:
        return "coin"

    library.register(of_money, "kind")
    library.register(of_coin, "kind")
    expression = compile("$.select(kind($))", library=library)
    assert expression.evaluate([Money(1), Coin(1)]) == ["money", "coin"]


def test_standard_operators_can_be_replaced(library: Library) -> None:
    """A host's meaning for plain kinds goes before the built-in one, with nothing inlined."""

    def add(left: int, right: int) -> int:
        return left * 100 + right

    def indexed(target: str, position: int) -> str:
        return target[position]

    def either(left: bool, right: bool) -> str:
        return "either"

    library.operator("+", add)
    library.register(indexed, "#indexer")
    library.operator("or", either)
    assert compile("1 + 2 + 3", library=library).evaluate() == 10203
    assert compile("abc[1]", library=library).evaluate() == "b"
    assert compile("true or false", library=library).evaluate() == "either"


def test_named_constructs_can_be_replaced(library: Library) -> None:
    """Literals, variables, equality, properties and the result go through names of their own."""

    def equal(left: str, right: str) -> bool:
        return left.lower() == right.lower()

    def listed(*items: Any) -> Any:
        return [*items, "end"]

    def mapped(made: dict[str, Any]) -> Any:
        return {**made, "extra": 1}

    def finished(value: Any) -> Any:
        return [value]

    def read(name: str) -> Any:
        return f"<{name}>"

    def shout(value: str) -> str:
        return value.upper()

    for implementation, name in (
        (equal, "*equal"),
        (listed, "#list"),
        (mapped, "#map"),
        (finished, "#finalize"),
        (read, "#get_context_data"),
        (shout, "#property#shout"),
    ):
        library.register(implementation, name)

    def value(text: str) -> Any:
        return compile(text, library=library).evaluate(5)

    assert value("A = a") == [True]
    assert value("1 = 1 and not 1 = 2") == [True]
    assert value("[1]") == [[1, "end"]]
    assert value("{a => 2}") == [{"a": 2, "extra": 1}]
    assert value("$ + $x") == ["<$><$x>"]
    assert value("let(x => 1) -> $x") == [1]
    assert value("abc.shout") == ["ABC"]


def test_new_operators(library: Library) -> None:
    """New operators of punctuation or one word, with their levels and associativity."""

    def pair(left: Any, right: Any) -> list[Any]:
        return [left, right]

    def factorial(value: int) -> int:
        return 1 if value < 2 else value * factorial(value - 1)

    library.operator("<+>", pair)
    library.operator("^", pair)
    library.operator("beside", pair)
    library.operator("~", factorial, unary=True)
    grammar = (
        STANDARD.with_operator("<+>", SUM)
        .with_operator("^", PRODUCT + 1, right_associative=True)
        .with_operator("beside", COMPARISON)
        .with_operator("~", SIGN, prefix=True)
    )

    def value(text: str) -> Any:
        return compile(text, library=library, grammar=grammar).evaluate()

    assert value("1 <+> 2 * 3") == [1, 6]
    assert value("1 ^ 2 ^ 3") == [1, [2, 3]]
    assert value("1 <+> 2 <+> 3") == [[1, 2], 3]
    assert value("1 + 1 beside 2") == [2, 2]
    assert value("~4 + 1") == 25
    for wrong in ("a b", "", "(", "a.b", "=>x"):
        with pytest.raises(ValueError, match="cannot be an operator"):
            STANDARD.with_operator(wrong, SUM)
    with pytest.raises(ValueError, match="level"):
        STANDARD.with_operator("@", 1000)


def test_unregistrable() -> None:
    """Annotations without meaning, methods without receiver and lambdas without name are refused."""
    library = Library()

    def strange(value: Annotated[int, "no kind"]) -> int:
        return value

    library.register(strange)  # the annotation says nothing more: an integer

    def nothing() -> None:
        return None

    with pytest.raises(TypeError, match="takes no receiver"):
        library.method(nothing)

    def worse(value: Iterable[int] | 5) -> None:  # type: ignore[valid-type]
        return None

    with pytest.raises(TypeError):
        library.register(worse)


def test_overload_is_chosen_once_per_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call site resolves once for each shape of argument types, then remembers."""
    from vetro.yaql import inline_caches

    chosen: list[tuple[Any, ...]] = []
    original = inline_caches._choose

    def counting(*args: Any) -> Any:
        chosen.append(tuple(map(type, args[4])))
        return original(*args)

    monkeypatch.setattr(inline_caches, "_choose", counting)
    library = standard_library()
    rt = Evaluation(library)
    site = function_site(library, "abs", ("",), 0)
    assert [site(rt, value) for value in (-1, -2, -1.5, 3, -2.5)] == [1, 2, 1.5, 3, 2.5]
    assert chosen == [(int,), (float,)]
    chosen.clear()
    site = method_site(library, "substring", ("", ""), (), 0)
    for _ in range(3):
        assert site(rt, "abcdef", None, 1, 2) == "bc"
    assert chosen == [(str, int, int)]
    chosen.clear()
    for value in ("x", "y"):
        with pytest.raises(NoMatchingMethodException):
            site(rt, "abc", None, value, 1)
    assert len(chosen) == 2, "failures are not remembered"


def test_suggestions(library: Library) -> None:
    """An unknown name brings the nearest, the other form, or the word for it here."""

    @library.function
    def frobnicate(value: int) -> int:
        return value

    assert library.suggest("frobnikate", False) == "did you mean frobnicate?"
    assert library.suggest("toUpper", False) == "toUpper is a method: write value.toUpper(…)"
    assert library.suggest("frobnicate", True) == "frobnicate is a function: write frobnicate(…)"
    assert library.suggest("if", False) == "write switch(condition => value, true => other)"
    assert library.suggest("zzzzzz", False) is None


def test_host_hooks() -> None:
    """A derived Evaluation gives meaning to variables, properties, methods and functions."""

    class Host(Evaluation):
        def host_variable(self, name: str) -> Any:
            return {"here": 5}.get(name)

        def host_property(self, receiver: Any, name: str) -> Any:
            return f"{name} of {receiver.cents}"

        def host_method(self, receiver: Any, name: str, args: Any, kwargs: Any) -> Any:
            return [name, list(args), kwargs]

        def host_function(self, name: str, args: Any, kwargs: Any) -> Any:
            return {name: [*args, kwargs]}

        def host_text(self, value: Any) -> str:
            return f"{value.cents} cents"

    def value(text: str) -> Any:
        return compile(text).run(Host(standard_library()), Money(3))

    assert value("$here + 1") == 6
    assert value("$.size") == "size of 3"
    assert value("$.pay(1, to => me)") == ["pay", [1], {"to": "me"}]
    assert value("$.pay($)")[1] == [Money(3)]
    assert value("mint(2, x => 1)") == {"mint": [2, {"x": 1}]}
    assert value("str($)") == "3 cents"
