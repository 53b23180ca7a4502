"""Work that outlives a request: tasks on nodes (`node_tasks`, sent by `agents` or fetched by them:
`pulled`; those of a service instance that died: `takeover`) and jobs, chains of such steps that another
process continues when one dies (`jobs`).
"""
