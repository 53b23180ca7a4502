"""Exception objects: what is kept frozen, what is made when it is read (section 11)."""

import pytest

from vetro.muranopl import MuranoError
from vetro.muranopl.values.containers import Map


def test_a_host_gets_the_extra_of_a_throw_as_plain_data(load):
    """Lists and maps of `Extra` reach the host as lists and dicts of its own, always the same."""
    session, root = load(
        """
Name: Main
Methods:
  go:
    Body:
      - Throw: bad
        Message: text
        Extra: {list: [1, [2]], map: {a: {b: 1}}}
"""
    )
    with pytest.raises(MuranoError) as caught:
        session.call(root, "go")
    extra = caught.value.extra
    assert extra == {"list": [1, [2]], "map": {"a": {"b": 1}}}
    assert type(extra) is dict
    assert type(extra["list"]) is list
    assert type(extra["map"]["a"]) is dict
    assert caught.value.extra is extra


def test_no_extra_is_an_empty_dict(load):
    """Without `Extra` a host reads an empty dict, which it may fill."""
    session, root = load("Name: Main\nMethods:\n  go:\n    Body:\n      - Throw: bad\n")
    with pytest.raises(MuranoError) as caught:
        session.call(root, "go")
    caught.value.extra["more"] = 1
    assert caught.value.extra == {"more": 1}


def test_what_a_program_does_with_the_extra_it_caught_changes_no_exception(load):
    """The map in a variable is a value: writing into it leaves the exception as it was thrown."""
    session, root = load(
        """
Name: Main
Methods:
  go:
    Body:
      - $extra: {list: [1], n: 1}
      - Try:
          - Try:
              - Throw: bad
                Extra: $extra
            Catch:
              As: first
              Do:
                - $mine: $first.extra
                - $mine.n: 2
                - $mine.list.append(): 5
                - $extra.n: 3
                - Rethrow:
        Catch:
          As: second
          Do:
            - Return: [$second.extra, $mine, $extra]
"""
    )
    assert session.call(root, "go") == [
        {"list": [1], "n": 1},
        {"list": [1, 5], "n": 2},
        {"list": [1], "n": 3},
    ]


def test_what_native_code_adds_to_an_extra_is_seen_by_the_program():
    """Once somebody asked for the plain `extra`, that dict is the exception's."""
    error = MuranoError.of_program("text", ("t.bad",), Map({"a": (1,)}), None)
    assert error.frozen_extra() == Map({"a": (1,)})
    error.extra["a"].append(2)
    error.extra["b"] = {3}
    assert error.frozen_extra() == Map({"a": (1, 2), "b": frozenset({3})})
    error.extra = {}
    assert error.frozen_extra() == Map()
    assert error.extra == {}


def test_a_thrown_error_is_like_one_made_by_its_constructor():
    """The short way of `Throw` leaves out nothing that the constructor sets."""
    cause = ValueError("behind")
    short = MuranoError.of_program("text", ("t.bad", "t.worse"), Map({"a": 1}), cause)
    long = MuranoError(
        "text", names=("t.bad", "t.worse"), extra={"a": 1}, cause=cause, from_program=True
    )
    for name in ("message", "names", "extra", "cause", "from_program", "native", "position"):
        assert getattr(short, name) == getattr(long, name), name
    assert (short.args, str(short), short.format()) == (long.args, str(long), long.format())


def test_trace_cause_and_native_part_of_an_exception_object_are_made_when_read(load):
    """They are there when asked for, and asking twice gives the same objects."""
    session, root = load(
        """
Name: Main
Methods:
  inner:
    Body:
      - Try:
          - Throw: first
            Message: one
        Catch:
          As: e
          Do:
            - Throw: second
              Message: two
              Cause: $e
  go:
    Body:
      - Try:
          - $.inner()
        Catch:
          As: e
          Do:
            - Return:
                - $e.name
                - $e.cause.name
                - $e.cause.cause
                - $e.cause = $e.cause
                - $e.stackTrace = $e.stackTrace
                - $e.stackTrace.frames.select($.methodName)
                - $e.toString()
                - $e.nativeException
"""
    )
    name, cause, none, same, same_trace, methods, text, native = session.call(root, "go")
    assert (name, cause, none, same, same_trace, native) == (
        "second", "first", None, True, True, None,
    )  # fmt: skip
    assert methods == ["go", "inner"]
    assert text.index("second: two") < text.index("Caused by first: one")


def test_an_exception_object_has_no_other_members(load):
    """A property that the class has not is refused, as with any object."""
    session, root = load(
        """
Name: Main
Methods:
  go:
    Body:
      - Try:
          - Throw: bad
        Catch:
          As: e
          Do:
            - Return: $e.whatever
"""
    )
    with pytest.raises(MuranoError) as caught:
        session.call(root, "go")
    assert any(name.endswith("PropertyReadError") for name in caught.value.names)
