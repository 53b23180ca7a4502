"""Work that outlives a request: tasks on nodes (`node_tasks`, sent by `agents`) and jobs, chains of
such steps that another process goes on with when one dies (`jobs`).
"""
