"""The waitlist: one active ticket for each (server, scope, id), first come first served."""
