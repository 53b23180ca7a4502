"""The waitlist: one active ticket for each (server, scope, id), first come first served.

Changes of a server or a VM come one after another: a caller queues a ticket and waits until it is
active. `tickets` keeps them in the database, activates the next one when one ends or expires,
and says which tickets stand before a waiting one.
"""
