"""What people give as JSON or YAML, and text that is neither."""

import io

import pytest

from vetro.cli.terminal.documents import NotADocument, json_or_text, read_json, read_yaml

DEEP = "[" * 100_000 + "]" * 100_000
NOT_TEXT = b"\xff\xfe\x00\x80"


@pytest.mark.parametrize("text", ["", "{", "nope", "[1,]", DEEP])
def test_what_is_no_json_is_one_line(text):
    """Whatever is wrong with it, also its depth."""
    with pytest.raises(NotADocument) as caught:
        read_json(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["{", "a: b: c", "\x00", "a: !!python/object:os.x 1", DEEP])
def test_what_is_no_yaml_is_one_line(text):
    """No tag makes objects, no depth ends the process."""
    with pytest.raises(NotADocument) as caught:
        read_yaml(text)
    assert "\n" not in str(caught.value)


def test_values_are_read():
    """JSON first, YAML then; a text that is no JSON is itself."""
    assert read_json('{"a": [1]}') == {"a": [1]}
    assert read_yaml("a: [1, x]") == {"a": [1, "x"]}
    assert [json_or_text(text) for text in ("5", "true", "five", '"5"')] == [5, True, "five", "5"]


@pytest.mark.parametrize("content", [DEEP.encode(), NOT_TEXT, b"- \x00"])
def test_files_that_are_no_models_are_one_line(invoke, make_package, tmp_path, content):
    """`vetro run --model`, `:model` and `eval --data -` explain themselves."""
    package = make_package(
        "p", {"Classes/A.yaml": "Namespaces: {=: p}\nName: A\nMethods: {m: {}}\n"}
    )
    file = tmp_path / "model"
    file.write_bytes(content)
    code, text = invoke("run", package, "--class", "p.A", "--method", "m", "--model", file)
    assert (code, text.splitlines()[0].startswith(f"Error: {file}")) == (2, True), text
    code, text = invoke("repl", package, "--model", file)
    assert code != 0
    assert text.startswith("Error: ")
    code, text = invoke("eval", "$", "--data", "-", input=io.BytesIO(content))
    assert (code, text.startswith("Error: ")) == (2, True), text


def test_a_script_that_is_no_text_is_answered(invoke):
    """Bytes that are no UTF-8 are a mistake like any other."""
    code, text = invoke("repl", "--without-library", input=b"1 + 1\n\xff\xfe\n2 + 2\n")
    assert code == 1
    assert "2\n" in text
    assert "4\n" in text
