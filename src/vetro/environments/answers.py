"""The answers of the environment calls, for the OpenAPI document (catalog-api.md §5)."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.environments import upgrade_answers
from vetro.environments.shapes import (
    AGGREGATED,
    ANYTHING,
    CHANGED,
    CHANGED_TEMPLATE,
    CHECKED_PAGE,
    COLUMNS,
    DEPLOYMENT,
    ENVIRONMENT,
    FLAG,
    FORM_PAGE,
    JOINABLE,
    KIND,
    LEAKED,
    LISTED,
    LISTED_WIZARD,
    OBJECT,
    OPENED,
    QUOTAS,
    REPORT,
    REQUEST_STATISTIC,
    SERVICE,
    SESSION,
    STATISTIC,
    STATUS,
    SUBMITTED_PAGE,
    TEMPLATE,
    TEMPLATE_COLUMNS,
    TEXT,
    TRACE_ROUND,
    VERSION,
    WIZARD,
)
from vetro.http import Reply, listed, maybe, shape

_E = "/v1/environments/{environment_id}"
_W = "/v1/wizards/{wizard_id}"


def _value(name: str, *errors: int) -> Reply:
    """Any JSON: a part of the model, or an action's result."""
    return Reply(ANYTHING, name=name, errors=errors)


def _in(key: str, shown: object) -> dict[str, object]:
    return {"type": "object", "properties": {key: shown}, "required": [key]}


def _page(title: str, key: str, shown: Mapping[str, object]) -> Mapping[str, object]:
    """A page of a list: the marker of the next one is there if anything follows."""
    return shape(title, {key: listed(shown), "next_marker": TEXT}, ["next_marker"])


_T = "/v1/templates/{template_id}"
_V03 = "/environments/{environment_id}"
V03_ENVIRONMENT = shape(
    "V03Environment",
    {
        **COLUMNS,
        **KIND,
        "status": {"type": "string", "enum": ["ready", "pending", "deploying"]},
        "status_detail": STATUS,
    },
)
V03_SESSION = shape(
    "V03Session",
    {
        **SESSION["properties"],
        "state": {"type": "string", "enum": ["open", "deploying", "deployed"]},
        "state_detail": TEXT,
    },
)

