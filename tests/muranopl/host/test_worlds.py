"""Sessions of one runtime decide about versions on their own (muranopl.md section 5)."""

import gc
import weakref

import pytest

from vetro.muranopl import DirectEffects, Runtime, loose_package
from vetro.yaql.kinds import HOST
from vetro.yaql.values import kind_of

LIB = """
Namespaces: {=: lib}
Name: Thing
Methods:
  version: {Usage: Static, Scope: Public, Body: {Return: VERSION}}
  own: {Body: {Return: VERSION}}
---
Namespaces: {=: lib}
Name: Other
"""
APP = """
Namespaces: {=: NAME, lib: lib}
Name: Main
Extends: lib:Thing
Properties:
  thing: {Contract: $.class(lib:Thing)}
Methods:
  which:
    Body:
      - Return: list(lib:Thing.version(), $.own(), new(lib:Thing).own())
"""
OTHER = "Namespaces: {=: other}\nName: Main\nMethods: {run: {Body: {Return: 1}}}\n"


class Shelf:
    """A resolver over packages; it counts what it is asked for."""

    def __init__(self, *packages):
        self.packages = list(packages)
        self.asked = []

    def find_package(self, name, spec, project_id):
        from vetro.muranopl import Version, VersionSpec

        self.asked.append((name, spec))
        found = [
            item
            for item in self.packages
            if item.full_name == name and Version.parse(item.version) in VersionSpec(spec)
        ]
        return max(found, key=lambda item: Version.parse(item.version), default=None)

    def find_class(self, class_name, spec, project_id):
        for item in self.packages:
            if class_name in item.classes:
                return self.find_package(item.full_name, spec, project_id)
        return None


def model(name="app", fixed=None):
    found = {"Objects": {"?": {"id": "root", "type": f"{name}.Main"}}}
    if fixed is not None:
        found["SystemData"] = {"Packages": fixed}
    return found


def opened(runtime, *args, **kwargs):
    """A new session, and what its program says it runs on."""
    session = runtime.session()
    root = session.load(model(*args, **kwargs))
    versions = set(session.call(root, "which"))
    assert len(versions) == 1
    return session, versions.pop()


@pytest.fixture
def lib(package):
    return lambda version: package("lib", LIB.replace("VERSION", f"'{version}'"), version=version)


@pytest.fixture
def app(package):
    def make(name="app", spec="*"):
        return package(name, APP.replace("NAME", name), requirements={"lib": spec})

    return make


@pytest.fixture(params=["added", "found"])
def runtime(request, lib, app):
    """A runtime that knows two versions of `lib`, or whose resolver finds them."""
    made = Runtime()
    packages = [lib("0.1.0"), lib("0.2.0"), app(), app("old", "0.1.0"), app("new", ">0")]
    if request.param == "added":
        for item in packages:
            made.add_package(item)
    else:
        made.resolver = Shelf(*packages)
    return made


def test_a_fixed_version_is_the_sessions_own(runtime):
    """An environment stays on its version; sessions before, beside and after it get the best."""
    assert opened(runtime)[1] == "0.2.0"
    fixed, version = opened(runtime, fixed={"lib": ["0.1.0"]})
    assert version == "0.1.0"
    other, version = opened(runtime)
    assert version == "0.2.0"
    assert fixed.dump()["SystemData"]["Packages"]["lib"] == ["0.1.0"]
    assert other.dump()["SystemData"]["Packages"]["lib"] == ["0.2.0"]
    fixed.close()
    other.close()
    assert opened(runtime)[1] == "0.2.0"
    assert opened(runtime, fixed={"lib": "0.1.0"})[1] == "0.1.0"


def test_a_version_that_another_session_needed_is_not_taken(runtime):
    """What is loaded already goes before a better one in that session only."""
    first = runtime.session()
    assert first.call(first.load(model("old")), "which") == ["0.1.0"] * 3
    assert opened(runtime)[1] == "0.2.0"
    assert first.call("app.Main", "version") == "0.1.0"
    assert opened(runtime)[1] == "0.2.0"


def test_a_model_says_which_version_it_wants(runtime):
    """A type with a version is of that version, whatever other sessions have loaded."""
    opened(runtime)
    session = runtime.session()
    found = session.load({"Objects": {"?": {"id": "a", "type": "lib.Thing/0.1.0"}}})
    assert session.call(found, "own") == "0.1.0"
    assert session.dump()["SystemData"]["Packages"]["lib"] == ["0.1.0"]
    assert opened(runtime)[1] == "0.2.0"


