"""The processes of an engine pool: the zygote, and the workers that it forks, one for each task.

`zygote` loads every library once, so that a fork starts at once. The pool and its processes exchange
`messages`, one of which ends a task early. A worker opens the `back_ends` of its task and runs it:
`deployment` for a MuranoPL model, `workflow_run` for flat services (with `workflow_port` for their
effects), `static_call` and `upgrade_check` for calls
without a deployment. `model_policy` asks the operator's rules first, `result_size` bounds what a
program produces. A worker holds no state that the database lacks: it may be killed at any moment.
"""
