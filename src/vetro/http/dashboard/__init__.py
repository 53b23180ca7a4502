"""The web dashboard's server side, at ``/dashboard``: its files, its sessions, its way to the faces.

A browser gets no token. It signs in (`signing_in`), and the token goes into a cookie that only this
service can open (`sessions`). Requests below ``/dashboard/api`` for the faces are passed to them in
this process, with the session's token (`forwarding`). Everything else below ``/dashboard`` is the
built dashboard (`files`), or a bookmark of an older one (`bookmarks`) or a call of its pages (`earlier`).
Specification: dashboard-and-cli.md part A; why so: docs/decisions/0215.
"""
