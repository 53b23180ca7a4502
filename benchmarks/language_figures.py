"""One figure of the language: `language_figures.py TOPIC` prints a line of JSON.

Each topic has a process of its own, so that none finds what another has loaded.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))


def start() -> dict[str, float]:
    """Milliseconds of processor time from nothing to a runtime with its standard library."""
    began = time.process_time()
    from vetro.muranopl import Runtime

    Runtime().library("current")
    return {"start": (time.process_time() - began) * 1000}


def compile_() -> dict[str, float]:
    """Milliseconds of processor time per class of `io.murano`, from its text on, without any cache.

    `compile`: ready (read, parsed, checked, source written; methods become Python code when they are
    first called). `compile_methods`: every method compiled as well. The runtimes share
    nothing; `compile_first` is the first of this process, with the loading of
    the compiler itself. `compile_cached`: whole classes from the code cache.
    """
    from vetro.muranopl import DirectoryPackage, Runtime

    def once(cache: Path | None, *, methods: bool) -> float:
        runtime = Runtime(code_cache=cache)
        runtime.library("current")
        runtime.library("legacy")
        began = time.process_time()
        package = runtime.add_package(DirectoryPackage(ROOT / "library/io.murano"))
        runtime.compile_all(methods=methods)
        return (time.process_time() - began) * 1000 / len(package.types)

    first = once(None, methods=False)
    ready = once(None, methods=False)
    whole = once(None, methods=True)
    with tempfile.TemporaryDirectory() as directory:
        once(Path(directory), methods=True)
        cached = once(Path(directory), methods=True)
    return {
        "compile": ready,
        "compile_first": first,
        "compile_methods": whole,
        "compile_cached": cached,
    }


TEXT = """
Namespaces: {=: t}
Name: Node
Properties:
  name: {Contract: $.string().notNull()}
  size: {Contract: $.int().notNull().check($ > 0), Default: 1}
  tags: {Contract: [$.string().notNull()], Default: []}
  kids: {Contract: [$.class(Node).owned().notNull()], Default: []}
  peer: {Contract: $.class(Node)}
  state: {Contract: {}, Usage: Out}
Methods:
  touch:
    Body:
      - $.state.ok: true
      - Return: 1 + $.kids.select($.touch()).sum(0)
  down:
    Arguments: [{n: {Contract: $.int().notNull()}}]
    Body:
      - If: $n = 0
        Then:
          - Return: 0
      - Return: 1 + $.down($n - 1)
  loop:
    Arguments: [{n: {Contract: $.int().notNull()}}]
    Body:
      - $i: 0
      - While: $i < $n
        Do:
          - $i: $i + 1
  calls:
    Arguments: [{n: {Contract: $.int().notNull()}}]
    Body:
      - For: i
        In: range($n)
        Do:
          - $.one($i)
  one:
    Arguments: [{n: {Contract: $.int().notNull()}}]
    Body:
      - $a: $n * 2 + 1
      - $b: $a mod 7
      - Return: $a + $b
  nap:
    Arguments: [{n: {Contract: $.int().notNull()}}]
    Body:
      - Return: range($n).pselect(sleep(0.5)).len()
"""


def _session() -> tuple[Any, Any]:
    from vetro.muranopl import Limits, MemoryPackage, Runtime

    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a": TEXT}, {"t.Node": "a"}))
    runtime.compile_all()
    session = runtime.session(limits=Limits(parallel_branches=10_000))
    return session, {"?": {"type": "t.Node", "id": "root"}, "name": "root"}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def model() -> dict[str, float]:
    """A model of 10,000 objects loaded, every object called, saved."""
    session, root = _session()
    groups = [
        {
            "?": {"type": "t.Node", "id": f"g{i}"},
            "name": f"group {i}",
            "kids": [
                {
                    "?": {"type": "t.Node", "id": f"n{i}-{j}"},
                    "name": f"node {j}",
                    "size": j + 1,
                    "tags": ["a", "b"],
                    "peer": f"g{(i + 1) % 100}",
                }
                for j in range(99)
            ],
        }
        for i in range(100)
    ]
    began = time.process_time()
    loaded = session.load({"Objects": {**root, "kids": groups}})
    if session.call(loaded, "touch") != 10_001:
        raise SystemExit("not every object was called")
    session.dump()
    return {"model_seconds": time.process_time() - began, "model_mib": _peak()}


def sleep() -> dict[str, float]:
    """5,000 green threads asleep at once."""
    session, root = _session()
    loaded = session.load({"Objects": root})
    before = _peak()
    began = time.process_time()
    if session.call(loaded, "nap", 5000) != 5000:
        raise SystemExit("not every thread woke up")
    return {"sleep_seconds": time.process_time() - began, "sleep_mib": _peak() - before}


def depth() -> dict[str, float]:
    """How many calls of a method nest under the default limits."""
    from vetro.muranopl import MuranoError

    session, root = _session()
    loaded = session.load({"Objects": root})
    deep = 100
    while deep < 100_000:
        try:
            session.call(loaded, "down", deep)
        except MuranoError:
            break
        deep += 100
    return {"depth": float(deep - 100)}


_GUARDS = (
    *("room = S.room", "S.room = ", "S.fuel = ", "turns = 0", "turns += 1", "if turns >"),
    *(
        "if fuel < 0 or S.room < 1:",
        "if room < S.floor or fuel < 0:",
        "if room < 1 or fuel < 0:",
        "if L is not None:",
    ),
)


def _without_guards(text: str) -> str:
    """Generated source without what counts steps and depth and looks after locks."""
    kept: list[str] = []
    inside = -1
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if inside >= 0 and indent > inside:
            continue
        inside = -1
        if line.strip().startswith(_GUARDS):
            if line.endswith(":"):
                inside = indent
            if kept and kept[-1].endswith("finally:"):
                kept.append(" " * indent + "pass")
            continue
        kept.append(line)
    return "\n".join(kept) + "\n"


def guards() -> dict[str, float]:
    """What counting steps and depth costs: programs as they are, and with these lines taken out."""
    from vetro.muranopl import DirectoryPackage, Limits, Runtime
    from vetro.muranopl.runtime import traces

    def measure(name: str, size: int) -> float:
        runtime = Runtime()
        runtime.add_package(DirectoryPackage(ROOT / "benchmarks/programs" / name))
        runtime.compile_all()
        best = 1e9
        for _ in range(9):
            session = runtime.session(limits=Limits(collection_items=1_000_000))
            letter = name[0]
            root = session.load({"Objects": {"?": {"id": "r", "type": f"bench.{letter}.Main"}}})
            began = time.process_time()
            session.call(root, "run", size)
            best = min(best, time.process_time() - began)
        return best

    real = traces.CodeUnit.text
    assert isinstance(real, property)
    ratio = 1.0
    programs = (("d_strings", 2000), ("g_templates", 2000), ("h_control", 4000))
    for name, size in programs:
        traces.CodeUnit.text = real  # type: ignore[assignment, misc]
        guarded = measure(name, size)
        bare = property(lambda unit: _without_guards(real.__get__(unit)))
        traces.CodeUnit.text = bare  # type: ignore[assignment, misc]
        ratio *= guarded / measure(name, size)
    return {"guards": ratio ** (1 / len(programs))}


TOPICS = {
    "start": start,
    "compile": compile_,
    "model": model,
    "sleep": sleep,
    "depth": depth,
    "guards": guards,
}

if __name__ == "__main__":
    print(json.dumps(TOPICS[sys.argv[1]]()))
