"""Environments, sessions, the services tree, deployments, actions, tasks (catalog-api.md §5, §8).

``Environments`` holds the stores: ``.store`` for the API, ``.tasks`` and ``.calls`` for engines.
``environments_face`` serves them, together with the catalog's packages, as the ``/v1`` API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.environments.api_settings import ApiSection, HistorySection, StatsSection
    from vetro.environments.endpoint import CloudQuotas
    from vetro.environments.existing import Existing, ExistingEnvironments
    from vetro.environments.face import allowed_rules, catalog_policy, environments_face
    from vetro.environments.form_secrets import FormSecrets
    from vetro.environments.instance_records import Tracked
    from vetro.environments.leaving import (
        destroy_of_project,
        forget_of_project,
        names_of_project,
    )
    from vetro.environments.lifecycle import Ending, listening_for_endings
    from vetro.environments.machine_names import Machine, machines
    from vetro.environments.model import walk
    from vetro.environments.preparing import (
        EnvironmentSettings,
        NetworkDriver,
        NetworkTemplateError,
        read_network_template,
    )
    from vetro.environments.pruning import HistoryPruning
    from vetro.environments.static_calls import CallAnswer, EngineCall
    from vetro.environments.stores import Environments
    from vetro.environments.tables import MIGRATIONS
    from vetro.environments.task_values import (
        Delegations,
        EngineTask,
        LeakedObject,
        TaskResult,
        shortened,
        task_channel,
    )
    from vetro.environments.tasks import TaskStore
    from vetro.environments.unanswered import UnansweredTasks
    from vetro.environments.upgrades import (
        ComparedApplication,
        Comparison,
        MovePlan,
        MoveView,
        PropertyChange,
        make_moves,
    )
    from vetro.environments.uses import EnvironmentUses, pinned_packages
    from vetro.environments.wizard_offers import Platform

__getattr__ = import_when_used(__name__)
