"""Assembled processes: ``vetro up`` and its parts (DESIGN §3).

This is the only room that knows every service. ``settings`` says how a process is configured,
``listeners`` how it gets its sockets, ``credentials`` what the first start hands to the
administrator, ``up`` puts the services together and runs them until a signal.
"""
