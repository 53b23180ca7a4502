"""``vetro package new``: what it makes is a whole package."""

import json


def test_a_new_package_is_checked_tested_and_deploys(invoke, tmp_path):
    """Nothing to find, not even advice; its tests deploy it on a cloud in memory."""
    target = tmp_path / "shop"
    code, text = invoke("package", "new", "org.acme.WebShop", target)
    assert code == 0
    assert "vetro test" in text
    assert (target / "Classes/WebShop.yaml").is_file()
    assert "HelloScript" not in "".join(
        path.read_text() for path in target.rglob("*.yaml") if path.is_file()
    )
    assert invoke("check", target, "--strict") == (0, "No errors found!\n")
    code, text = invoke("test", target, "--json")
    assert code == 0, text
    assert json.loads(text)["passed"] == 3


def test_what_is_there_is_not_overwritten_and_names_are_checked(invoke, tmp_path):
    """A directory with files, a name without dots: one line that says what to do."""
    (tmp_path / "x").write_text("mine")
    code, text = invoke("package", "new", "org.acme.Shop", tmp_path)
    assert (code, "is there already" in text) == (1, True)
    for name in ("Shop", "org.acme.shop", "org..Shop", "a/b.Shop"):
        code, text = invoke("package", "new", name, tmp_path / "new")
        assert (code, "CamelCase" in text) == (2, True)
    assert not (tmp_path / "new").exists()