def test_a_dump_names_the_sessions_own_packages(runtime, package):
    """Packages that only other sessions used are not in the fixation table."""
    runtime.add_package(package("other", OTHER))
    opened(runtime)
    session = runtime.session()
    session.load(model("other"))
    assert set(session.dump()["SystemData"]["Packages"]) == {"other", "io.murano"}
    assert set(opened(runtime)[0].dump()["SystemData"]["Packages"]) == {"app", "lib", "io.murano"}


def test_a_newer_version_is_seen_by_the_next_session(lib, app):
    """A package that is added later is found by sessions that begin later."""
    runtime = Runtime()
    for item in (lib("0.1.0"), app()):
        runtime.add_package(item)
    first, version = opened(runtime)
    runtime.add_package(lib("0.2.0"))
    assert opened(runtime)[1] == "0.2.0"
    assert first.call(first.root, "which") == ["0.1.0"] * 3
    assert version == "0.1.0"


def test_classes_are_compiled_once_where_nothing_differs(runtime, package):
    """Sessions that decide alike share classes, fixed to the same versions or to none."""
    first, second = opened(runtime)[0], opened(runtime)[0]
    assert first.root.type is second.root.type
    old = opened(runtime, fixed={"lib": ["0.1.0"]})[0]
    assert old.root.type is not first.root.type
    assert opened(runtime, fixed={"lib": ["0.1.0"]})[0].root.type is old.root.type
    single = Runtime()
    single.add_package(package("other", OTHER))
    types = set()
    for fixed in (None, {"other": ["0.0.0"]}, {"nothing": ["1.0.0"]}):
        session = single.session()
        types.add(session.load(model("other", fixed)).type)
    assert types == {single.type("other.Main")}


def test_a_class_of_the_runtime_means_the_sessions_own(runtime):
    """A class that the host looked up in the runtime may be called in every session."""
    type_ = runtime.type("app.Main")
    session = opened(runtime, fixed={"lib": ["0.1.0"]})[0]
    assert session.call(type_, "version") == "0.1.0"
    assert session.evaluate("$.version()", type_) == "0.1.0"
    assert session.execute("- Return: $.version()", type_, scope=type_) == "0.1.0"


async def test_a_task_is_judged_by_the_classes_it_runs_on(runtime):
    """Edits, model and action of a task see the fixed version; the reply names it."""
    opened(runtime)
    session = runtime.session()
    reply = await session.run_task_async({"model": model(fixed={"lib": ["0.1.0"]})})
    assert not reply.is_exception, reply.details
    assert reply.model["SystemData"]["Packages"]["lib"] == ["0.1.0"]


def test_a_resolver_is_asked_for_the_fixed_version(lib, app):
    """One that is gone from the repository is replaced by the best there is."""
    shelf = Shelf(lib("0.1.0"), lib("0.2.0"), app())
    runtime = Runtime(resolver=shelf)
    assert opened(runtime, fixed={"lib": ["0.1.0"]})[1] == "0.1.0"
    assert ("lib", "==0.1.0") in shelf.asked
    assert opened(runtime, fixed={"lib": ["0.1.5"]})[1] == "0.2.0"


def test_worlds_without_sessions_are_not_kept_for_ever(runtime):
    """Sessions that have ended leave only a few worlds behind."""
    for number in range(20):
        session = opened(runtime, fixed={"lib": [f"0.{number}.0", "0.1.0"], "x": [f"{number}"]})[0]
        session.close()
    del session
    gc.collect()
    assert len(runtime.worlds) <= 5


def test_a_runtime_that_nobody_has_any_more_is_not_kept():
    """A runtime goes with the last reference to it, also when expressions asked what its objects are."""
    made = Runtime()
    made.add_package(loose_package("p", "Name: p.A\n"))
    with made.session(effects=DirectEffects(seed=1)) as session:
        root = session.load({"Objects": {"?": {"type": "p.A", "id": "a"}}})
        assert kind_of[type(root)] == HOST
    watched = weakref.ref(made)
    del made, session, root
    gc.collect()
    assert watched() is None
