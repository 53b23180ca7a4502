"""Every snippet of docs/language runs, and does what stands beside it.

What a fenced block is, its first line says:

    ```yaql            a line an expression; `# → value` (JSON) or `# → error Name` behind it
    ```json data       `$` of the yaql blocks that follow
    ```yaml class      class documents of the package `doc`; they stay for the rest of the page
    ```yaml body       a method's body; `# → value` or `# → error Name` in its last line
    ```yaml file=PATH  (any language) written to a directory of the page's own
    ```console         `$ command` lines and what they print; `# exit N` for another exit code
    ```repl [PATH]     `> input` lines and answers
    ```python          run; names stay for the rest of the page
    ```output          what the Python block above printed
    ```text            prose in fixed width: not run

`…` in an expected output stands for anything.
"""

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from vetro.cli import cli
from vetro.cli.offline.prompt import Mistake, Prompt
from vetro.cli.offline.world import open_world
from vetro.muranopl import DirectEffects, MuranoError, Runtime, loose_package
from vetro.packages import CODES
from vetro.yaql import YaqlException, evaluate, legacy_names

DOCS = Path(__file__).parents[2] / "docs" / "language"
PAGES = sorted(DOCS.glob("*.md"))
ELSEWHERE = {"yaql"}
"""Pages with a notation and a test of their own (`tests/yaql/test_documentation.py`)."""
FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.M | re.S)
EXPECTED = re.compile(r"\s*# → (.*)$")


