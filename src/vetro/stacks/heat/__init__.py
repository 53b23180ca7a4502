"""Stacks on a real OpenStack: Heat makes the resources, Neutron says what networks there are.

`back_end` implements the protocol `Stacks` with the calls of `client`; `answers` puts what Heat says
in the words of `vetro.stacks`, so that the engine cannot tell the back ends apart. `patience` asks
again while a service of the cloud is away. `losing` names what an update or a removal would take from its
user, from templates that `written_out` makes comparable; `restoring` puts back what people took by hand, as
`by_hand` and `rules` see it at Neutron; `first_start` keeps machines whose user data change, `ownership`
keeps stacks of somebody else; `requests` has what Heat is asked for. `directory` and `offers` read networks,
flavors and images for programs and forms, `network_drivers` the network service of new environments.
"""

from vetro.stacks.heat.back_end import HeatSettings, HeatStacks
from vetro.stacks.heat.directory import CinderDirectory, NetworkDrivers, NeutronDirectory
from vetro.stacks.heat.offers import OffersByRegion
from vetro.stacks.heat.patience import Patience
from vetro.stacks.heat.quotas import CloudQuota, QuotasByRegion
