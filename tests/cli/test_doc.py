"""``vetro doc``: Markdown from classes, metadata and comments."""

import json
from pathlib import Path

import pytest

SHOP = """\
    Namespaces: {=: p, m: io.murano.metadata, f: io.murano.metadata.forms}
    # Sells things. In every size.
    Name: Shop
    Extends: Base
    Properties:
      # What it costs | in coins.
      price: {Contract: $.int().notNull(), Default: 3}
      inner: {Contract: $, Meta: [f:Hidden]}
    Methods:
      sell:
        Scope: Public
        Meta:
          - m:Title: {text: Sell}
          - m:Description: {text: Sells some of it.}
          - m:HelpText: {text: Press once}
        Arguments:
          - amount:
              Contract: $.int().notNull()
              Default: 1
              Meta: [m:Description: {text: How many}]
          - rest: {Contract: $.string(), Usage: VarArgs}
      twice: {Usage: Static}
    ---
    Name: Base
    Properties:
      id: {Contract: $.string()}
    Methods:
      close: {}
    ---
    Namespaces: {=: p, t: io.murano.test}
    Name: ShopTest
    Extends: t:TestFixture
    """
CLASSES = {f"p.{name}": "Shop.yaml" for name in ("Shop", "Base", "ShopTest")}


@pytest.fixture
def package(make_package):
    extra = "Require: {q: '>=1'}\nTags: [a, b]\n"
    return make_package("p", {"Classes/Shop.yaml": SHOP}, classes=CLASSES, extra=extra)


@pytest.fixture(autouse=True)
def required(make_package):
    make_package("q", {"Classes/A.yaml": "Name: q.A\n"}, extra="Version: 1.0.0\n")


def test_one_document_on_standard_output(invoke, package):
    """Package facts, then each class with properties, actions and methods; no test classes."""
    code, text = invoke("doc", package)
    assert code == 0, text
    assert text.startswith("# p\n\nA package\n")
    assert "| Requires | `q` >=1 |" in text
    assert "| `p.Shop` | Sells things. |" in text
    assert (
        "## p.Shop\n\nSells things. In every size.\n\nExtends `p.Base` → `io.murano.Object`."
        in text
    )
    assert "| `price` | `$.int().notNull()` | In | `3` | What it costs \\| in coins. |" in text
    assert "inner" not in text
    assert (
        "### Actions\n\n#### `sell(amount => 1, *rest)`\n\n**Sell**\n\nSells some of it.\n\n> Press once"
        in text
    )
    assert "| `amount` | `$.int().notNull()` |  | `1` | How many |" in text
    assert "| `rest` | `$.string()` | VarArgs |  |  |" in text
    assert "#### `twice()` (Static)" in text
    assert "Inherited: `id` (`p.Base`)." in text
    assert "ShopTest" not in text
    assert "p.ShopTest" in invoke("doc", package, "--tests")[1]


def test_pages_in_a_directory(invoke, package, tmp_path):
    """--output writes a first page and one page a class, with links between them."""
    target = tmp_path / "out" / "pages"
    code, text = invoke("doc", package, "--output", target)
    assert code == 0
    assert sorted(path.name for path in target.iterdir()) == ["README.md", "p.Base.md", "p.Shop.md"]
    assert text.splitlines() == [str(target / n) for n in ("README.md", "p.Shop.md", "p.Base.md")]
    assert "| [p.Shop](p.Shop.md) | Sells things. |" in (target / "README.md").read_text()
    page = (target / "p.Shop.md").read_text()
    assert page.startswith("# p.Shop\n")
    assert "Extends [p.Base](p.Base.md) → `io.murano.Object`." in page
    assert "Inherited: `close` ([p.Base](p.Base.md))." in page
    again = tmp_path / "again"
    code, text = invoke("doc", package, "--output", again, "--json")
    assert code == 0
    assert json.loads(text)["files"][0] == str(again / "README.md")
    assert (again / "p.Shop.md").read_text() == page


def test_the_same_as_json(invoke, package):
    """--json gives the descriptions for other programs."""
    _, text = invoke("doc", package, "--json")
    shop, base = json.loads(text)
    assert (shop["name"], base["name"]) == ("p.Shop", "p.Base")
    assert shop["methods"][0]["arguments"][0]["default"] == "1"


def test_a_package_that_does_not_compile_says_where(invoke, make_package):
    """A broken class ends the command with its place."""
    package = make_package("r", {"Classes/A.yaml": "Name: r.A\nProperties: 5\n"})
    code, text = invoke("doc", package)
    assert code == 1
    assert "r/Classes/A.yaml" in text


def test_the_class_library_has_a_reference(invoke, tmp_path):
    """Native methods, hidden properties and long contracts of the library are all rendered."""

    library = Path(__file__).parents[2] / "library" / "io.murano"
    code, _ = invoke("doc", library, "--output", tmp_path)
    assert code == 0
    page = (tmp_path / "io.murano.Environment.md").read_text()
    assert "| `applications` | `[$.class(Application).owned().notNull()]`" in page
    assert "#### `deploy()`" in page or "### `deploy()`" in page


def test_the_class_library_has_a_reference_with_native_classes(invoke):
    """By name, wherever it is installed; native classes have their methods, defaults and texts."""
    code, text = invoke("doc", "io.murano")
    assert code == 0
    for heading in ("io.murano.Environment", "io.murano.system.Agent", "io.murano.Object"):
        assert f"\n## {heading}\n" in text
    agent = text.partition("\n## io.murano.system.Agent\n")[2].partition("\n## ")[0]
    assert agent.startswith("\nThe agent of one instance.\n")
    assert '#### `signingKey(linePrefix => "")`' in agent
    assert "The engine's public key" in agent
