"""``vetro test``: selection, reports, JUnit, coverage, processes, exit codes."""

import json
import operator
import os
from functools import partial
from xml.etree import ElementTree

import pytest

from vetro.cli.offline.testing import in_processes

COUNTER = """\
    Namespaces: {=: p}
    Name: Counter
    Properties:
      value: {Contract: $.int().notNull(), Default: 0, Usage: InOut}
    Methods:
      add:
        Arguments:
          - n: {Contract: $.int().notNull()}
        Body:
          - $.value: $.value + $n
          - If: $n > 100
            Then:
              - Throw: TooMuch
                Message: too much
          - Return: $.value
    """
TESTS = """\
    Namespaces: {=: p, test: io.murano.test}
    Name: CounterTest
    Extends: test:TestFixture
    Methods:
      setUp:
        Body:
          - $.counter: new(Counter)
      testAdds:
        Body:
          - $.assertEqual(2, $.counter.add(2))
      testAddsTwice:
        Body:
          - $.counter.add(2)
          - $.assertEqual(5, $.counter.add(2), 'second')
      testTooMuch:
        Body:
          - logger(tests).info('adding {0}', 101)
          - $.counter.add(101)
    """


@pytest.fixture
def package(make_package):
    return make_package("p", {"Classes/Counter.yaml": COUNTER, "Classes/Test.yaml": TESTS})


def test_each_test_has_a_line_and_failures_say_why(invoke, package):
    """OK or FAIL! per test, stack trace, both values, the log, a summary; exit 1."""
    code, text = invoke("test", package)
    assert code == 1
    assert "p.CounterTest.testAdds .... OK" in text
    assert "p.CounterTest.testAddsTwice .... FAIL!" in text
    assert "second: expected 5, observed 4" in text
    assert "in method testAddsTwice of type p.CounterTest" in text
    assert "p.TooMuch: too much" in text
    assert "log: INFO applications.tests: adding 101" in text
    assert "Executed 3 tests in " in text
    assert text.rstrip().endswith("1 passed, 2 failed")


def test_all_passed_is_exit_0(invoke, package):
    """A selection whose tests pass ends with 0."""
    code, text = invoke("test", package, "--filter", "testAdds")
    assert code == 0, text
    assert "Executed 1 tests" in text


@pytest.mark.parametrize(
    ("selectors", "names"),
    [
        ([], ["testAdds", "testAddsTwice", "testTooMuch"]),
        (["testTooMuch"], ["testTooMuch"]),
        (["p.CounterTest"], ["testAdds", "testAddsTwice", "testTooMuch"]),
        (["p.CounterTest.testAdds", "*Much"], ["testAdds", "testTooMuch"]),
    ],
)
def test_the_list_shows_what_would_run(invoke, package, selectors, names):
    """--list names the tests that the filters choose, and runs none."""
    filters = [part for item in selectors for part in ("-k", item)]
    code, text = invoke("test", package, "--list", *filters)
    assert code == 0
    assert text.split() == [f"p.CounterTest.{name}" for name in names]


def test_nothing_to_run_is_a_failure(invoke, package, make_package):
    """A filter that names nothing, or a package without tests, is exit 1 with a reason."""
    code, text = invoke("test", package, "-k", "nonsense")
    assert code == 1
    assert "there are no tests that the filter names" in text
    code, text = invoke("test", make_package("q", {"Classes/A.yaml": "Name: q.A\n"}))
    assert code == 1
    assert "there are no tests" in text


def test_json_is_one_document(invoke, package):
    """--json gives every result with place and values, and the totals."""
    code, text = invoke("test", package, "--json", "--coverage")
    assert code == 1
    document = json.loads(text)
    assert (document["passed"], document["failed"], document["errors"]) == (1, 1, 1)
    failed = document["tests"][1]
    assert failed["method"] == "testAddsTwice"
    assert failed["outcome"] == "failed"
    assert failed["file"] == str(package / "Classes/Test.yaml")
    assert failed["line"] == 14
    assert (failed["expected"], failed["observed"]) == ("5", "4")
    assert document["coverage"]["percent"] == 100.0


def test_junit_is_written(invoke, package, tmp_path):
    """One suite a class; failures and errors with message, type and trace."""
    target = tmp_path / "out" / "junit.xml"
    invoke("test", package, "--junit", target)
    root = ElementTree.parse(target).getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    (suite,) = root
    cases = {case.get("name"): case for case in suite}
    assert suite.get("name") == "p.CounterTest"
    failure = cases["testAddsTwice"].find("failure")
    assert failure.get("message") == "second: expected 5, observed 4"
    assert "in method testAddsTwice" in failure.text
    assert cases["testTooMuch"].find("error").get("type") == "p.TooMuch"
    assert "adding 101" in cases["testTooMuch"].find("system-out").text
    assert len(cases["testAdds"]) == 0


def test_coverage_names_the_lines_that_never_ran(invoke, package, tmp_path):
    """The table and the JSON file count statements of the code, not of the test classes."""
    target = tmp_path / "coverage.json"
    code, text = invoke("test", package, "-k", "testAdds", "--coverage", "--coverage-json", target)
    assert code == 0
    file = str(package / "Classes/Counter.yaml")
    (row,) = [line for line in text.splitlines() if line.startswith(file)]
    assert row.split()[1:] == ["4", "1", "75%", "13"]
    document = json.loads(target.read_text())
    assert list(document["files"]) == [file]
    assert document["files"][file]["missing"] == [13]
    assert document["percent"] == 75.0


