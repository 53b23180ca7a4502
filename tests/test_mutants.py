"""The list of faults that the tests must find fits the source and the tests (decision 0786)."""

import importlib.util
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
assert SPEC is not None
assert SPEC.loader is not None
TOOL = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TOOL)
LIST = TOOL.mutants()
NUMBER = 300
EACH = 3


def test_the_list_is_fixed() -> None:
    """There are as many mutants as were fixed, numbered in turn, and no two are the same."""
    assert [mutant.number for mutant in LIST] == list(range(1, NUMBER + 1))
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in LIST}) == NUMBER


def test_every_room_has_some() -> None:
    """Each part of the source has mutants."""
    numbers = Counter(mutant.room for mutant in LIST)
    rooms = {path.parent.name for path in (ROOT / "src" / "vetro").glob("*/__init__.py")}
    assert {room for room in rooms | {"vetro"} if numbers[room] < EACH} == set()


def test_every_mutant_fits_the_source() -> None:
    """The text that a mutant changes stands in its file exactly once, and what comes out is Python."""
    for mutant in LIST:
        before, after = mutant.texts()
        assert before != after, mutant
        compile(after, str(mutant), "exec", dont_inherit=True)
        assert before.count("\n") == after.count("\n"), mutant


def test_every_mutant_names_tests_that_exist() -> None:
    """The tests that find a mutant are in the tree, so are the places where others are looked for."""
    texts: dict[str, str] = {}
    for mutant in LIST:
        assert mutant.found_by, mutant
        for name in mutant.found_by:
            file, _, test = name.partition("[")[0].partition("::")
            text = texts.setdefault(file, (ROOT / file).read_text(encoding="utf-8"))
            function = test.rpartition("::")[2]
            assert re.search(rf"def {function}\b", text), name
        assert all((ROOT / place).exists() for place in mutant.places), mutant
