"""The policy's rules of the catalog API: their defaults, and which rule a call has (catalog-api.md §10)."""

from __future__ import annotations

DEFAULT = {
    "list_environments_all_tenants": "rule:admin_api",
    "publicize_package": "rule:admin_api",
    "add_category": "rule:admin_api",
    "delete_category": "rule:admin_api",
    "get_request_statistics": "rule:admin_api",
    "get_quotas": "rule:admin_api or project_id:%(project_id)s",
    "update_quotas": "rule:admin_api",
    # No call of this API: what the dashboard offers where images are (A10).
    "mark_image": "rule:admin_api",
    "remove_image_metadata": "rule:admin_api",
}
#: The calls of each rule. A call that is not here has ``default``. A wizard is a package's form, and what is
#: made with it is added to an environment.
_CALLS: dict[str, tuple[str, ...]] = {
    "list_environments": ("list_environments", "follow_environments", "list_project_upgrades"),
    "create_environment": ("create_environment", "create_environment_of_template"),
    "show_environment": (
        "show_environment", "list_leaked", "show_model", "show_model_at", "last_statuses",
        "list_upgrades", "list_fixed_packages", "preview_upgrade",
    ),
    "update_environment": (
        "change_environment", "rename_environment", "dismiss_leaked", "change_model",
    ),
    "delete_environment": ("delete_environment",),
    "create_session": ("open_session", "rebase_session", "restore_deployment"),
    "show_session": ("list_sessions", "show_session"),
    "delete_session": ("drop_session",),
    "deploy_session": ("deploy_session", "cancel_deployment"),
    "get_services": ("list_services", "show_service"),
    "update_services": (
        "add_services", "add_services_at", "replace_services", "replace_service",
        "delete_services", "delete_service", "fix_packages", "upgrade_applications",
        "finish_wizard",
    ),
    "list_deployments_all_environments": ("list_project_deployments",),
    "list_deployments": ("list_deployments",),
    "statuses_deployments": ("list_reports", "show_trace", "follow_deployment"),
    "execute_action": ("call_action", "show_action_result", "call_static_action"),
    "get_aggregated_statistics": ("aggregated_statistics",),
    "get_statistics": ("raw_statistics",),
    "get_instance_statistics": ("raw_statistics_of_instance",),
    "get_request_statistics": ("list_request_statistics",),
    "get_schema": ("show_schemas", "show_method_schemas"),
    "get_package": (
        "list_wizards", "start_wizard", "show_wizard", "show_wizard_definition",
        "show_wizard_page", "submit_wizard_page", "check_wizard_page", "build_wizard",
        "delete_wizard", "list_packages", "show_package", "show_package_part",
        "show_package_needs", "show_repository",
    ),
    "list_env_templates": ("list_templates",),
    "create_env_template": ("create_template",),
    "show_env_template": ("show_template",),
    "update_env_template": ("change_template",),
    "delete_env_template": ("delete_template",),
    "clone_env_template": ("clone_template",),
    "get_env_template_services": ("list_components", "show_component"),
    "update_env_template_services": ("add_components", "delete_component"),
    "update_service_env_template": ("replace_component",),
    "upload_package": ("upload_package", "check_package", "read_bundle", "import_package"),
    "modify_package": ("change_package", "replace_package"),
    "delete_package": ("delete_package",),
    "download_package": ("download_package",),
    "get_quotas": ("show_project_quotas",),
    "update_quotas": ("change_project_quotas", "reset_project_quotas"),
    "get_category": ("list_categories", "show_category"),
    "add_category": ("create_category",),
    "delete_category": ("delete_category",),
}  # fmt: skip
RULES = {call: rule for rule, calls in _CALLS.items() for call in calls}
#: Every rule that something asks for; ``manage_public_package`` decides about a part of some calls.
NAMES = frozenset({*RULES.values(), *DEFAULT, "manage_public_package"})
#: Calls that say first that there is no such environment, or that it is another project's.
ENVIRONMENT_FIRST = frozenset(
    {
        *("show_environment", "rename_environment", "show_model", "show_model_at"),
        *("change_model", "list_deployments", "call_action", "show_action_result"),
    }
)