def test_several_processes_give_the_same_report(invoke, package, tmp_path):
    """With two processes the results and the coverage are those of one, in the same order."""
    code, text = invoke("test", package, "--json", "--coverage", "--jobs", "1")
    other_code, other = invoke("test", package, "--json", "--coverage", "--jobs", "2")
    assert (code, other_code) == (1, 1)

    def comparable(document):
        loaded = json.loads(document)
        loaded.pop("seconds")
        for item in loaded["tests"]:
            item.pop("seconds")
        return loaded

    assert comparable(other) == comparable(text)


def test_a_process_that_dies_loses_no_other_test():
    """What ends its process is told by None; everything else still has its result."""
    calls = [partial(int, "12"), partial(os._exit, 3), partial(int, "5")]
    outcomes = [value for _, value in in_processes(calls, operator.call, jobs=2)]
    assert sorted(outcomes, key=str) == [12, 5, None]


def test_a_broken_class_is_an_error_among_the_results(invoke, make_package):
    """A class that cannot be compiled fails the run with its position; the others are tested."""
    package = make_package(
        "p",
        {
            "Classes/Counter.yaml": COUNTER,
            "Classes/Test.yaml": TESTS,
            "Classes/Bad.yaml": "Name: p.Bad\nMethods:\n  run:\n    Body:\n      - Fro: x\n",
        },
    )
    code, text = invoke("test", package, "-k", "testAdds")
    assert code == 1
    assert "p.Bad.(load) .... FAIL!" in text
    assert f"{package / 'Classes/Bad.yaml'}:5:" in text
    assert "did you mean For?" in text
    assert "1 passed, 1 failed" in text


def test_fail_fast_stops_at_the_first_failure(invoke, package):
    """-x leaves the rest out."""
    code, text = invoke("test", package, "-x")
    assert code == 1
    assert "Executed 2 tests" in text


def test_required_packages_are_found_beside_and_in_libraries(invoke, make_package, tmp_path):
    """A package's requirements come from the folders around it or from --library."""
    make_package(
        "q",
        {"Classes/A.yaml": "Namespaces: {=: q}\nName: A\nMethods: {one: {Body: {Return: 1}}}\n"},
    )
    tests = """\
        Namespaces: {=: p, test: io.murano.test}
        Name: ATest
        Extends: test:TestFixture
        Methods:
          testIt:
            Body: $.assertEqual(1, new('q.A').one())
        """
    package = make_package("p", {"Classes/T.yaml": tests}, extra="Require: {q: 0}\n")
    code, text = invoke("test", package)
    assert code == 0, text
    moved = tmp_path / "elsewhere" / "p"
    moved.parent.mkdir()
    os.rename(package, moved)
    code, text = invoke("test", moved)
    assert code == 1
    assert "q" in text
    code, text = invoke("test", moved, "-l", tmp_path)
    assert code == 0, text


def test_native_classes_of_plugins_are_there(invoke, make_package, install_plugin):
    """`run`, `test` and `check` know the native classes of installed distributions, as engines do; one
    that cannot be loaded is a warning."""
    code = """\
        class Till:
            @staticmethod
            def currency() -> str:
                return "EUR"
        """
    install_plugin(code, "acme.Till = acme_natives:Till", "acme.Gone = acme_natives:Gone")
    tests = """\
        Namespaces: {=: p, test: io.murano.test, acme: acme}
        Name: ATest
        Extends: test:TestFixture
        Methods:
          testIt:
            Body: $.assertEqual(EUR, acme:Till.currency())
          currency:
            Usage: Static
            Body: {Return: !yaql "acme:Till.currency()"}
        """
    package = make_package("p", {"Classes/T.yaml": tests})
    code, text = invoke("run", package, "--class", "p.ATest", "--method", "currency")
    assert code == 0, text
    assert '"result": "EUR"' in text
    assert "Warning: native class acme.Gone of acme_natives:Gone is not available: " in text
    code, text = invoke("test", package)
    assert code == 0, text
    assert "Executed 1 test" in text
    code, text = invoke("check", package)
    assert code == 0, text
    assert "acme:Till" not in text


def test_a_package_that_cannot_be_opened_says_so(invoke, tmp_path):
    """A directory without a manifest is one line and a hint."""
    code, text = invoke("test", tmp_path)
    assert code == 1
    assert f"{tmp_path}: there is no manifest.yaml" in text
    assert "Hint: A package is a directory with a manifest.yaml, or the zip" in text


def test_a_test_that_hangs_is_stopped(invoke, make_package):
    """--timeout ends a test that does not end by itself."""
    tests = """\
        Namespaces: {=: p, test: io.murano.test}
        Name: ATest
        Extends: test:TestFixture
        Methods:
          testIt:
            Body:
              - While: 1 = 1
                Do: {$x: 1}
        """
    code, text = invoke("test", make_package("p", {"Classes/T.yaml": tests}), "--timeout", "0.2")
    assert code == 1
    assert "seconds" in text


def test_a_machine_may_have_any_flavor_and_any_image(invoke, make_package):
    """Both are the operator's choice, which a package's tests cannot know."""
    text = """\
        Namespaces: {=: p, std: io.murano, res: io.murano.resources, test: io.murano.test}
        Name: FlavorTest
        Extends: test:TestFixtureWithEnvironment
        Methods:
          testDeploys:
            Body:
              - $environment: cast($this, test:TestFixtureWithEnvironment).environment
              - $vm: new(res:LinuxMuranoInstance, $environment,
                  name => vm, image => 'our-own', flavor => 'gold.large')
              - $vm.deploy()
              - $.assertTrue($vm.openstackId != null)
        """
    code, said = invoke("test", make_package("p", {"Classes/Test.yaml": text}))
    assert (code, "FAIL" in said) == (0, False), said
