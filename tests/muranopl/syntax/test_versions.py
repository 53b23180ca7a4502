"""Version specs: the table of muranopl.md section 5."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vetro.muranopl.syntax.versions import Version, VersionSpec

CASES = [
    ("", ["0.0.0", "0.9.9"], ["1.0.0", "1.0.0-rc.1"]),
    ("0", ["0.0.0", "0.3.1"], ["1.0.0"]),
    ("1", ["1.0.0", "1.9.9"], ["0.9.9", "2.0.0", "2.0.0-alpha"]),
    ("==1", ["1.0.0", "1.9.9"], ["0.9.9", "2.0.0"]),
    ("1.2", ["1.2.0", "1.2.9"], ["1.1.9", "1.3.0"]),
    ("=1.2", ["1.2.0", "1.2.9"], ["1.1.9", "1.3.0"]),
    ("1.2.3", ["1.2.3"], ["1.2.2", "1.2.4"]),
    (">0", ["0.0.1", "0.3.0", "5.0.0"], ["0.0.0"]),
    (">0.1,<0.5", ["0.2.0", "0.4.9"], ["0.1.0", "0.1.9", "0.5.0"]),
    ("*", ["0.0.0", "7.1.2-beta"], []),
    (">1", ["2.0.0"], ["1.0.0", "1.9.9"]),
    (">1.2.3", ["1.2.4"], ["1.2.3"]),
    (">=1.2", ["1.2.0", "3.0.0"], ["1.1.9"]),
    ("<2", ["1.9.9", "0.0.0"], ["2.0.0", "2.0.0-rc.1"]),
    ("<=2.1", ["2.1.9", "0.0.0"], ["2.2.0"]),
    ("<0.3", ["0.2.9"], ["0.3.0"]),
    ("!=1", ["0.9.9", "2.0.0"], ["1.0.0", "1.5.0"]),
    (" >= 0.0.3 ", ["0.0.3"], ["0.0.2"]),
]


@pytest.mark.parametrize(("spec", "inside", "outside"), CASES, ids=[c[0] or "empty" for c in CASES])
def test_a_spec_holds_the_versions_of_the_table(spec, inside, outside):
    """Partial versions are ranges, conditions joined by commas hold together."""
    parsed = VersionSpec(spec)
    assert [text for text in inside if Version.parse(text) not in parsed] == []
    assert [text for text in outside if Version.parse(text) in parsed] == []


@pytest.mark.parametrize("text", ["x", "1.2.3.4", ">=", "1..2", ">>1", "1,,2"])
def test_garbage_is_refused_with_an_example(text):
    """A text that is not a spec raises ValueError that shows how to write one."""
    with pytest.raises(ValueError, match="write it like"):
        VersionSpec(text)


numbers = st.integers(0, 3)
versions = st.builds(lambda a, b, c: f"{a}.{b}.{c}", numbers, numbers, numbers)


@given(versions, versions)
def test_a_condition_and_its_opposite_split_all_versions(first, second):
    """`!=` holds exactly what `==` does not, `<` exactly what `>=` does not."""
    version = Version.parse(first)
    assert (version in VersionSpec(f"=={second}")) is not (version in VersionSpec(f"!={second}"))
    assert (version in VersionSpec(f"<{second}")) is not (version in VersionSpec(f">={second}"))


def test_prereleases_come_before_their_release():
    """SemVer ordering: numeric identifiers by value, below alphanumeric ones."""
    texts = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11"]
    parsed = [Version.parse(text) for text in [*texts, "1.0.0"]]
    assert sorted([*parsed[3:], *parsed[:3]]) == parsed
