"""The answers of the environment calls, for the OpenAPI document (catalog-api.md §5)."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.environments import upgrade_answers
from vetro.http import Reply, listed, maybe, shape

_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
_FLAG = {"type": "boolean"}
_TIME = {"type": "string", "examples": ["2026-01-31T12:00:00"]}
_OBJECT = {"type": "object"}
_ANYTHING: dict[str, object] = {}
#: As `lifecycle.Outcome`; a test compares them.
OUTCOMES = ("success", "warnings", "failed", "cancelled", "interrupted", "abandoned")
_STATUS = {
    "type": "string",
    "enum": [
        *("ready", "pending", "deploying", "deploy failure", "deleting", "delete failure"),
    ],
}
SERVICE = shape(
    "Service",
    {
        # Client generators derive names from titles; "?" does not make a name.
        "?": {
            "title": "ObjectHeader",
            "type": "object",
            "properties": {"id": _TEXT, "type": _TEXT, "status": _TEXT},
            "required": ["id", "type"],
        }
    },
    ["?"],
)
_COLUMNS = {
    "id": _TEXT,
    "name": _TEXT,
    "tenant_id": _TEXT,
    "description_text": _TEXT,
    "version": _NUMBER,
    "created": _TIME,
    "updated": _TIME,
}
#: Only for clients that ask for all members (`vetro.http.endpoint.Extras`).
_KIND = {"model_kind": {"type": "string", "enum": ["muranopl", "workflow"]}}
#: The answer to a change: the sent values are echoed beside the columns.
CHANGED = shape("ChangedEnvironment", {**_COLUMNS, **_KIND}, [*_KIND])
LISTED = shape("ListedEnvironment", {**_COLUMNS, **_KIND, "status": _STATUS}, [*_KIND])
ENVIRONMENT = shape(
    "Environment",
    {
        **_COLUMNS,
        **_KIND,
        "status": _STATUS,
        "acquired_by": maybe(_TEXT),
        "services": listed(SERVICE),
    },
    [*_KIND],
)
SESSION = shape(
    "Session",
    {
        "id": _TEXT,
        "environment_id": _TEXT,
        "user_id": _TEXT,
        "state": {
            "type": "string",
            "enum": [
                *("opened", "deploying", "deployed", "deploy failure"),
                *("deleting", "delete failure"),
            ],
        },
        "version": _NUMBER,
        "created": _TIME,
        "updated": _TIME,
    },
)
_QUOTA = shape(
    "Quota",
    {
        "used": _NUMBER,
        "limit": _NUMBER,
        "default": _NUMBER,
        "unit": _TEXT,
        "enforced_by": {"type": "string", "enum": ["vetro", "openstack"]},
    },
)
QUOTAS = shape(
    "Quotas",
    {
        "project_id": _TEXT,
        "quotas": {"type": "object", "additionalProperties": _QUOTA},
        "warnings": listed(_TEXT),
    },
    ["warnings"],
)
_TEMPLATE = {**_COLUMNS, "is_public": _FLAG}
TEMPLATE = shape("Template", {**_TEMPLATE, "services": listed(SERVICE)})
#: An answer to a change has the components only if the change had some.
CHANGED_TEMPLATE = shape(
    "ChangedTemplate", {**_TEMPLATE, "services": listed(SERVICE)}, ["services"]
)
OPENED = shape(
    "OpenedSession",
    {
        **SESSION["properties"],
        "own": _FLAG,
        "overtaken": _FLAG,
        "changes": _ANYTHING,
        "summary": _TEXT,
    },
)
LEAKED = shape(
    "LeakedObject",
    {
        "id": _TEXT,
        "type": _TEXT,
        "name": maybe(_TEXT),
        "error": _TEXT,
        "deployment_id": _TEXT,
        "created": _TIME,
    },
)
DEPLOYMENT = shape(
    "Deployment",
    {
        "id": _TEXT,
        "environment_id": _TEXT,
        "environment_name": _TEXT,
        "environment_gone": maybe(_TIME),
        "user_id": _TEXT,
        "user_name": _TEXT,
        "created": _TIME,
        "updated": _TIME,
        "started": _TIME,
        "finished": maybe(_TIME),
        "state": {
            "type": "string",
            "enum": [
                *("running", "running_w_errors", "running_w_warnings"),
                *("success", "completed_w_errors", "completed_w_warnings"),
            ],
        },
        "action": maybe(_OBJECT),
        "outcome": {"type": ["string", "null"], "enum": [*OUTCOMES, None]},
        "waiting_on": maybe(_TEXT),
        "result": _OBJECT,
        "description": _OBJECT,
    },
    ["environment_name", "environment_gone", "user_id", "user_name", "outcome", "waiting_on"],
)
REPORT = shape(
    "Report",
    {
        "id": _TEXT,
        "task_id": _TEXT,
        "entity_id": maybe(_TEXT),
        "entity": maybe(_TEXT),
        "level": {"type": "string", "enum": ["info", "warning", "error"]},
        "text": _TEXT,
        "details": _ANYTHING,
        "created": _TIME,
        "updated": _TIME,
    },
)
TRACE_ROUND = shape(
    "TraceRound",
    {
        "round": _NUMBER,
        "events": listed(
            shape(
                "TraceEvent",
                {
                    "kind": {"type": "string", "enum": ["rule", "set", "command", "warning"]},
                    "at": _TEXT,
                    "subject": _TEXT,
                    "details": _OBJECT,
                },
            )
        ),
    },
)
REQUEST_STATISTIC = shape(
    "RequestStatistic",
    {
        "id": _TEXT,
        "host": _TEXT,
        "request_count": _NUMBER,
        "error_count": _NUMBER,
        "average_response_time": {"type": "number"},
        "requests_per_tenant": _TEXT,
        "requests_per_second": {"type": "number"},
        "errors_per_second": {"type": "number"},
        "cpu_count": _NUMBER,
        "cpu_percent": {"type": "number"},
        "created": _TIME,
        "updated": _TIME,
    },
)
STATISTIC = shape(
    "InstanceStatistic",
    {
        "type": _NUMBER,
        "type_name": maybe(_TEXT),
        "type_title": maybe(_TEXT),
        "unit_count": maybe(_NUMBER),
        "instance_id": _TEXT,
        "duration": _NUMBER,
        "active": _FLAG,
    },
)
AGGREGATED = shape("AggregatedStatistic", {"type": _NUMBER, "duration": _NUMBER, "count": _NUMBER})
VERSION = shape(
    "ApiVersion",
    {
        "id": _TEXT,
        "status": _TEXT,
        "links": listed(shape("Link", {"rel": _TEXT, "href": _TEXT})),
    },
)
_ENTERED: dict[str, object] = {}
FLAVOR_SIZE = shape(
    "FlavorSize",
    {"vcpus": _NUMBER, "memory": _NUMBER, "disk": _NUMBER},
    optional=["disk"],
)
CHOICE = shape(
    "FormChoice",
    {"value": _ANYTHING, "label": _TEXT, "enabled": _FLAG, "size": FLAVOR_SIZE},
    optional=["enabled", "size"],
)
FORM_PACKAGE = shape(
    "FormPackage",
    {"id": _TEXT, "fully_qualified_name": _TEXT, "name": _TEXT, "version": _TEXT, "class": _TEXT},
    optional=["class"],
)
FORM_FIELD = shape(
    "FormField",
    {
        "name": _TEXT,
        "path": _TEXT,
        "type": _TEXT,
        "control": {
            "type": "string",
            "enum": [
                *("line", "text", "number", "password", "checkbox", "select", "object", "table"),
            ],
        },
        "label": _TEXT,
        "description": maybe(_TEXT),
        "description_title": maybe(_TEXT),
        "help_text": maybe(_TEXT),
        "required": _FLAG,
        "enabled": _FLAG,
        "visible": _FLAG,
        "hidden": _FLAG,
        "secret": _FLAG,
        "filled": _FLAG,
        "initial": _ENTERED,
        "value": _ENTERED,
        "placeholder": maybe(_TEXT),
        "choices": {"anyOf": [listed(CHOICE), {"type": "null"}]},
        "constraints": {"type": "object", "additionalProperties": _NUMBER},
        "messages": {"type": "object", "additionalProperties": _TEXT},
        "patterns": listed(
            shape("FormPattern", {"pattern": _TEXT, "flags": _TEXT, "message": _TEXT})
        ),
        "rules": listed(_TEXT),
        "problem": _TEXT,
        "confirmation": _TEXT,
        "classes": listed(_TEXT),
        "packages": listed(FORM_PACKAGE),
        "empty_label": _TEXT,
        "requirements": _OBJECT,
        "columns": listed(shape("FormColumn", {"name": _TEXT, "type": _TEXT, "title": _TEXT})),
    },
    optional=[
        *("filled", "problem", "confirmation", "classes", "packages", "empty_label"),
        *("requirements", "columns"),
    ],
)
FORM_PAGE = shape(
    "FormPage",
    {
        "name": _TEXT,
        "title": _TEXT,
        "number": _NUMBER,
        "region": maybe(_TEXT),
        "submitted": _FLAG,
        "problem": maybe(_TEXT),
        "notes": listed(shape("FormNote", {"title": _TEXT, "text": _TEXT})),
        "fields": listed(FORM_FIELD),
    },
)
FORM = shape(
    "Form",
    {
        "package": _TEXT,
        "package_version": _TEXT,
        "title": _TEXT,
        "version": _TEXT,
        "texts": {"type": "string", "enum": ["plain"]},
        "pages": listed(FORM_PAGE),
        "next": maybe(_TEXT),
        "warnings": listed(_TEXT),
    },
)
_WIZARD_COLUMNS = {
    "id": _TEXT,
    "package": FORM_PACKAGE,
    "environment_id": maybe(_TEXT),
    "component_id": maybe(_TEXT),
    "created": _TIME,
    "updated": _TIME,
}
LISTED_WIZARD = shape("ListedWizard", _WIZARD_COLUMNS)
WIZARD = shape("Wizard", {**_WIZARD_COLUMNS, "form": FORM})
_ERRORS = {"type": "object", "additionalProperties": listed(_TEXT)}
CHECKED_PAGE = shape("CheckedPage", {"valid": _FLAG, "errors": _ERRORS, "page": FORM_PAGE})
SUBMITTED_PAGE = shape(
    "SubmittedPage",
    {
        "valid": _FLAG,
        "errors": _ERRORS,
        "next": maybe(_TEXT),
        "page": maybe(FORM_PAGE),
        "complete": _FLAG,
    },
)
_E = "/v1/environments/{environment_id}"
_W = "/v1/wizards/{wizard_id}"


def _value(name: str, *errors: int) -> Reply:
    """Any JSON: a part of the model, or an action's result."""
    return Reply(_ANYTHING, name=name, errors=errors)


