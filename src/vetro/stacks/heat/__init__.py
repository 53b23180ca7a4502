"""Stacks on a real OpenStack: Heat makes the resources, Neutron says what networks there are."""

from vetro.stacks.heat.back_end import HeatSettings, HeatStacks
from vetro.stacks.heat.directory import NeutronDirectory
from vetro.stacks.heat.offers import OffersByRegion
from vetro.stacks.heat.patience import Patience
from vetro.stacks.heat.quotas import CloudQuota, QuotasByRegion

__all__ = [
    "CloudQuota",
    "HeatSettings",
    "HeatStacks",
    "NeutronDirectory",
    "OffersByRegion",
    "Patience",
    "QuotasByRegion",
]
