"""``vetro repl``: what is answered, completed, remembered; at a terminal and from a pipe."""

import codecs
import os
import pty
import select
import sys
from pathlib import Path

import pytest

from vetro.cli.offline.prompt import Mistake, Prompt, Quit, needs_more, render
from vetro.cli.offline.world import open_world
from vetro.muranopl import MuranoError

SHOP = """\
    Namespaces: {=: p}
    # Sells things.
    Name: Shop
    Properties:
      price: {Contract: $.int().notNull(), Default: 3}
      stock: {Contract: {}, Usage: InOut, Default: {apple: 2}}
      branch: {Contract: $.class(Shop)}
      later: {Contract: $.int(), Usage: Runtime}
    Methods:
      cost:
        Scope: Public
        Arguments:
          - amount: {Contract: $.int().notNull()}
        Body: {Return: $.price * $amount}
      hide:
        Body: {$.secret: 42}
      loop:
        Body:
          - logger(prompt).warning(started)
          - While: 1 = 1
            Do: {$x: 1}
    """


@pytest.fixture
def package(make_package):
    return make_package("p", {"Classes/Shop.yaml": SHOP})


@pytest.fixture
def prompt(package):
    made = Prompt(open_world([package]))
    yield made
    made.close()


def ask(prompt, *lines):
    """The answer to the last of some inputs."""
    answer = None
    for line in lines:
        answer = prompt.answer(line)
    return answer


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["1 + 2"], "3"),
        (["$x: 5", "$x * 2"], "10"),
        (["$x: 5"], ""),
        (["null"], ""),
        (["5", "$_ + 1"], "6"),
        (["[1, {a => 'b'}]"], '[1, {"a": "b"}]'),
        (["new(Shop).cost(4)"], "12"),
        (["$s: new('p.Shop', price => 7)", "$s.cost(2)"], "14"),
        (["$s: new(Shop)", "$s.price"], "3"),
        (["For: i\nIn: [1, 2]\nDo:\n  $n: coalesce($n, 0) + $i\n", "$n"], "3"),
        ([""], ""),
        (["- $a: 1\n- $b: 2\n- $a + $b"], "3"),
        ([":Shop"], "<class p.Shop>"),
        (["$o: new(Shop)", "$o is Shop"], "true"),
    ],
)
def test_input_is_answered(prompt, lines, answer):
    """Expressions show their value, statements run, variables stay."""
    assert ask(prompt, *lines).replace('"<class', "<class").replace('>"', ">") == answer


def test_a_failed_input_leaves_everything_as_it_was(prompt):
    """Errors are the program's; the prompt goes on."""
    prompt.answer("$x: 5")
    with pytest.raises(MuranoError) as caught:
        prompt.answer("$x.nonsense()")
    assert "nonsense" in prompt.explain(caught.value)
    assert prompt.answer("$x") == "5"
    with pytest.raises(MuranoError) as caught:
        prompt.answer("new(Shpo)")
    assert "Hint: did you mean p.Shop?" in prompt.explain(caught.value)


def test_objects_are_inspected(prompt):
    """:show lists properties, owner and what has no value; a class shows what it offers."""
    text = ask(prompt, "$s: new(Shop, branch => {})", ":show $s")
    lines = text.splitlines()
    assert lines[0].startswith("p.Shop ")
    assert "  price: 3" in lines
    assert '  stock: {"apple": 2}' in lines
    assert any(line.startswith('  branch: "<p.Shop ') for line in lines)
    assert "  later: (no value)" in lines
    assert "  owner: " in ask(prompt, ":show $s.branch")
    for name in ("Shop", "p.Shop", ":Shop"):
        text = ask(prompt, f":show {name}")
        assert "Sells things." in text
        assert "cost(amount) (Runtime, action)" in text
        assert "stock: {} = {apple: 2} (InOut)" in text
    assert ask(prompt, ":show 1 + 1") == "2"


def test_an_object_is_used_as_its_own_code_would(prompt):
    """After :use, `$` is the object and its private properties are seen; :use alone goes back."""
    ask(prompt, "$s: new(Shop)", "$s.hide()")
    assert ask(prompt, ":use $s").startswith('$ is "<p.Shop ')
    assert ask(prompt, "$.secret") == "42"
    assert ask(prompt, "$.cost(2)") == "6"
    assert ask(prompt, ":use") == "$ is the prompt's own object"
    with pytest.raises(MuranoError):
        prompt.answer("$.secret")
    with pytest.raises(Mistake, match="is no object"):
        prompt.answer(":use 5")


