"""Stacks on a real OpenStack: Heat makes the resources, Neutron says what networks there are."""

from vetro.stacks.heat.back_end import HeatSettings, HeatStacks
from vetro.stacks.heat.directory import NeutronDirectory
from vetro.stacks.heat.offers import OffersByRegion
from vetro.stacks.heat.patience import Patience

__all__ = ["HeatSettings", "HeatStacks", "NeutronDirectory", "OffersByRegion", "Patience"]
