"""The guest agent: takes execution plans from a mailbox, runs them, returns results.

It runs inside an instance on whatever Python (3.6 or newer) the image has, so it uses only the
standard library, imports nothing of the rest of Vetro, and imports its own parts late: it sends
the first poll before it imports the executors. `vetro.guest.build` packs this
package into one file, `vetro-guest.pyz`. Specification: guest-agent.md §3, §5, §7.

How a plan is processed: `transport` receives it → `spool` stores it on disk → `loop`
acknowledges it, checks its signature and stamp and forks a child → `runner` in the child prepares
files, runs the body and leaves `result.json` in the spool → `loop` sends that and removes it.
A crash may interrupt any step; the spool alone determines where to resume.
"""

VERSION = "1.1.0"