#: A network that an environment can join.
JOINABLE = shape(
    "JoinableNetwork",
    {
        "id": _TEXT,
        "name": _TEXT,
        "subnets": listed(shape("JoinableSubnet", dict.fromkeys(("id", "name", "cidr"), _TEXT))),
    },
)


def _in(key: str, shown: object) -> dict[str, object]:
    return {"type": "object", "properties": {key: shown}, "required": [key]}


def _page(title: str, key: str, shown: Mapping[str, object]) -> Mapping[str, object]:
    """A page of a list: the marker of the next one is there if anything follows."""
    return shape(title, {key: listed(shown), "next_marker": _TEXT}, ["next_marker"])


_T = "/v1/templates/{template_id}"
_V03 = "/environments/{environment_id}"
V03_ENVIRONMENT = shape(
    "V03Environment",
    {
        **_COLUMNS,
        **_KIND,
        "status": {"type": "string", "enum": ["ready", "pending", "deploying"]},
        "status_detail": _STATUS,
    },
)
V03_SESSION = shape(
    "V03Session",
    {
        **SESSION["properties"],
        "state": {"type": "string", "enum": ["open", "deploying", "deployed"]},
        "state_detail": _TEXT,
    },
)

REPLIES = {
    "GET /v1/templates": Reply(
        _page("TemplatePage", "templates", shape("ListedTemplate", _TEMPLATE)),
        name="list_templates",
        errors=(404,),
    ),
    "POST /v1/templates": Reply(CHANGED_TEMPLATE, name="create_template", errors=(409,)),
    f"GET {_T}": Reply(TEMPLATE, name="show_template"),
    f"PUT {_T}": Reply(CHANGED_TEMPLATE, name="change_template", errors=(409,)),
    f"DELETE {_T}": Reply(name="delete_template"),
    f"POST {_T}/clone": Reply(TEMPLATE, name="clone_template", errors=(409,)),
    f"POST {_T}/create-environment": Reply(
        shape("MadeEnvironment", {"session_id": _TEXT, "environment_id": _TEXT}),
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
        _in("flavors", listed(shape("Flavor", {"name": _TEXT}))),
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
    "GET /v1/events": Reply(_TEXT, media=("text/event-stream",), name="follow_environments"),
    f"GET {_E}/deployments/{{deployment_id}}/events": Reply(
        _TEXT, media=("text/event-stream",), name="follow_deployment"
    ),
    f"GET {_E}/lastStatus": Reply(
        _in(
            "lastStatuses",
            {"type": "object", "additionalProperties": maybe(REPORT)},
        ),
        name="last_statuses",
    ),
    f"POST {_E}/actions/{{action_id}}": Reply(
        _in("task_id", _TEXT), name="call_action", errors=(409,)
    ),
    f"GET {_E}/actions/{{task_id}}": Reply(
        {
            "type": "object",
            "properties": {"isException": _FLAG, "result": _ANYTHING},
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
    "GET /v1/schemas/{class_name}": Reply(_OBJECT, name="show_schemas", errors=(504,)),
    "GET /v1/schemas/{class_name}/{method_names}": Reply(
        _OBJECT, name="show_method_schemas", errors=(504,)
    ),
    "GET /v1/wizards": Reply(_in("wizards", listed(LISTED_WIZARD)), name="list_wizards"),
    "POST /v1/wizards": Reply(WIZARD, name="start_wizard", errors=(404,)),
    f"GET {_W}": Reply(WIZARD, name="show_wizard"),
    f"DELETE {_W}": Reply(name="delete_wizard"),
    f"GET {_W}/definition": Reply(
        shape("FormDefinition", {"text": _TEXT}), name="show_wizard_definition"
    ),
    f"GET {_W}/pages/{{page}}": Reply(FORM_PAGE, name="show_wizard_page"),
    f"POST {_W}/pages/{{page}}": Reply(SUBMITTED_PAGE, name="submit_wizard_page"),
    f"POST {_W}/pages/{{page}}/check": Reply(CHECKED_PAGE, name="check_wizard_page"),
    f"POST {_W}/build": Reply(_in("model", _OBJECT), name="build_wizard"),
    f"POST {_W}/finish": Reply(
        shape("FinishedWizard", {"environment_id": _TEXT, "component": _OBJECT}),
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
