"""Ownership contracts and null."""

from vetro.muranopl import MemoryPackage, Runtime

SOURCE = """
Namespaces: {=: t}
Name: A
Properties:
  mine: {Contract: $.class(A).owned()}
  other: {Contract: $.class(A).notOwned()}
Methods:
  make:
    Body:
      - $first: new(A)
      - $second: new(A)
      - Return: $second.other
"""


def test_null_satisfies_owned_and_not_owned() -> None:
    """A property that may be null is not asked whose it is when it is null."""
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a.yaml": SOURCE}, {"t.A": "a.yaml"}))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"id": "a", "type": "t.A"}}})
    assert root is not None
    assert session.call(root, "make") is None
    session.close()
