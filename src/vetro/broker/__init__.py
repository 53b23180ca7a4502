"""The service broker: applications of the catalog as services of a Cloud Foundry (catalog-api.md §13).

It speaks the Open Service Broker API to the platform and the catalog API to Vetro, with the rights of
the user whose name and password the platform sends. ``Broker`` is the store, ``broker_face`` serves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.broker.catalog_api import CatalogApi
    from vetro.broker.face import broker_face
    from vetro.broker.settings import CfapiSection
    from vetro.broker.store import Broker
    from vetro.broker.tables import MIGRATIONS

__getattr__ = import_when_used(__name__)
