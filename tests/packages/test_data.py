"""Data files of packages: read within limits (core-library.md section 4.1)."""

import pytest

from vetro.packages import DataError, read_json, read_yaml, text_of


def test_a_yaml_file_is_plain_data():
    """Dates stay text; lines end as in Unix."""
    assert read_yaml(b"when: 2020-01-01\r\nx: [1, null]\n", "a") == {
        "when": "2020-01-01",
        "x": [1, None],
    }
    assert read_json(b'{"x": [1]}', "a") == {"x": [1]}


@pytest.mark.parametrize(
    ("reader", "content", "words"),
    [
        (read_yaml, b"[" * 200_000 + b"]" * 200_000, "a:1:101: nested deeper than 100"),
        (read_yaml, b"a: &a [1, 1]\n" + b"b: [" + b"*a, " * 400_000 + b"]", "nodes"),
        (read_yaml, b"a: [\n", "a:2:1: not YAML"),
        (read_yaml, b"a: !!python/name:os.system x", "a:1:4: not YAML"),
        (read_yaml, b"\xff\xfe\x00", "a: not UTF-8"),
        (read_json, b"[" * 200_000 + b"]" * 200_000, "a:1:101: nested deeper than 100"),
        (read_json, b"{\n", "a:2:1: not JSON"),
        (read_json, b"9" * 10_000, "a: not JSON"),
        (text_of, b"\xff", "a: not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(reader, content, words):
    """Too deep, too much, not what it is read as: an error of data, never the end of the process."""
    with pytest.raises(DataError) as caught:
        reader(content, "a")
    assert words in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_an_alias_counts_as_often_as_what_it_stands_for():
    """A bomb of nested aliases is refused before it is built."""
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(DataError, match="nodes"):
        read_yaml("\n".join(lines).encode(), "a")
