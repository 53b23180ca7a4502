"""``vetro run`` and ``vetro eval``."""

import json

import pytest

MAIN = """\
    Namespaces: {=: t.p, std: io.murano}
    Name: Main
    Properties:
      size: {Contract: $.int().notNull(), Default: 1}
      part: {Contract: $.class(Part)}
    Methods:
      add:
        Arguments:
          - a: {Contract: $.int().notNull()}
          - b: {Contract: $.int().notNull()}
        Body:
          - Return: $a + $b + $.size
      twice:
        Usage: Static
        Arguments:
          - text: {Contract: $.string().notNull()}
        Body:
          - Return: $text + $text
      fails:
        Body:
          - $.deeper()
      deeper:
        Body:
          - Throw: TooBad
            Message: it failed
    ---
    Namespaces: {=: t.p}
    Name: Part
    Properties:
      weight: {Contract: $.int().notNull()}
    Methods:
      double:
        Body: {Return: $.weight * 2}
    """
CLASSES = {"t.p.Main": "Main.yaml", "t.p.Part": "Main.yaml"}


@pytest.fixture
def package(make_package):
    return make_package("t.p", {"Classes/Main.yaml": MAIN}, classes=CLASSES)


def result_of(answer):
    """The exit code, and the result in the document that was printed."""
    code, text = answer
    return code, json.loads(text)["result"] if code == 0 else text


def call(package, method, *arguments, class_name="t.p.Main"):
    return ("run", package, "--class", class_name, "--method", method, *arguments)


def test_a_method_is_called_on_a_new_object(invoke, package):
    """Arguments are JSON; the result and both times are one JSON document."""
    code, text = invoke(*call(package, "add", "--arg", "a=2", "--arg", "b=3", "--json"))
    assert code == 0, text
    document = json.loads(text)
    assert sorted(document) == ["load_seconds", "result", "seconds"]
    assert document["result"] == 6
    assert document["load_seconds"] > 0
    assert document["seconds"] > 0


def test_the_document_is_the_same_without_json(invoke, package):
    """--json changes nothing; text arguments need no quotes."""
    code, text = invoke(*call(package, "twice", "--arg", "text=ab"))
    assert (code, list(json.loads(text))) == (0, ["result", "load_seconds", "seconds"])
    assert json.loads(text)["result"] == "abab"


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_model_is_loaded_first(invoke, package, tmp_path, whole, form):
    """A model, or its root alone, in JSON or YAML; the method is that of the object of the class."""
    root = {
        "?": {"type": "t.p.Main", "id": "a"},
        "size": 10,
        "part": {"?": {"type": "t.p.Part", "id": "b"}, "weight": 4},
    }
    model = {"Objects": root} if whole else root
    file = tmp_path / "model"
    text = json.dumps(model)
    file.write_text(text if form == "json" else "# a comment\n" + text)
    arguments = ("--arg", "a=1", "--arg", "b=1", "--model", file)
    assert result_of(invoke(*call(package, "add", *arguments))) == (0, 12)
    doubled = invoke(*call(package, "double", "--model", file, class_name="t.p.Part"))
    assert result_of(doubled) == (0, 8)


def test_a_failure_shows_the_trace_of_the_program(invoke, package):
    """Name, message and MuranoPL stack with file, line and instruction; exit 1."""
    code, text = invoke(*call(package, "fails"))
    assert code == 1
    assert "Error: t.p.TooBad: it failed" in text
    assert 'File "t.p/Classes/Main.yaml", line 21:9 in method fails of type t.p.Main' in text
    assert "in method deeper of type t.p.Main" in text
    assert "Throw: t.p.TooBad" in text
    assert "StackFrame(" not in text


@pytest.mark.parametrize(
    ("class_name", "method", "message"),
    [
        ("t.p.Mian", "add", "did you mean t.p.Main?"),
        ("t.p.Main", "ad", "did you mean add?"),
        ("t.p.Main", "add", "[t.p.Main::add(a"),
    ],
)
def test_mistakes_are_explained(invoke, package, class_name, method, message):
    """Unknown classes and methods get a suggestion, missing arguments their contract."""
    code, text = invoke(*call(package, method, class_name=class_name))
    assert code == 1
    assert message in text
    assert 'Traceback (most recent call last):\n  File "/' not in text


