"""The service over HTTP: declarations of calls (`endpoint`), the calls (`endpoints`), who may make
them (`keys`, `ownership`), their answers (`answers`), and two calls with code of their own
(`placement`, `heartbeat_fast_path`). `face` assembles them.
"""
