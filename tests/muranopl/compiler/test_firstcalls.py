"""Methods become Python code when they are first called; nothing else is late."""

import pytest

from vetro.muranopl import DslSyntaxError, MuranoError, Runtime, loose_package

TEXT = """
Namespaces: {=: t}
Name: Main
Properties:
  n: {Contract: $.int().notNull().check($ > 0), Default: 3}
Methods:
  one:
    Arguments:
      - a: {Contract: $.int().notNull()}
      - b: {Contract: $.int(), Default: $.n + 2}
    Body:
      - Return: $a * 10 + $b
  all:
    Arguments:
      - a: {Contract: $.int()}
      - rest: {Contract: $.int(), Usage: VarArgs}
      - more: {Contract: $.int(), Usage: KwArgs}
    Body:
      - Return: [$a, $rest, $more]
  fails:
    Body:
      - $x: $.one(1)
      - Throw: Wrong
        Message: here
  both:
    Body:
      - Parallel:
          - $x: $.one(1)
          - $y: $.one(2)
      - Return: [$x, $y]
---
Name: Derived
Extends: Main
"""


def loaded(text=TEXT, **options):
    """A runtime, its class `t.Main`, a session and an object."""
    runtime = Runtime(**options)
    runtime.add_package(loose_package("t", text))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    return runtime, runtime.type("t.Main"), session, root


def is_compiled(function):
    """True when a function of a class has the code of its lines."""
    return function.__code__.co_filename.startswith("<muranopl ")


def test_a_call_compiles_what_it_calls_and_nothing_else():
    """A method that was called is Python code; its neighbours wait."""
    _, main, session, root = loaded()
    assert not is_compiled(main.methods["one"].function)
    assert session.call(root, "one", 1) == 15
    assert is_compiled(main.methods["one"].function)
    assert not is_compiled(main.methods["all"].function)


def test_who_holds_a_function_has_the_compiled_one():
    """The first call changes the function itself: classes that inherit it see it too."""
    runtime, main, session, root = loaded()
    held = main.methods["one"].function
    derived = runtime.type("t.Derived").python_class.m_one
    assert session.call(root, "one", 1) == 15
    assert held is derived is main.methods["one"].function
    assert is_compiled(held)
    assert session.call(root, "one", 2, b=0) == 20


@pytest.mark.parametrize(
    ("method", "args", "named", "value"),
    [
        ("one", (1,), {}, 15),
        ("one", (1,), {"b": 1}, 11),
        ("one", (), {"b": 2, "a": 1}, 12),
        ("all", (), {}, [None, [], {}]),
        ("all", (1, 2, 3), {"x": 4}, [1, [2, 3], {"x": 4}]),
        ("both", (), {}, [15, 25]),
    ],
)
def test_arguments_of_a_first_call(method, args, named, value):
    """Defaults, rests and keywords reach a method in its first call as in the second."""
    _, _, session, root = loaded()
    assert session.call(root, method, *args, **named) == value
    assert session.call(root, method, *args, **named) == value


@pytest.mark.parametrize(
    ("args", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"c": 2}), (("x",), {})]
)
def test_wrong_arguments_fail_alike_in_the_first_call(args, named):
    """The first call says of wrong arguments what later ones say."""
    _, _, session, root = loaded()
    texts = []
    for _ in range(2):
        with pytest.raises(MuranoError) as caught:
            session.call(root, "one", *args, **named)
        texts.append((caught.value.message, caught.value.names))
    assert texts[0] == texts[1]


def test_the_trace_of_a_first_call_is_that_of_any():
    """Frames, lines and instructions do not show that something was compiled."""
    _, _, session, root = loaded()
    traces = []
    for _ in range(2):
        with pytest.raises(MuranoError) as caught:
            session.call(root, "fails")
        traces.append(
            [(f.method_name, f.position, f.instruction) for f in caught.value.stack_trace]
        )
    assert traces[0] == traces[1]
    assert [(name, place.line) for name, place, _ in traces[0]] == [("fails", 23)]


