"""Instances and bindings of a platform: what was asked for, and what became of it.

An instance is a row first and an application second, so that a request which was cut off is carried
on when the platform repeats it. The catalog lets one deployment run in an environment at a time; a
request that comes meanwhile is refused with ``ConcurrencyError``, which platforms repeat.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from sqlalchemy import delete, insert, select, update

from vetro.broker.catalog_api import ANYTHING, Account, CatalogApi, ConcurrencyError
from vetro.broker.offers import (
    Json,
    application_in,
    application_object,
    as_object,
    credentials_action,
    offer,
    plan_of,
)
from vetro.broker.tables import bindings, instances, organizations, spaces
from vetro.http import BadRequest, Conflict, Fault, Forbidden, GatewayTimeout, NotFound
from vetro.storage import Database

CHANGES = "broker"


class State(StrEnum):
    """What became of an instance."""

    ACCEPTED = "accepted"  # nothing is known to be deployed
    CREATING = "creating"
    CREATED = "created"
    DELETING = "deleting"


@dataclass(frozen=True)
class Wanted:
    """A request for an instance."""

    service_id: str
    plan_id: str
    organization: str
    space: str
    parameters: dict[str, Json]


@dataclass(frozen=True)
class Operation:
    """The state of an instance's last operation."""

    state: str
    description: str


SUCCEEDED = Operation("succeeded", "operation succeed")
IN_PROGRESS = Operation("in progress", "operation in progress")


