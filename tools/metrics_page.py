"""Writes docs/metrics.md from the metrics' own declarations; `make docs` calls it."""

from __future__ import annotations

import importlib

from vetro.http import DECLARED

#: The modules that declare metrics, by the part of the page that they are in.
PARTS = {
    "Deployments and engines": ("vetro.environments.lifecycle", "vetro.engine.metrics"),
    "Guests": ("vetro.messaging.metrics",),
    "Stacks, instances and nodes": (
        "vetro.stacks.metrics",
        "vetro.compute.values.metrics",
        "vetro.compute.servers.heartbeats",
        "vetro.quotas.limits",
    ),
    "HTTP and the service": (
        "vetro.http.metrics",
        "vetro.http.project_limits",
        "vetro.compute.http.request_metrics",
        "vetro.identity.keystone.tokens",
        "vetro.identity.login",
    ),
}

HEAD = """# Metrics

Written by `make docs` from the code.

`/metrics` has them in the form of Prometheus, at the service's port and at `server.metrics_port` when one is
set. It asks for no token: let only those reach it who may know how much is going on.

What stands under *where* as `database` is read there, at most every five seconds: every service on
one database shows the same, so take the largest, not the sum. What stands there as `process` counts what this
service did since its start: take the sum.

Labels have few values, whatever users do: none is an id, or a name that somebody chose. The client library
adds `process_*` and `python_*`.
"""

QUERIES = {
    "How many deployments fail?": (
        'sum(rate(vetro_deployments_ended_total{outcome=~"failed\\|interrupted"}[1h]))'
        " / sum(rate(vetro_deployments_ended_total[1h]))"
    ),
    "How long do they take?": (
        "histogram_quantile(0.9, sum by (le)"
        ' (rate(vetro_deployment_seconds_bucket{kind="deployment"}[1h])))'
    ),
    "Are there too few engines?": 'max(vetro_engine_queue_age_seconds{queue="deployments"}) > 60',
    "Has a node gone?": "max(vetro_nodes) - max(vetro_nodes_heard)",
    "Do guests not fetch their plans?": "max(vetro_plan_age_seconds) > 300",
    "Is somebody guessing passwords?": "sum(rate(vetro_login_failures_total[10m])) > 1",
}

TAIL = """
## Alerts, and a dashboard

`monitoring/alerts.yml` has alert rules for Prometheus, each with what to do; `monitoring/grafana.json` is a
dashboard to import in Grafana ([operating.md](operating.md#alerts)).
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    modules = {name for names in PARTS.values() for name in names}
    for name in sorted(modules):
        importlib.import_module(name)
    for title, names in PARTS.items():
        parts.append(f"\n## {title}\n\n| metric | kind | where | |\n|---|---|---|---|\n")
        # In the order of the modules and their lines, whatever was imported first.
        for one in (one for name in names for one in DECLARED.values() if one.module == name):
            labels = "".join(f" `{label}`: {said}" for label, said in one.labels.items())
            where = "database" if one.stored else "process"
            parts.append(f"| `{one.name}` | {one.kind} | {where} | {one.text}{labels} |\n")
    left = sorted(one.name for one in DECLARED.values() if one.module not in modules)
    if left:
        raise SystemExit(f"tools/metrics_page.py has no part for {', '.join(left)}")
    parts.append("\n## Questions and queries\n\n| question | query |\n|---|---|\n")
    parts += [f"| {question} | `{query}` |\n" for question, query in QUERIES.items()]
    parts.append(TAIL)
    return "".join(parts)
