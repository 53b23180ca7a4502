"""The shapes of what the catalog face answers, for its OpenAPI document (catalog-api.md §5, §6.1)."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.environments import upgrades, views
from vetro.http import listed, maybe, shape, shape_of

TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
FLAG = {"type": "boolean"}
_TIME = {"type": "string", "examples": ["2026-01-31T12:00:00"]}
OBJECT = {"type": "object"}
ANYTHING: dict[str, object] = {}
#: As `lifecycle.Outcome`; a test compares them.
OUTCOMES = ("success", "warnings", "failed", "cancelled", "interrupted", "abandoned")
STATUS = {
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
            "properties": {"id": TEXT, "type": TEXT, "status": TEXT},
            "required": ["id", "type"],
        }
    },
    ["?"],
)
_DATES = {"created": _TIME, "updated": _TIME}
_KIND = {"type": "string", "enum": ["muranopl", "workflow"]}
#: Only for clients that ask for all members (`vetro.http.endpoint.Extras`).
_EXTRA = ("model_kind", "has_changes")
#: The answer to a change: the sent values are echoed beside the columns.
CHANGED = shape_of(views.EnvironmentView, "ChangedEnvironment", _EXTRA, model_kind=_KIND, **_DATES)
LISTED = shape_of(
    views.ListedEnvironment, "ListedEnvironment", _EXTRA, model_kind=_KIND, status=STATUS, **_DATES
)
ENVIRONMENT = shape_of(
    views.ShownEnvironment,
    "Environment",
    _EXTRA,
    model_kind=_KIND,
    status=STATUS,
    services=listed(SERVICE),
    **_DATES,
)
_STATE = {
    "type": "string",
    "enum": [
        *("opened", "deploying", "deployed", "deploy failure"),
        *("deleting", "delete failure"),
    ],
}
SESSION = shape_of(views.SessionView, "Session", state=_STATE, **_DATES)
_QUOTA = shape(
    "Quota",
    {
        "used": _NUMBER,
        "limit": _NUMBER,
        "default": _NUMBER,
        "unit": TEXT,
        "enforced_by": {"type": "string", "enum": ["vetro", "openstack"]},
    },
)
QUOTAS = shape(
    "Quotas",
    {
        "project_id": TEXT,
        "quotas": {"type": "object", "additionalProperties": _QUOTA},
        "warnings": listed(TEXT),
    },
    ["warnings"],
)
LISTED_TEMPLATE = shape_of(views.TemplateView, "ListedTemplate", **_DATES)
_COMPONENTS = {"services": listed(SERVICE), **_DATES}
TEMPLATE = shape_of(views.ShownTemplate, "Template", **_COMPONENTS)
#: An answer to a change has the components only if the change had some.
CHANGED_TEMPLATE = shape_of(views.ShownTemplate, "ChangedTemplate", ["services"], **_COMPONENTS)
OPENED = shape_of(views.OpenedSession, state=_STATE, changes=ANYTHING, **_DATES)
LEAKED = shape_of(views.LeakedView, "LeakedObject", created=_TIME)
DEPLOYMENT = shape_of(
    views.ListedDeployment,
    "Deployment",
    [
        *("environment_name", "environment_gone", "user_id", "user_name", "outcome", "waiting_on"),
        "last_report",
    ],
    environment_gone=maybe(_TIME),
    started=_TIME,
    finished=maybe(_TIME),
    state={
        "type": "string",
        "enum": [
            *("running", "running_w_errors", "running_w_warnings"),
            *("success", "completed_w_errors", "completed_w_warnings"),
        ],
    },
    outcome={"type": ["string", "null"], "enum": [*OUTCOMES, None]},
    waiting_on=maybe(TEXT),
    last_report=maybe(shape_of(views.LastReport, created=_TIME)),
    **_DATES,
)
_LEVEL = {"type": "string", "enum": ["info", "warning", "error"]}
REPORT = shape_of(
    views.ReportView, "Report", entity_id=maybe(TEXT), level=_LEVEL, details=ANYTHING, **_DATES
)
_EVENT = shape(
    "TraceEvent",
    {
        "kind": {"type": "string", "enum": ["rule", "set", "command", "warning"]},
        "at": TEXT,
        "subject": TEXT,
        "details": OBJECT,
    },
)
TRACE_ROUND = shape_of(views.TraceRound, events=listed(_EVENT))
REQUEST_STATISTIC = shape(
    "RequestStatistic",
    {
        "id": TEXT,
        "host": TEXT,
        "request_count": _NUMBER,
        "error_count": _NUMBER,
        "average_response_time": {"type": "number"},
        "requests_per_tenant": TEXT,
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
        "type_name": maybe(TEXT),
        "type_title": maybe(TEXT),
        "unit_count": maybe(_NUMBER),
        "instance_id": TEXT,
        "duration": _NUMBER,
        "active": FLAG,
    },
)
AGGREGATED = shape("AggregatedStatistic", {"type": _NUMBER, "duration": _NUMBER, "count": _NUMBER})
VERSION = shape(
    "ApiVersion",
    {
        "id": TEXT,
        "status": TEXT,
        "links": listed(shape("Link", {"rel": TEXT, "href": TEXT})),
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
    {"value": ANYTHING, "label": TEXT, "enabled": FLAG, "size": FLAVOR_SIZE},
    optional=["enabled", "size"],
)
FORM_PACKAGE = shape(
    "FormPackage",
    {"id": TEXT, "fully_qualified_name": TEXT, "name": TEXT, "version": TEXT, "class": TEXT},
    optional=["class"],
)
FORM_FIELD = shape(
    "FormField",
    {
        "name": TEXT,
        "path": TEXT,
        "type": TEXT,
        "control": {
            "type": "string",
            "enum": [
                *("line", "text", "number", "password", "checkbox", "select", "object", "objects"),
                "table",
            ],
        },
        "label": TEXT,
        "description": maybe(TEXT),
        "description_title": maybe(TEXT),
        "help_text": maybe(TEXT),
        "required": FLAG,
        "enabled": FLAG,
        "visible": FLAG,
        "hidden": FLAG,
        "secret": FLAG,
        "filled": FLAG,
        "kept": FLAG,
        "initial": _ENTERED,
        "value": _ENTERED,
        "placeholder": maybe(TEXT),
        "choices": {"anyOf": [listed(CHOICE), {"type": "null"}]},
        "constraints": {"type": "object", "additionalProperties": _NUMBER},
        "messages": {"type": "object", "additionalProperties": TEXT},
        "patterns": listed(shape("FormPattern", {"pattern": TEXT, "flags": TEXT, "message": TEXT})),
        "rules": listed(TEXT),
        "problem": TEXT,
        "confirmation": TEXT,
        "classes": listed(TEXT),
        "packages": listed(FORM_PACKAGE),
        "empty_label": TEXT,
        "requirements": OBJECT,
        "columns": listed(shape("FormColumn", {"name": TEXT, "type": TEXT, "title": TEXT})),
    },
    optional=[
        *("filled", "kept", "problem", "confirmation", "classes", "packages", "empty_label"),
        *("requirements", "columns"),
    ],
)
FORM_PAGE = shape(
    "FormPage",
    {
        "name": TEXT,
        "title": TEXT,
        "number": _NUMBER,
        "region": maybe(TEXT),
        "submitted": FLAG,
        "problem": maybe(TEXT),
        "notes": listed(shape("FormNote", {"title": TEXT, "text": TEXT})),
        "fields": listed(FORM_FIELD),
    },
)
FORM = shape(
    "Form",
    {
        "package": TEXT,
        "package_version": TEXT,
        "title": TEXT,
        "version": TEXT,
        "texts": {"type": "string", "enum": ["plain"]},
        "pages": listed(FORM_PAGE),
        "next": maybe(TEXT),
        "warnings": listed(TEXT),
    },
)
_WIZARD_COLUMNS = {
    "id": TEXT,
    "package": FORM_PACKAGE,
    "environment_id": maybe(TEXT),
    "component_id": maybe(TEXT),
    "created": _TIME,
    "updated": _TIME,
}
LISTED_WIZARD = shape("ListedWizard", _WIZARD_COLUMNS)
WIZARD = shape("Wizard", {**_WIZARD_COLUMNS, "form": FORM})
_ERRORS = {"type": "object", "additionalProperties": listed(TEXT)}
CHECKED_PAGE = shape("CheckedPage", {"valid": FLAG, "errors": _ERRORS, "page": FORM_PAGE})
SUBMITTED_PAGE = shape(
    "SubmittedPage",
    {
        "valid": FLAG,
        "errors": _ERRORS,
        "next": maybe(TEXT),
        "page": maybe(FORM_PAGE),
        "complete": FLAG,
    },
)
#: A network that an environment can join.
JOINABLE = shape(
    "JoinableNetwork",
    {
        "id": TEXT,
        "name": TEXT,
        "subnets": listed(shape("JoinableSubnet", dict.fromkeys(("id", "name", "cidr"), TEXT))),
    },
)


def _in(key: str, shown: object) -> dict[str, object]:
    return {"type": "object", "properties": {key: shown}, "required": [key]}


def _page(title: str, key: str, shown: Mapping[str, object]) -> Mapping[str, object]:
    """A page of a list: the marker of the next one is there if anything follows."""
    return shape(title, {key: listed(shown), "next_marker": TEXT}, ["next_marker"])


UPGRADABLE = shape_of(upgrades.ApplicationRow, "ApplicationVersions")
PROPERTY_CHANGE = shape_of(
    upgrades.PropertyChange,
    change={"type": "string", "enum": ["added", "removed", "changed"]},
    aspects=listed({"type": "string", "enum": ["contract", "default", "usage"]}),
)
UPGRADE = shape(
    "Upgrade",
    {
        "applications": listed(
            shape(
                "ApplicationUpgrade",
                {
                    "id": TEXT,
                    "name": maybe(TEXT),
                    "class": TEXT,
                    "package": maybe(TEXT),
                    "from": maybe(TEXT),
                    "to": maybe(TEXT),
                    "direction": {"type": "string", "enum": ["upgrade", "downgrade", "none"]},
                    "objects": listed(
                        shape(
                            "ObjectUpgrade",
                            {
                                "id": TEXT,
                                "class": TEXT,
                                "package": TEXT,
                                "from": maybe(TEXT),
                                "to": TEXT,
                                "changes": listed(PROPERTY_CHANGE),
                            },
                        )
                    ),
                    "shared": listed(shape_of(upgrades.SharedObject)),
                    "problems": listed(TEXT),
                    "notes": listed(TEXT),
                },
            )
        ),
        "problems": listed(TEXT),
    },
)
FIXED = _in("packages", {"type": "object", "additionalProperties": listed(TEXT)})
UPGRADABLES = _in("applications", listed(UPGRADABLE))
PROJECT_UPGRADABLES = _in(
    "environments", {"type": "object", "additionalProperties": listed(UPGRADABLE)}
)
ENVIRONMENT_PAGE = _page("EnvironmentPage", "environments", LISTED)
ALL_LEAKED = _in("leaked", listed(LEAKED))
ALL_OPENED = _in("sessions", listed(OPENED))
DEPLOYMENT_PAGE = _page("DeploymentPage", "deployments", DEPLOYMENT)
REPORTS = _in("reports", listed(REPORT))
TRACE = _in("rounds", listed(TRACE_ROUND))
LAST_STATUSES = _in("lastStatuses", {"type": "object", "additionalProperties": maybe(REPORT)})
STARTED_TASK = _in("task_id", TEXT)
ACTION_RESULT = {"type": "object", "properties": {"isException": FLAG, "result": ANYTHING}}
TEMPLATE_PAGE = _page("TemplatePage", "templates", LISTED_TEMPLATE)
MADE_ENVIRONMENT = shape("MadeEnvironment", {"session_id": TEXT, "environment_id": TEXT})
VERSIONS = _in("versions", listed(VERSION))
ONE_VERSION = _in("version", VERSION)
FLAVORS = _in("flavors", listed(shape("Flavor", {"name": TEXT})))
NETWORKS = _in("networks", listed(JOINABLE))
WIZARDS = _in("wizards", listed(LISTED_WIZARD))
FORM_DEFINITION = shape("FormDefinition", {"text": TEXT})
BUILT = _in("model", OBJECT)
FINISHED = shape("FinishedWizard", {"environment_id": TEXT, "component": OBJECT, "changed": FLAG})
ANY_LIST = listed(ANYTHING)
# Without /v1 (§7)
V03_ENVIRONMENT = shape(
    "V03Environment",
    {
        **CHANGED["properties"],
        "status": {"type": "string", "enum": ["ready", "pending", "deploying"]},
        "status_detail": STATUS,
    },
)
V03_ENVIRONMENTS = _in("environments", listed(V03_ENVIRONMENT))
V03_SESSION = shape(
    "V03Session",
    {
        **SESSION["properties"],
        "state": {"type": "string", "enum": ["open", "deploying", "deployed"]},
        "state_detail": TEXT,
    },
)
