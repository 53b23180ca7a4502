"""The loader on mutated input: it ends, within its limits, with an error of the language or none."""

import random
import re
from pathlib import Path

import pytest
from tests.effort import examples
from tests.tables import read_table

from vetro.muranopl import MemoryPackage, MuranoError, Runtime, YamlLimits

CASES = Path(__file__).parent / "cases"
PIECES = [
    *("$", "$.", ": ", "- ", "{", "}", "[", "]", "*a", "&a ", "!yaql ", "!!str ", "<<: ", "|", ">"),
    *("'", '"', "#", "---\n", "\t", "\x00", "\u2028", "\ud7ff", "é", "(", ")", "=>", "? ", "%"),
    *("Contract: $.class(Main)", "Extends: Main", "Usage: Static", "Body:", "Return:", "1e999"),
    *("Parallel:", "Break:", "Throw: x", "Match: {1: []}", "Import: Main", "0x", "12:30:45"),
]


def sources():
    texts = []
    for file in sorted(CASES.glob("*.yaml")):
        for case in read_table(file):
            if "class" in case:
                texts.append("Namespaces: {=: t, std: io.murano}\nName: Main\n" + case["class"])
            elif "classes" in case:
                texts.append(case["classes"])
            elif "body" in case:
                body = "".join(f"      {line}\n" for line in case["body"].splitlines())
                texts.append(
                    f"Namespaces: {{=: t}}\nName: Main\nMethods:\n  run:\n    Body:\n{body}"
                )
    return texts


def mutated(text, chance):
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(text) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            text = text[:at] + chance.choice(PIECES) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + chance.randint(1, 12) :]
        elif kind == 2:
            other = chance.randrange(len(text) + 1)
            text = text[:at] + text[other : other + chance.randint(1, 40)] + text[at:]
        elif kind == 3:
            lines = text.split("\n")
            line = chance.randrange(len(lines))
            lines[line] = " " * chance.randint(0, 9) + lines[line].lstrip()
            text = "\n".join(lines)
        else:
            text = text[:at] + chr(chance.choice([0, 9, 10, 32, 58, 127, 255, 0x2028])) + text[at:]
    return text


@pytest.mark.parametrize("seed", range(6))
def test_mutated_classes_load_or_fail_properly(seed):
    """Nothing but errors of the language comes out, whatever is done to a class file."""
    chance = random.Random(seed)
    texts = sources()
    for _ in range(examples(120)):
        text = mutated(chance.choice(texts), chance)
        names = {"t.Main": "a"}
        for found in re.findall(r"^Name: *([\w.]+)", text, re.M):
            names[found if "." in found else f"t.{found}"] = "a"
        runtime = Runtime(yaml_limits=YamlLimits(bytes=100_000, nodes=20_000))
        try:
            runtime.add_package(MemoryPackage("t", {"a": text}, names))
            runtime.compile_all()
        except MuranoError as error:
            assert error.message
            assert error.format()


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\n"
        + "".join(
            f"b{i}: &b{i} [*{'a' if i == 0 else f'b{i - 1}'}, *{'a' if i == 0 else f'b{i - 1}'}]\n"
            for i in range(40)
        ),
        "[" * 5000,
        "{a: " * 5000,
        "- " * 5000 + "x",
        "a: " + "(" * 20_000,
        "a: " + "$.a" * 20_000,
        "a: " + "not " * 20_000 + "$",
        "a: &a [*a]",
        "? " * 3000 + "a",
        "x" * 200_000,
    ],
    ids=[
        "bomb",
        "lists",
        "maps",
        "dashes",
        "brackets",
        "chain",
        "prefixes",
        "self",
        "keys",
        "long",
    ],
)
def test_large_and_deep_texts_end(text):
    """Alias bombs, deep nesting and endless expressions are refused or are text; nothing recurses."""
    runtime = Runtime(yaml_limits=YamlLimits(bytes=150_000, nodes=20_000))
    body = f"Namespaces: {{=: t}}\nName: Main\nMeta:\n{text}\n"
    runtime.add_package(MemoryPackage("t", {"a": body}, {"t.Main": "a"}))
    try:
        runtime.compile_all()
    except MuranoError as error:
        assert len(error.message) < 10_000
