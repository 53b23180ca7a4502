"""Reading deployments and their reports (catalog-api.md §5.5).

A deployment outlives its environment: the same project can read its user, action, time and outcome
until it is pruned (``vetro.environments.pruning``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sqlalchemy import and_, func, select

from vetro.catalog import api_time, api_time_or_none
from vetro.environments import states
from vetro.environments.paging import ALL, Listing, Order, page
from vetro.environments.store import EnvironmentStore
from vetro.environments.tables import statuses, tasks, traces
from vetro.environments.views import (
    DeploymentView,
    LastReport,
    ListedDeployment,
    ReportView,
    TraceRound,
)
from vetro.http import BadRequest, Forbidden, NotFound, Principal
from vetro.json_values import Json
from vetro.storage import Database, StoredRow, Transaction

#: Characters of a deployment's last report in a list.
LISTED_TEXT = 200


class TaskHistory:
    """Reads the tasks of existing and of removed environments."""

    def __init__(self, database: Database, store: EnvironmentStore) -> None:
        self.database = database
        self.store = store

    async def action_result(self, principal: Principal, environment_id: str, task_id: str) -> Json:
        """The result of an action's task; ``{}`` while it runs. Errors: 403, 404."""
        async with self.database.read() as tx:
            await self._may_see(tx, principal, environment_id)
            row = (await tx.execute(select(tasks).where(tasks.c.id == task_id))).first()
            if row is None or row.environment_id != environment_id:
                raise NotFound(f"There is no task {task_id} in this environment")
            return row.result if row.finished is not None else {}

    async def _may_see(self, tx: Transaction, principal: Principal, environment_id: str) -> None:
        """Check that the caller may see an environment's history. Errors: 403, 404."""
        query = select(tasks.c.project_id).where(
            tasks.c.environment_id == environment_id, tasks.c.environment_gone.is_not(None)
        )
        gone = (await tx.execute(query.limit(1))).first()
        if gone is None:
            await self.store.environment(tx, principal, environment_id, with_model=False)
        elif gone.project_id != principal.project_id and not principal.is_admin:
            raise Forbidden(f"Environment {environment_id} belonged to another project")

    async def task(
        self, tx: Transaction, principal: Principal, environment_id: str, task_id: str
    ) -> StoredRow:
        """A deployment of an environment the caller may see. Errors: 403, 404, 400."""
        await self._may_see(tx, principal, environment_id)
        row = (await tx.execute(select(tasks).where(tasks.c.id == task_id))).first()
        if row is None:
            raise NotFound(f"Deployment with id {task_id} not found", type_="DeploymentNotFound")
        if row.environment_id != environment_id:
            raise BadRequest(f"Deployment {task_id} is not tied with Environment {environment_id}")
        return row

    async def deployments(
        self, principal: Principal, environment_id: str | None, listing: Listing = ALL
    ) -> tuple[list[ListedDeployment], str | None]:
        """Deployments of one environment, or of the caller's project; newest first.

        Deployments of removed environments are included until they are pruned. The name of a
        listing is that of the environment. With the marker of the next page. Errors: 403, 404.
        """
        query = select(tasks)
        if listing.name is not None:
            query = query.where(tasks.c.environment_name == listing.name)
        async with self.database.read() as tx:
            if environment_id is not None:
                await self._may_see(tx, principal, environment_id)
                query = query.where(tasks.c.environment_id == environment_id)
                # As they were begun: the clocks of several services differ.
                columns = (tasks.c.sequence, tasks.c.id)
            else:
                query = query.where(tasks.c.project_id == principal.project_id)
                columns = (tasks.c.started, tasks.c.sequence, tasks.c.id)
            order = Order(columns, descending=True)
            return await page(
                tx, query, order, listing, partial(self._listed, tx), computed="state"
            )

    async def _listed(self, tx: Transaction, rows: Sequence[StoredRow]) -> list[ListedDeployment]:
        ids = [row.id for row in rows]
        counts, last = await self.levels(tx, ids), await self._last_reports(tx, ids)
        return [
            {**self.view(row, counts.get(row.id, {})), "last_report": last.get(row.id)}
            for row in rows
        ]

    async def _last_reports(self, tx: Transaction, ids: list[str]) -> dict[str, LastReport]:
        """The newest report of each task that has any; the beginning of its text."""
        newest = (
            select(statuses.c.task_id, func.max(statuses.c.sequence).label("sequence"))
            .where(statuses.c.task_id.in_(ids))
            .group_by(statuses.c.task_id)
            .subquery()
        )
        query = select(
            statuses.c.task_id,
            statuses.c.level,
            statuses.c.created,
            func.substr(statuses.c.text, 1, LISTED_TEXT).label("text"),
        ).join(
            newest,
            and_(newest.c.task_id == statuses.c.task_id, newest.c.sequence == statuses.c.sequence),
        )
        return {
            row.task_id: {"level": row.level, "text": row.text, "created": api_time(row.created)}
            for row in await tx.execute(query)
        }

    async def levels(self, tx: Transaction, ids: list[str]) -> dict[str, dict[str, int]]:
        """The number of reports of each level, by task."""
        found = await tx.execute(
            select(statuses.c.task_id, statuses.c.level, func.count().label("number"))
            .where(statuses.c.task_id.in_(ids))
            .group_by(statuses.c.task_id, statuses.c.level)
        )
        counts: dict[str, dict[str, int]] = {}
        for row in found:
            counts.setdefault(row.task_id, {})[row.level] = row.number
        return counts

    def view(self, row: StoredRow, levels: dict[str, int]) -> DeploymentView:
        """A deployment as the API shows it."""
        state = states.deployment_state(
            finished=row.finished is not None,
            errors=levels.get("error", 0),
            warnings=levels.get("warning", 0),
        )
        return {
            "id": row.id,
            "environment_id": row.environment_id,
            "environment_name": row.environment_name,
            "environment_gone": api_time_or_none(row.environment_gone),
            "user_id": row.user_id,
            "user_name": row.user_name,
            "created": api_time(row.created),
            "updated": api_time(row.updated),
            "started": api_time(row.started),
            "finished": api_time_or_none(row.finished),
            "state": state,
            "outcome": row.outcome or states.ENDINGS.get(state),
            "action": row.action,
            "waiting_on": row.waiting_on if row.finished is None else None,
            "result": row.result or {},
            "description": row.description,
        }

    def report_view(self, row: StoredRow) -> ReportView:
        """A report as the API shows it."""
        return {
            "id": row.id,
            "task_id": row.task_id,
            "entity_id": row.entity_id,
            "entity": row.entity,
            "level": row.level,
            "text": row.text,
            "details": row.details,
            "created": api_time(row.created),
            "updated": api_time(row.created),
        }

    async def trace(self, tx: Transaction, task_id: str) -> list[TraceRound]:
        """What the rules of XML workflows did in a task, round by round; of other tasks nothing."""
        query = select(traces).where(traces.c.task_id == task_id).order_by(traces.c.round)
        return [{"round": row.round, "events": row.events} for row in await tx.execute(query)]

    async def reports(self, tx: Transaction, task_id: str, after: int = 0) -> list[StoredRow]:
        """The reports of a task after a sequence number, oldest first."""
        query = (
            select(statuses)
            .where(statuses.c.task_id == task_id, statuses.c.sequence > after)
            .order_by(statuses.c.sequence)
        )
        return list(await tx.execute(query))

    async def progress(
        self, principal: Principal, environment_id: str, task_id: str, after: int
    ) -> tuple[list[StoredRow], DeploymentView]:
        """New reports and the deployment, in one consistent view."""
        async with self.database.read() as tx:
            row = await self.task(tx, principal, environment_id, task_id)
            counts = await self.levels(tx, [task_id])
            return await self.reports(tx, task_id, after), self.view(row, counts.get(task_id, {}))
