"""The command line as a client of a running Vetro.

`connection` finds the service and the user's token, sends requests, and turns every failure into one
line with a `hint`; the command groups know no other way to a service. Beside it: completed names
(`name_completion`), the reports of a deployment while it runs (`deployment_progress`), and sending
image files (`image_upload`).
"""