def blocks(page):
    """`(line, info, text)` of each fenced block."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        indent = len(match.group(1))
        body = "".join(line[indent:] for line in match.group(3).splitlines(keepends=True))
        yield text.count("\n", 0, match.start()) + 1, match.group(2).strip(), body


def alike(observed, expected):
    """Whether an output is the expected one, where `…` stands for anything."""
    pattern = ".*?".join(re.escape(part) for part in expected.rstrip().split("…"))
    return re.fullmatch(pattern, observed.rstrip(), re.S) is not None


def same(observed, expected):
    """Equal as JSON: 1 is not true, but a tuple is a list."""
    plain = json.loads(json.dumps(observed, default=str))
    return json.dumps(plain, sort_keys=True) == json.dumps(expected, sort_keys=True)


class Page:
    """The state of a page while its blocks run in order."""

    def __init__(self, directory, monkeypatch):
        self.directory = directory
        monkeypatch.chdir(directory)
        monkeypatch.setenv("VETRO_CODE_CACHE", "")
        self.data = None
        self.classes = []
        self.names = {"__name__": "__docs__"}
        self.printed = ""

    def run(self, info, text, capsys):
        kind, _, rest = info.partition(" ")
        if "file=" in info:
            path = self.directory / info.partition("file=")[2]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif (kind, rest) == ("json", "data"):
            self.data = json.loads(text)
        elif (kind, rest) == ("yaml", "class"):
            self.classes.append(text)
            self.runtime()
        elif (kind, rest) == ("yaml", "body"):
            self.body(text)
        elif kind == "yaql":
            self.expressions(text)
        elif kind == "console":
            self.console(text)
        elif kind == "repl":
            self.repl(rest, text)
        elif kind == "python":
            capsys.readouterr()
            exec(compile(text, "<docs>", "exec"), self.names)
            self.printed = capsys.readouterr().out
        elif kind == "output":
            assert alike(self.printed, text), self.printed
        else:
            assert kind == "text", f"the block says {info!r}, which means nothing here"

    def runtime(self, *more):
        made = Runtime()
        package = loose_package("doc", *self.classes, *more)
        made.add_package(package)
        for name in package.classes:
            _ = made.type(name).assembly
        return made

    def body(self, text):
        lines = text.rstrip().splitlines()
        expected = EXPECTED.match(lines[-1])
        assert expected, "a body ends with `# → value`"
        indented = "".join(f"      {line}\n" for line in lines[:-1])
        main = "Namespaces: {=: doc}\nName: Snippet\nMethods:\n  run:\n    Body:\n" + indented
        with self.runtime(main).session(effects=DirectEffects(seed=1)) as session:
            try:
                target = session.load({"Objects": {"?": {"type": "doc.Snippet", "id": "snippet"}}})
                value = session.to_plain(session.call(target, "run"))
            except MuranoError as error:
                check_error(error.names, error.message, expected.group(1), text)
                return
        check_value(value, expected.group(1), text)

    def expressions(self, text):
        for line in text.splitlines():
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            source, arrow, expected = line.partition("# → ")
            assert arrow, f"{line!r} says no result"
            try:
                value = evaluate(source.strip(), self.data)
            except (YaqlException, LookupError, TypeError, ValueError, ArithmeticError) as error:
                names = [cls.__name__ for cls in type(error).__mro__]
                names += legacy_names(error)
                check_error(names, str(error), expected.strip(), line)
                continue
            check_value(value, expected.strip(), line)

    def console(self, text):
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            command, _, expected = part.partition("\n")
            code = re.search(r"^# exit (\d+)\n?", expected, re.M)
            if code is not None:
                expected = expected.replace(code.group(), "")
            words = shlex.split(command)
            assert words[0] == "vetro", command
            result = CliRunner().invoke(cli, words[1:])
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            assert result.exit_code == (int(code.group(1)) if code else 0), result.output
            if expected.strip():
                assert alike(result.output, expected), f"$ {command}\n{result.output}"

    def repl(self, rest, text):
        prompt = Prompt(open_world([Path(rest)] if rest else []))
        try:
            for part in re.split(r"^> ", text, flags=re.M)[1:]:
                lines = part.splitlines()
                count = 1
                while count < len(lines) and lines[count].startswith("... "):
                    count += 1
                source = "\n".join([lines[0], *(line[4:] for line in lines[1:count])])
                try:
                    answer = prompt.answer(source)
                except (MuranoError, Mistake) as error:
                    answer = prompt.explain(error) if isinstance(error, MuranoError) else str(error)
                assert alike(answer, "\n".join(lines[count:])), f"> {source}\n{answer}"
        finally:
            prompt.close()


def check_value(value, expected, where):
    assert not expected.startswith("error "), f"{where}: no error, but {value!r}"
    assert same(value, json.loads(expected)), f"{where}: {value!r}"


def check_error(names, message, expected, where):
    assert expected.startswith("error "), f"{where}: {names[0]}: {message}"
    name, _, part = expected.removeprefix("error ").partition(": ")
    assert any(item.rpartition(".")[2] == name for item in names), f"{where}: {names}"
    assert part in message, f"{where}: {message}"


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.stem not in ELSEWHERE], ids=lambda path: path.stem
)
def test_the_snippets_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    """Each block of the page, in order, does what the page says."""
    state = Page(tmp_path, monkeypatch)
    count = 0
    for line, info, text in blocks(page):
        try:
            state.run(info, text, capsys)
        except BaseException as error:
            error.add_note(f"in {page.name}, line {line}: ```{info}")
            raise
        count += 1
    if page.stem not in ("README", "cases"):
        assert count > 3, "a page of this reference shows what it says"


def test_a_wrong_snippet_is_noticed(tmp_path, monkeypatch, capsys):
    """The checks themselves fail for a wrong value, a missing error, an unknown block."""
    state = Page(tmp_path, monkeypatch)
    for info, text in (
        ("yaql", "1 + 1  # → 3\n"),
        ("yaql", "1 + 1  # → error TypeError\n"),
        ("yaql", "1 + 1\n"),
        ("yaml body", "- Return: 1\n# → true\n"),
        ("yaml body", "- Throw: Bad\n# → 1\n"),
        ("console", "$ vetro eval 1\n2\n"),
        ("console", "$ vetro eval '1 +'\n"),
        ("repl", "> 1 + 1\n3\n"),
        ("nonsense", "x"),
    ):
        with pytest.raises(AssertionError):
            state.run(info, text, capsys)
    state.run("python", "print('a')\n", capsys)
    with pytest.raises(AssertionError):
        state.run("output", "b\n", capsys)


def test_links_lead_somewhere():
    """Relative links of the pages name files and headings that exist."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#\s]*)(?:#[^)]*)?\)", text):
            if target and "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_lint_code_is_documented():
    """The table of errors.md is that of the command."""
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| ([EW]\d{3}) \| (.*) \|$", text, re.M)) == CODES