def test_a_package_can_be_compiled_whole():
    """`compile_all` leaves nothing to a first call, or everything with `methods=False`."""
    runtime, main, session, root = loaded()
    runtime.compile_all(methods=False)
    assert not any(is_compiled(item.function) for item in main.methods.values())
    assert session.call(root, "one", 1) == 15
    runtime.compile_all()
    assert all(is_compiled(item.function) for item in main.methods.values())
    assert session.call(root, "one", 1) == 15
    assert session.call(root, "all", 1) == [1, [], {}]


def test_the_cache_holds_whole_classes(tmp_path):
    """With a code cache the first call compiles all of its class, so that the next run finds it."""
    for _ in range(2):
        runtime, main, session, root = loaded(code_cache=tmp_path / "c")
        before = runtime.code_cache.loaded
        assert not any(is_compiled(item.function) for item in main.methods.values())
        assert session.call(root, "one", 1) == 15
        assert all(is_compiled(item.function) for item in main.methods.values())
    assert runtime.code_cache.loaded == before + 1
    assert runtime.code_cache.stored == 0


def test_classes_that_construct_alike_share_the_code():
    """A class that adds no property has the construction of its base."""
    runtime, main, _, _ = loaded()
    runtime.compile_all()
    derived = runtime.type("t.Derived")
    assert derived.assembly.fill.__code__ is main.assembly.fill.__code__
    assert derived.assembly.fill is not main.assembly.fill


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("- $.n.x().y: 1", 6),
        ("- Return: 1\n      - While: true\n        Do: []", 7),
        ("- Unheard: 1\n        Do: []", 6),
    ],
)
def test_what_is_wrong_with_a_method_is_a_finding_at_load(body, line):
    """What a method cannot mean is known before anybody calls it."""
    text = f"Namespaces: {{=: t}}\nName: Main\nMethods:\n  run:\n    Body:\n      {body}\n"
    runtime, _main, session, root = loaded(text)
    (finding,) = runtime.classes.findings
    assert finding.position.line == line
    with pytest.raises(MuranoError) as caught:
        session.call(root, "run")
    assert caught.value.position == finding.position
    assert finding.message.startswith(caught.value.message)


@pytest.mark.parametrize("cached", [False, True])
def test_blocks_nested_too_deep_for_python_are_a_finding_at_load(cached, tmp_path):
    """Twenty loops within each other are an error with a place; the other methods of the class work."""
    lines = []
    for level in range(25):
        indent = " " * (6 + 4 * level)
        lines += [f"{indent}- While: $x", f"{indent}  Do:"]
    lines.append(" " * (6 + 4 * 25) + "- Return: 1")
    text = "Namespaces: {=: t}\nName: Main\nMethods:\n  run:\n    Body:\n" + "\n".join(lines) + "\n"
    text += "  other: {Body: {Return: 5}}\n"
    for _ in range(2):
        runtime, _main, session, root = loaded(text, code_cache=tmp_path / "c" if cached else None)
        assert ["nested too deep" in item.message for item in runtime.classes.findings] == [True]
        with pytest.raises(DslSyntaxError, match="nested too deep") as caught:
            session.call(root, "run")
        assert caught.value.position is not None
        assert session.call(root, "other") == 5


def test_deep_blocks_that_python_takes_work():
    """Fifteen loops within each other run."""
    lines = []
    for level in range(15):
        indent = " " * (6 + 4 * level)
        lines += [f"{indent}- For: i{level}", f"{indent}  In: [1]", f"{indent}  Do:"]
    lines.append(" " * (6 + 4 * 15) + "- Return: $i0 + $i14")
    text = "Namespaces: {=: t}\nName: Main\nMethods:\n  run:\n    Body:\n" + "\n".join(lines) + "\n"
    _, _, session, root = loaded(text)
    assert session.call(root, "run") == 2
