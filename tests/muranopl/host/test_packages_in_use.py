"""`Session.packages_in_use`: the packages of the objects that there are."""

from vetro.muranopl import MemoryPackage, Runtime


def test_packages_follow_the_objects_that_come_and_go():
    """A package counts from its first object on, and no more when its last object is gone."""
    runtime = Runtime()
    for name in ("a", "b"):
        text = f"Namespaces: {{=: {name}}}\nName: Thing\nProperties: {{n: {{Contract: $.int()}}}}\n"
        runtime.add_package(MemoryPackage(name, {"f": text}, {f"{name}.Thing": "f"}))
    session = runtime.session()
    assert session.packages_in_use() == frozenset()

    def make(name, id_):
        session.run.publish(session.load({"Objects": {"?": {"type": f"{name}.Thing", "id": id_}}}))

    def names():
        return sorted(one.name for one in session.packages_in_use())

    make("a", "1")
    assert names() == ["a"]
    make("b", "2")
    make("a", "3")
    assert names() == ["a", "b"]
    del session.run.objects["2"]
    assert names() == ["a"]
    del session.run.objects["3"]
    make("b", "4")
    assert names() == ["a", "b"]
    session.run.objects.clear()
    assert names() == []