def test_models_are_loaded_and_dumped(prompt, tmp_path):
    """:model puts the root into $root; :objects and :dump show what is there."""
    file = tmp_path / "m.yaml"
    file.write_text("?: {type: p.Shop, id: a, name: main}\nbranch: {'?': {type: p.Shop, id: b}}\n")
    assert ask(prompt, f":model {file}") == '"<p.Shop a>"'
    assert ask(prompt, "$root.branch.cost(1)") == "3"
    assert sorted(ask(prompt, ":objects").splitlines()) == ["a  p.Shop  main", "b  p.Shop"]
    assert ask(prompt, ":objects main") == "a  p.Shop  main"
    assert '"id": "a"' in ask(prompt, ":dump")
    assert '"id": "b"' in ask(prompt, ":dump $root.branch")
    with pytest.raises(Mistake, match="No such file"):
        prompt.answer(":model nothing.json")


def test_packages_are_loaded_meanwhile(prompt, make_package):
    """:load adds a package, whose classes are then seen."""
    other = make_package(
        "q",
        {"Classes/A.yaml": "Namespaces: {=: q}\nName: A\nMethods: {one: {Body: {Return: 1}}}\n"},
    )
    with pytest.raises(MuranoError):
        prompt.answer("new('q.A')")
    assert ask(prompt, f":load {other}") == "q 0.0.0: q.A"
    assert ask(prompt, "new('q.A').one()") == "1"
    assert ask(prompt, ":classes q.") == "q.A"
    with pytest.raises(Mistake, match="manifest"):
        prompt.answer(f":load {other.parent}")


def test_the_other_commands(prompt):
    """:vars, :functions, :help, :reset, :quit, and one that does not exist."""
    assert ask(prompt, "$x: 1", ":vars") == "$x: 1"
    assert "toUpper" in ask(prompt, ":functions upper")
    assert ":show" in ask(prompt, ":help")
    assert ask(prompt, ":reset", ":vars") == ""
    assert ask(prompt, "new(Shop).cost(1)") == "3"
    with pytest.raises(Quit):
        prompt.answer(":quit")
    with pytest.raises(Mistake, match="no command :nonsense"):
        prompt.answer(":nonsense")
    for command in (":load", ":model", ":show"):
        with pytest.raises(Mistake, match="takes"):
            prompt.answer(command)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (":cl", [":classes"]),
        (":", [":help", ":load", ":model", ":classes", ":show", ":use", ":vars", ":objects"]),
        ("$sh", ["$shop"]),
        ("$shop.p", ["$shop.price"]),
        ("1 + $shop.c", ["$shop.cost("]),
        ("$shop.stock.a", ["$shop.stock.apple"]),
        ("$shop.price.toUp", ["$shop.price.toUpper("]),
        ("new(Sh", ["Shop"]),
        ("new(p.S", ["p.Shop"]),
        (":show p", ["p.Shop"]),
        ("coal", ["coalesce("]),
        ("$none.x", []),
        ("$shop.cost(1).x", []),
        ("", []),
    ],
)
def test_words_are_completed(prompt, line, expected):
    """Commands, variables, members of values, classes, functions; nothing is called for it."""
    prompt.answer("$shop: new(Shop)")
    found = prompt.complete(line)
    assert found[: len(expected)] == expected if expected else found == []


def test_paths_are_completed(prompt, package):
    """After :load the names of files are offered."""
    assert prompt.complete(f":load {package}/Cl") == [f"{package}/Classes/"]
    assert prompt.complete(":load /nonsense/x") == []


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("1 + 2", False),
        ("foo(1,", True),
        ("foo('(')", False),
        ("If: $x", True),
        ("If: $x\nThen: 1", True),
        ("If: $x\nThen: 1\n", False),
        ("$x:", True),
        ("$x: 5", False),
        (":Shop", False),
        (":show x", False),
    ],
)
def test_a_block_ends_with_an_empty_line(text, more):
    """What is unfinished asks for more."""
    assert needs_more(text) is more


def test_long_values_are_cut():
    """A huge value does not flood the screen."""
    text = render(["x" * 10_000])
    assert len(text) < 4_200
    assert "characters)" in text


# -- from a pipe ---------------------------------------------------------------------------------


def test_standard_input_is_a_script(invoke, package):
    """Every line runs; the exit code says whether all went well."""
    script = "$s: new(Shop)\n$s.cost(2)\nIf: $s.price > 1\nThen:\n  - $y: 8\n\n$y\n"
    assert invoke("repl", package, input=script) == (0, "6\n8\n")
    code, text = invoke("repl", package, input="$nope.x()\n1 + 1\n:bad\n")
    assert code == 1
    assert "2" in text.splitlines()
    assert "Error: there is no command :bad" in text


