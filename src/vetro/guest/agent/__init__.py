"""The guest agent: takes execution plans from a mailbox, runs them, returns results.

It runs inside an instance on whatever Python (3.6 or newer) the image has, so it uses the
standard library only, imports nothing of the rest of Vetro, and imports its own parts late:
the first poll leaves before the executors are even read. `vetro.guest.build` packs this
package into one file, `vetro-guest.pyz`. Specification: guest-agent.md §3, §5, §7.

How a plan travels: `transport` receives it → `spool` keeps it on disk → `loop` acknowledges it,
checks its signature and stamp and forks a child → `runner` in the child prepares files,
runs the body and leaves `result.json` in the spool → `loop` sends that and removes it.
Each arrow may be cut by a crash; the spool alone says where to go on.
"""

VERSION = "1.1.0"