REPLIES = {
    "GET /v1/templates": Reply(
        _page("TemplatePage", "templates", shape("ListedTemplate", TEMPLATE_COLUMNS)),
        name="list_templates",
        errors=(404,),
    ),
    "POST /v1/templates": Reply(CHANGED_TEMPLATE, name="create_template", errors=(409,)),
    f"GET {_T}": Reply(TEMPLATE, name="show_template"),
    f"PUT {_T}": Reply(CHANGED_TEMPLATE, name="change_template", errors=(409,)),
    f"DELETE {_T}": Reply(name="delete_template"),
    f"POST {_T}/clone": Reply(TEMPLATE, name="clone_template", errors=(409,)),
    f"POST {_T}/create-environment": Reply(
        shape("MadeEnvironment", {"session_id": TEXT, "environment_id": TEXT}),
        name="create_environment_of_template",
        errors=(409,),
    ),
    f"GET {_T}/services": Reply(listed(SERVICE), name="list_components"),
    f"GET {_T}/services/{{path}}": _value("show_component"),
    f"POST {_T}/services": _value("add_components"),
    f"PUT {_T}/services/{{path}}": _value("replace_component"),
    f"DELETE {_T}/services/{{path}}": Reply(TEMPLATE, name="delete_component"),
    "GET /": Reply(_in("versions", listed(VERSION)), status=300, name="list_versions"),
    "GET /v1": Reply(_in("version", VERSION), name="show_version"),
    "GET /v1/stats": Reply(listed(REQUEST_STATISTIC), name="list_request_statistics"),
    "GET /v1/flavors": Reply(
        _in("flavors", listed(shape("Flavor", {"name": TEXT}))),
        errors=(404,),
        name="list_flavors",
    ),
    "GET /v1/networks": Reply(
        _in("networks", listed(JOINABLE)), errors=(404,), name="list_networks"
    ),
    "GET /v1/environments": Reply(
        _page("EnvironmentPage", "environments", LISTED), name="list_environments", errors=(404,)
    ),
    "POST /v1/environments": Reply(CHANGED, name="create_environment", errors=(409,)),
    f"GET {_E}": Reply(ENVIRONMENT, name="show_environment"),
    f"PUT {_E}": Reply(CHANGED, name="rename_environment", errors=(409,)),
    f"DELETE {_E}": Reply(name="delete_environment", errors=(409,)),
    f"GET {_E}/leaked": Reply(_in("leaked", listed(LEAKED)), name="list_leaked"),
    f"DELETE {_E}/leaked/{{object_id}}": Reply(name="dismiss_leaked"),
    f"POST {_E}/configure": Reply(SESSION, name="open_session"),
    f"GET {_E}/sessions": Reply(_in("sessions", listed(OPENED)), name="list_sessions"),
    f"GET {_E}/sessions/{{session_id}}": Reply(SESSION, name="show_session"),
    f"DELETE {_E}/sessions/{{session_id}}": Reply(name="drop_session"),
    f"POST {_E}/sessions/{{session_id}}/rebase": Reply(
        SESSION, name="rebase_session", errors=(409,)
    ),
    f"POST {_E}/sessions/{{session_id}}/deploy": Reply(name="deploy_session", errors=(409,)),
    f"GET {_E}/services": _value("list_services"),
    f"GET {_E}/services/{{path}}": _value("show_service"),
    f"POST {_E}/services": _value("add_services"),
    f"POST {_E}/services/{{path}}": _value("add_services_at"),
    f"PUT {_E}/services": _value("replace_services"),
    f"PUT {_E}/services/{{path}}": _value("replace_service"),
    f"DELETE {_E}/services": Reply(name="delete_services"),
    f"DELETE {_E}/services/{{path}}": Reply(name="delete_service"),
    f"GET {_E}/model": _value("show_model"),
    f"GET {_E}/model/{{path}}": _value("show_model_at"),
    f"PATCH {_E}/model": _value("change_model"),
    **upgrade_answers.REPLIES,
    "GET /v1/deployments": Reply(
        _page("DeploymentPage", "deployments", DEPLOYMENT),
        name="list_project_deployments",
        errors=(404,),
    ),
    f"GET {_E}/deployments": Reply(
        _page("DeploymentPage", "deployments", DEPLOYMENT), name="list_deployments"
    ),
    f"GET {_E}/deployments/{{deployment_id}}": Reply(
        _in("reports", listed(REPORT)), name="list_reports"
    ),
    f"GET {_E}/deployments/{{deployment_id}}/trace": Reply(
        _in("rounds", listed(TRACE_ROUND)), name="show_trace"
    ),
    f"POST {_E}/deployments/{{deployment_id}}/cancel": Reply(
        DEPLOYMENT, status=202, name="cancel_deployment", errors=(409,)
    ),
    "GET /v1/events": Reply(TEXT, media=("text/event-stream",), name="follow_environments"),
    f"GET {_E}/deployments/{{deployment_id}}/events": Reply(
        TEXT, media=("text/event-stream",), name="follow_deployment"
    ),
    f"GET {_E}/lastStatus": Reply(
        _in(
            "lastStatuses",
            {"type": "object", "additionalProperties": maybe(REPORT)},
        ),
        name="last_statuses",
    ),
    f"POST {_E}/actions/{{action_id}}": Reply(
        _in("task_id", TEXT), name="call_action", errors=(409,)
    ),
    f"GET {_E}/actions/{{task_id}}": Reply(
        {
            "type": "object",
            "properties": {"isException": FLAG, "result": ANYTHING},
        },
        name="show_action_result",
    ),
    f"GET {_E}/instance-statistics/aggregated": Reply(
        listed(AGGREGATED), name="aggregated_statistics"
    ),
    f"GET {_E}/instance-statistics/raw": Reply(listed(STATISTIC), name="raw_statistics"),
    f"GET {_E}/instance-statistics/raw/{{instance_id}}": Reply(
        listed(STATISTIC), name="raw_statistics_of_instance"
    ),
    "POST /v1/actions": _value("call_static_action", 404, 504),
    "GET /v1/schemas/{class_name}": Reply(OBJECT, name="show_schemas", errors=(504,)),
    "GET /v1/schemas/{class_name}/{method_names}": Reply(
        OBJECT, name="show_method_schemas", errors=(504,)
    ),
    "GET /v1/wizards": Reply(_in("wizards", listed(LISTED_WIZARD)), name="list_wizards"),
    "POST /v1/wizards": Reply(WIZARD, name="start_wizard", errors=(404,)),
    f"GET {_W}": Reply(WIZARD, name="show_wizard"),
    f"DELETE {_W}": Reply(name="delete_wizard"),
    f"GET {_W}/definition": Reply(
        shape("FormDefinition", {"text": TEXT}), name="show_wizard_definition"
    ),
    f"GET {_W}/pages/{{page}}": Reply(FORM_PAGE, name="show_wizard_page"),
    f"POST {_W}/pages/{{page}}": Reply(SUBMITTED_PAGE, name="submit_wizard_page"),
    f"POST {_W}/pages/{{page}}/check": Reply(CHECKED_PAGE, name="check_wizard_page"),
    f"POST {_W}/build": Reply(_in("model", OBJECT), name="build_wizard"),
    f"POST {_W}/finish": Reply(
        shape("FinishedWizard", {"environment_id": TEXT, "component": OBJECT}),
        name="finish_wizard",
    ),
    "GET /v1/quotas": Reply(QUOTAS, name="show_quotas"),
    "GET /v1/quotas/{project_id}": Reply(QUOTAS, name="show_project_quotas"),
    "PUT /v1/quotas/{project_id}": Reply(QUOTAS, name="change_project_quotas"),
    "DELETE /v1/quotas/{project_id}": Reply(name="reset_project_quotas"),
    # Without /v1 (§7)
    "GET /environments": Reply(_in("environments", listed(V03_ENVIRONMENT))),
    "POST /environments": Reply(V03_ENVIRONMENT, errors=(409,)),
    f"GET {_V03}": Reply(V03_ENVIRONMENT),
    f"PUT {_V03}": Reply(V03_ENVIRONMENT, status=201, others={200: V03_ENVIRONMENT}, errors=(409,)),
    f"DELETE {_V03}": Reply(),
    f"POST {_V03}/configure": Reply(V03_SESSION),
    f"GET {_V03}/sessions/{{session_id}}": Reply(V03_SESSION),
    f"DELETE {_V03}/sessions/{{session_id}}": Reply(),
    f"POST {_V03}/sessions/{{session_id}}/deploy": Reply(),
    f"GET {_V03}/services": Reply({}),
    f"GET {_V03}/services/{{path}}": Reply({}),
    f"POST {_V03}/services": Reply({}),
    f"POST {_V03}/services/{{path}}": Reply({}),
    f"PUT {_V03}/services": Reply({}, status=201, others={200: {}}),
    f"PUT {_V03}/services/{{path}}": Reply({}, status=201, others={200: {}}),
    f"DELETE {_V03}/services": Reply(),
    f"DELETE {_V03}/services/{{path}}": Reply(),
    f"GET {_V03}/deployments": Reply({"type": "object"}),
    f"GET {_V03}/deployments/{{deployment_id}}": Reply({"type": "object"}),
    f"GET {_V03}/lastStatus": Reply({"type": "object"}),
    f"GET {_V03}/instance-statistics/aggregated": Reply({"type": "array", "items": {}}),
    f"GET {_V03}/instance-statistics/raw": Reply({"type": "array", "items": {}}),
    f"GET {_V03}/instance-statistics/raw/{{instance_id}}": Reply({"type": "array", "items": {}}),
}