def test_a_class_that_cannot_be_compiled_is_shown_with_its_place(invoke, make_package):
    """An error in the source names file, line and column."""
    package = make_package(
        "t.p", {"Classes/Main.yaml": "Name: t.p.Main\nMethods:\n  m:\n    Body: {Iff: 1}\n"}
    )
    code, text = invoke(*call(package, "m"))
    assert code == 1
    assert 'File "t.p/Classes/Main.yaml", line 4:' in text


def test_a_model_without_the_class_is_refused(invoke, package, tmp_path):
    """The command says how many objects of the class the model has."""
    file = tmp_path / "model"
    file.write_text(json.dumps({"?": {"type": "t.p.Main", "id": "a"}}))
    code, text = invoke(*call(package, "double", "--model", file, class_name="t.p.Part"))
    assert code == 1
    assert "The model has 0 objects of t.p.Part" in text
    file.write_text("[1, 2]")
    code, text = invoke(*call(package, "add", "--model", file))
    assert code == 2
    assert "a model is a map" in text


def test_the_class_library_works_on_a_cloud_in_memory(invoke, make_package, tmp_path):
    """An application deploys in this process, without machines."""
    text = """\
        Namespaces: {=: t.p, std: io.murano, res: io.murano.resources}
        Name: App
        Extends: std:Application
        Properties:
          instance: {Contract: $.class(res:LinuxMuranoInstance).notNull()}
        Methods:
          deploy:
            Body:
              - $.instance.deploy()
              - Return: $.instance.ipAddresses
        """
    package = make_package("t.p", {"Classes/App.yaml": text})
    model = {
        "?": {"type": "io.murano.Environment", "id": "e"},
        "name": "env",
        "defaultNetworks": {
            "environment": {
                "?": {"type": "io.murano.resources.NeutronNetwork", "id": "n"},
                "name": "net",
            },
            "flat": None,
        },
        "applications": [
            {
                "?": {"type": "t.p.App", "id": "a"},
                "instance": {
                    "?": {"type": "io.murano.resources.LinuxMuranoInstance", "id": "i"},
                    "name": "host",
                    "flavor": "m1.small",
                    "image": "debian",
                },
            }
        ],
    }
    file = tmp_path / "model.json"
    file.write_text(json.dumps(model))
    code, output = invoke(*call(package, "deploy", "--model", file, class_name="t.p.App"))
    assert code == 0, output
    (address,) = json.loads(output)["result"]
    assert address.count(".") == 3


def test_eval_reads_data_from_standard_input(invoke):
    """`--data -` takes the JSON that is piped in."""
    assert invoke("eval", "$.a.sum()", "--data", "-", input='{"a": [1, 2]}') == (0, "3\n")


def test_eval_says_which_data_is_wrong(invoke):
    """Data that is no JSON is wrong usage."""
    code, text = invoke("eval", "$", "--data", "{")
    assert code == 2
    assert "--data is not JSON" in text


def test_compiled_classes_are_kept_for_the_next_run(invoke, package, tmp_path, monkeypatch):
    """VETRO_CODE_CACHE names the directory (default: the user's cache); empty keeps nothing."""
    from vetro.cli.offline.world import code_cache_directory

    cache = tmp_path / "cache"
    monkeypatch.setenv("VETRO_CODE_CACHE", str(cache))
    assert invoke(*call(package, "twice", "--arg", "text=ab"))[0] == 0
    kept = {path.name: path.stat().st_mtime_ns for path in cache.iterdir()}
    assert len(kept) > 1
    assert invoke(*call(package, "twice", "--arg", "text=ab"))[0] == 0
    assert {path.name: path.stat().st_mtime_ns for path in cache.iterdir()} == kept
    monkeypatch.setenv("VETRO_CODE_CACHE", "")
    assert code_cache_directory() is None
    monkeypatch.delenv("VETRO_CODE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert code_cache_directory() == tmp_path / "vetro" / "code"


def test_eval_takes_variables_and_the_older_flavour(invoke):
    """`--var` gives $name; `--legacy` is the language of packages in format 1.0."""
    assert invoke("eval", "$a + $b", "--var", "a=1", "--var", "b=2") == (0, "3\n")
    assert invoke("eval", "$.x", "--data", "{}", "--legacy") == (0, "null\n")
    assert invoke("eval", "$.x", "--data", "{}")[0] == 1
