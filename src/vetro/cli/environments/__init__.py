"""Commands on environments: compose, deploy, upgrade, call actions.

`env` is the command group; each larger command has a module. All changes go through one session of
the environment, which `sessions` finds or opens. `objects` makes applications from the settings that
people type, by the schemas of their classes; `editing` changes those that are there, and `patching`,
`transfer` and `template` move whole models.
"""