def test_a_model_is_loaded_at_the_start(invoke, package, tmp_path):
    """--model makes $root."""
    file = tmp_path / "m.json"
    file.write_text('{"?": {"type": "p.Shop", "id": "a"}, "price": 5}')
    assert invoke("repl", package, "--model", file, input="$root.cost(2)\n") == (0, "10\n")
    code, text = invoke("repl", package, "--model", tmp_path / "none", input="")
    assert code == 2
    assert "there is no such file" in text


def test_without_packages_it_is_a_calculator(invoke):
    """The language alone is enough."""
    assert invoke("repl", input="[1, 2].sum()\n") == (0, "3\n")


# -- at a terminal -------------------------------------------------------------------------------


class Terminal:
    """A child process at a pseudo-terminal."""

    def __init__(self, arguments, environment):
        self.seen = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.pid, self.fd = pty.fork()
        if self.pid == 0:  # pragma: no cover - the child
            script = "from vetro.cli import main; main()"
            os.execve(sys.executable, [sys.executable, "-c", script, *arguments], environment)

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text, seconds=60):
        """Read until the text has appeared; what came before it is forgotten."""
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], seconds)
            assert ready, f"{text!r} did not come; there was {self.seen!r}"
            try:
                part = os.read(self.fd, 4096)
            except OSError:
                part = b""
            assert part, f"the end came before {text!r}; there was {self.seen!r}"
            self.seen += self.decoder.decode(part)
        before, _, self.seen = self.seen.partition(text)
        return before

    def end(self):
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def environment(tmp_path):
    return {
        **os.environ,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TERM": "dumb",
        "INPUTRC": "/dev/null",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


def test_a_conversation_at_a_terminal(package, environment):
    """Prompt, completion by Tab, a block, an interrupted loop, history, Ctrl-D."""
    terminal = Terminal(["repl", str(package)], environment)
    terminal.expect("> ")
    terminal.type("$shop: new(Shop)\n")
    terminal.expect("> ")
    terminal.type("$shop.pri\t + 1\n")
    terminal.expect("\n4")
    terminal.expect("> ")
    terminal.type("If: $shop.price = 3\n")
    terminal.expect("... ")
    terminal.type("Then:\n")
    terminal.expect("... ")
    terminal.type("  - $y: yes\n\n")
    terminal.expect("> ")
    terminal.type("$shop.loop()\n")
    terminal.expect("started")
    terminal.type("\x03")
    terminal.expect("interrupted")
    terminal.expect("> ")
    terminal.type("$shop.cost(7)\n")
    terminal.expect("\n21")
    terminal.expect("> ")
    terminal.type("\x04")
    assert terminal.end() == 0
    history = Path(environment["XDG_STATE_HOME"]) / "vetro" / "repl_history"
    assert "$shop.price + 1" in history.read_text(encoding="utf-8")
    assert history.stat().st_mode & 0o077 == 0


def test_no_history_leaves_no_file(environment):
    """--no-history writes nothing."""
    terminal = Terminal(["repl", "--no-history"], environment)
    terminal.expect("> ")
    terminal.type(":quit\n")
    assert terminal.end() == 0
    assert not Path(environment["XDG_STATE_HOME"]).exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 +", "the expression ends too early"),
        (")", "is not expected"),
        ("$x.", "too early"),
        ("Throw: Trouble", "p.Trouble"),
        ("a: b", "no statement has the key a"),
        ("new(p.Shop)", "stands in quotes: new('org.acme.App')"),
        ("new(Nothing)", "Nothing"),
        ("{a: 1}", "no statement has the key a"),
        ("- - -", "a list is not a statement"),
        ("Break:\n", "Break outside a loop"),
        ("range(100000000)", "1000000 elements"),
    ],
)
def test_bad_input_is_explained(prompt, line, said):
    """What is wrong is said in the words of what was meant; the conversation goes on."""
    with pytest.raises(MuranoError) as caught:
        prompt.answer(line)
    assert said in prompt.explain(caught.value)
    assert prompt.answer("1 + 1") == "2"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (":nope", "there is no command :nope"),
        (":load", "takes the path"),
        (":load /nowhere", "/nowhere"),
        (":load /etc/passwd", "/etc/passwd: Incorrect package format"),
        (":model", "takes the name"),
        (":model /nowhere", "No such file"),
        (":show", "takes an expression"),
        (":show Nothing", "there is no class Nothing"),
        (":use 5", "5 is no object"),
    ],
)
def test_bad_commands_are_explained(prompt, line, said):
    """A command that cannot be done says why and what it takes."""
    with pytest.raises(Mistake, match=said):
        prompt.answer(line)
