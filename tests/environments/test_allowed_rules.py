"""Which rules of a policy let a caller through: what pages of the dashboard offer (A10)."""

from pathlib import Path

from vetro.environments import allowed_rules, catalog_policy
from vetro.http import Principal

MEMBER = Principal("u", "ann", "p", roles=frozenset({"member"}))
ADMIN = Principal("a", "root", "p", roles=frozenset({"admin"}))
#: The rules that the specification names.
CONSULTED = {
    *("list_environments", "create_environment", "delete_environment", "show_environment"),
    *("list_deployments", "list_deployments_all_environments"),
    *("upload_package", "download_package", "modify_package", "delete_package"),
    *("publicize_package", "get_package", "get_category", "add_category", "delete_category"),
    *("mark_image", "remove_image_metadata"),
}
ADMINISTRATORS = {
    *("publicize_package", "add_category", "delete_category"),
    *("mark_image", "remove_image_metadata"),
}


def test_administrators_pass_every_rule_and_members_those_of_members() -> None:
    assert set(allowed_rules(catalog_policy(), ADMIN)) >= CONSULTED
    assert CONSULTED - set(allowed_rules(catalog_policy(), MEMBER)) == ADMINISTRATORS


def test_a_project_may_see_its_own_quotas() -> None:
    assert "get_quotas" in allowed_rules(catalog_policy(), MEMBER)


def test_the_policy_file_decides_what_is_offered(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("publicize_package: role:member\ndelete_environment: '!'\n")
    allowed = allowed_rules(catalog_policy(file), MEMBER)
    assert "publicize_package" in allowed
    assert "delete_environment" not in allowed