class Broker:
    """Instances of all spaces. Calls take the caller's account, which does not see the rows of other
    projects."""

    def __init__(self, database: Database, api: CatalogApi, key: bytes) -> None:
        """``key``: of the digests that requests are compared by."""
        self.database = database
        self.api = api
        self._key = key
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def catalog(self, account: Account) -> Json:
        """The services on offer."""
        return offer(await self.api.applications(account))

    # Instances

    async def provision(self, account: Account, instance_id: str, wanted: Wanted) -> bool:
        """Deploy a new instance; whether it was there already. Errors: 400, 403, 409, 422."""
        digest = self._digest(wanted)
        async with self._alone(instance_id):
            row = await self._instance(instance_id)
            if row is not None:
                if row.project_id != account.project_id or row.digest != digest:
                    raise Conflict("There is another instance with this id")
                if row.state == State.DELETING:
                    raise ConcurrencyError("The instance is being deleted")
                if row.state != State.ACCEPTED:
                    return (await self._operation(account, row)) == SUCCEEDED
            package = await self._package(account, wanted.service_id, wanted.plan_id)
            object_id = row.object_id if row is not None else uuid.uuid4().hex
            async with self.database.transaction() as tx:
                await tx.exclude(CHANGES)
                await self._claim_organization(tx, wanted.organization, account.project_id)
                if row is None:
                    again = select(instances.c.id).where(instances.c.id == instance_id)
                    if (await tx.execute(again)).first() is not None:
                        raise ConcurrencyError("Another broker creates this instance")
                    await tx.execute(
                        insert(instances).values(
                            id=instance_id,
                            project_id=account.project_id,
                            service_id=wanted.service_id,
                            plan_id=wanted.plan_id,
                            digest=digest,
                            object_id=object_id,
                            state=State.ACCEPTED,
                            created=self.database.clock.now(),
                        )
                    )
            try:
                await self._deploy(account, instance_id, object_id, package, wanted)
            except Fault as error:
                if error.status < 500:  # refused: the same id may be used for another request
                    await self._forget(instance_id)
                raise
        return False

    async def _deploy(
        self, account: Account, instance_id: str, object_id: str, package: Json, wanted: Wanted
    ) -> None:
        async with self._alone(f"space {account.project_id} {wanted.space}"):
            environment = await self._environment_of(account, wanted.space)
            # It is there when this process was stopped between deploying and writing so down.
            if application_in(environment, object_id) is None:
                body = application_object(package, object_id, wanted.space, wanted.parameters)
                await self.api.change(account, environment["id"], "POST", "", body)
            await self._set(
                instance_id, state=State.CREATING, environment_id=str(environment["id"])
            )

    async def deprovision(
        self, account: Account, instance_id: str, service_id: str, plan_id: str
    ) -> bool:
        """Remove an instance; whether it is gone at once. Errors: 400, 404 unknown, 422."""
        async with self._alone(instance_id):
            row = await self._own(account, instance_id)
            _check_ids(row, service_id, plan_id)
            if row.state == State.DELETING:
                operation = await self._operation(account, row)
                if operation is None or operation.state == "in progress":
                    return operation is None
            if row.environment_id is None:
                await self._forget(instance_id)
                return True
            try:
                path = f"/{row.object_id}"
                await self.api.change(
                    account, row.environment_id, "DELETE", path, may_lose=ANYTHING
                )
            except NotFound:
                await self._forget(instance_id)
                return True
            await self._set(instance_id, state=State.DELETING)
        return False

    async def last_operation(self, account: Account, instance_id: str) -> Operation | None:
        """How the last operation stands; ``None``: the instance is gone. Errors: 404 unknown."""
        return await self._operation(account, await self._own(account, instance_id))

    async def _operation(self, account: Account, row: Any) -> Operation | None:
        if row.state == State.CREATED:
            return SUCCEEDED
        if row.state == State.ACCEPTED:
            return IN_PROGRESS
        found = await self.api.environment(account, row.environment_id)
        if found is None:
            if row.state == State.DELETING:
                await self._forget(row.id)
                return None
            return Operation("failed", "The environment is gone. Please correct it manually")
        status = str(found["status"])
        is_there = application_in(found, row.object_id) is not None
        if status == "pending":
            newest = await self._newest_deployment(account, row.environment_id)
            if newest.get("state") in ("success", "completed_w_warnings"):
                status = "ready"  # another user opened a session meanwhile
            elif refusal := _refusal(newest):
                if is_there is (row.state == State.DELETING):
                    return Operation("failed", refusal)
                status = "ready"  # that was another instance's
        if status == "ready":
            if row.state == State.DELETING:
                await self._forget(row.id)
                return None
            if not is_there:
                # Others have deployed since: the space is well without it.
                return Operation("failed", "It was not deployed. Delete it and create it again")
            await self._set(row.id, state=State.CREATED)
            return SUCCEEDED
        if status in ("pending", "deleting", "deploying"):
            return IN_PROGRESS
        if status.endswith("failure"):
            return Operation("failed", f"{status}. Please correct it manually")
        return Operation("unknown", f"The environment is {status}")

    async def _newest_deployment(self, account: Account, environment_id: str) -> dict[str, Json]:
        """The environment's newest deployment; empty: there was none."""
        answer = await self.api.call(account, "GET", f"/environments/{environment_id}/deployments")
        return as_object(next(iter(answer["deployments"]), None))

    # Bindings

    async def bind(
        self, account: Account, instance_id: str, binding_id: str, request: dict[str, Json]
    ) -> tuple[bool, Json]:
        """Whether the binding is new, and its credentials. Errors: 400, 404, 409, 422, 500, 504."""
        digest = self._digest(request)
        async with self._alone(instance_id):
            row = await self._own(account, instance_id)
            _check_ids(row, str(request["service_id"]), str(request["plan_id"]))
            async with self.database.read() as tx:
                query = select(bindings).where(
                    bindings.c.instance_id == instance_id, bindings.c.id == binding_id
                )
                known = (await tx.execute(query)).first()
            if known is not None and known.digest != digest:
                raise Conflict("There is another binding with this id")
            operation = await self._operation(account, row)
            if operation is None or operation == IN_PROGRESS:
                raise ConcurrencyError("The instance is being deployed or deleted")
            credentials = await self._credentials(account, row)
            if known is None:
                fresh = {"instance_id": instance_id, "id": binding_id, "digest": digest}
                async with self.database.transaction() as tx:
                    await tx.execute(insert(bindings).values(fresh))
            return known is None, credentials

    async def _credentials(self, account: Account, row: Any) -> Json:
        found = await self.api.environment(account, row.environment_id)
        action = credentials_action(application_in(found, row.object_id))
        if action is None:
            raise Fault(
                "The application has no action getCredentials: its class needs a method of this name"
                " with 'Scope: Public'",
                status=500,
            )
        seconds = self.api.settings.credentials_seconds
        answer = await self.api.action_result(account, row.environment_id, action, seconds)
        if answer is None:
            raise GatewayTimeout(f"getCredentials did not end within {seconds:g} seconds")
        result: Json = answer.get("result")
        if answer.get("isException"):
            said = as_object(result).get("message", result)
            raise Fault(f"getCredentials failed: {said}", status=500)
        return result if "credentials" in as_object(result) else {"credentials": result}

    async def unbind(
        self, account: Account, instance_id: str, binding_id: str, service_id: str, plan_id: str
    ) -> None:
        """Forget a binding, if there is one. Errors: 400, 404 unknown instance."""
        row = await self._own(account, instance_id)
        _check_ids(row, service_id, plan_id)
        gone = delete(bindings).where(
            bindings.c.instance_id == instance_id, bindings.c.id == binding_id
        )
        async with self.database.transaction() as tx:
            await tx.execute(gone)

    # Rows

    async def _own(self, account: Account, instance_id: str) -> Any:
        row = await self._instance(instance_id)
        if row is None or row.project_id != account.project_id:
            raise NotFound("There is no such instance")
        return row

    async def _instance(self, instance_id: str) -> Any:
        async with self.database.read() as tx:
            query = select(instances).where(instances.c.id == instance_id)
            return (await tx.execute(query)).first()

    async def _set(self, instance_id: str, **values: object) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(update(instances).where(instances.c.id == instance_id).values(values))

    async def _forget(self, instance_id: str) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(delete(bindings).where(bindings.c.instance_id == instance_id))
            await tx.execute(delete(instances).where(instances.c.id == instance_id))

    async def _claim_organization(self, tx: Any, organization: str, project_id: str) -> None:
        query = select(organizations.c.project_id).where(organizations.c.id == organization)
        known = (await tx.execute(query)).scalar()
        if known is None:
            fresh = {"id": organization, "project_id": project_id}
            await tx.execute(insert(organizations).values(fresh))
        elif known != project_id:
            raise Forbidden("The services of this organization are in another project")

    async def _environment_of(self, account: Account, space: str) -> Json:
        """The environment of a space; created again when it was deleted."""
        mine = (spaces.c.project_id == account.project_id) & (spaces.c.id == space)
        async with self.database.transaction() as tx:
            await tx.exclude(CHANGES)
            row = (await tx.execute(select(spaces).where(mine))).first()
            name = row.environment_name if row is not None else f"my_{uuid.uuid4()}"
            if row is None:
                fresh = {"project_id": account.project_id, "id": space, "environment_name": name}
                await tx.execute(insert(spaces).values(fresh))
        found: Json | None = None
        if row is not None and row.environment_id is not None:
            found = await self.api.environment(account, row.environment_id)
        if found is None:
            environment_id = await self.api.environment_named(account, name)
            async with self.database.transaction() as tx:
                await tx.execute(update(spaces).where(mine).values(environment_id=environment_id))
            found = await self.api.environment(account, environment_id)
        if found is None:
            raise ConcurrencyError("The environment of this space is being deleted")
        return found

    async def _package(self, account: Account, service_id: str, plan_id: str) -> Json:
        package = await self.api.application(account, service_id)
        if package is None:
            raise BadRequest(f"There is no service {service_id}: the catalog lists those there are")
        if plan_id != plan_of(service_id):
            raise BadRequest(f"The service {service_id} has the plan {plan_of(service_id)} only")
        return package

    def _digest(self, request: Wanted | dict[str, Json]) -> str:
        text = msgspec.json.encode(request, order="sorted")
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncGenerator[None]:
        """One after another in this process; others meet at the primary keys and the environment."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            yield


def _refusal(deployment: dict[str, Json]) -> str:
    """Why a deployment was refused before it began: what it would have lost; empty: it was not."""
    result = as_object(as_object(deployment.get("result")).get("result"))
    return str(result.get("message") or "") if result.get("losses") else ""


def _check_ids(row: Any, service_id: str, plan_id: str) -> None:
    if (row.service_id, row.plan_id) != (service_id, plan_id):
        raise BadRequest("The instance is of another service or plan")
