"""``vetro doctor``: what is wrong with this machine and its installation, and what to do about it.

Nothing is changed. ``machine`` looks at the system that instances run on, ``installation`` at settings,
directories, the database and the services that the settings name.
"""

from vetro.server.doctor.findings import Finding
from vetro.server.doctor.installation import examine_installation
from vetro.server.doctor.machine import Machine, examine_machine
