"""The guest agent and how it is packed (guest-agent.md §7).

`vetro.guest.agent` is the agent itself: standard library only, Python 3.6 or newer, imports
nothing else of Vetro. `vetro.guest.build.build_archive` packs it into `vetro-guest.pyz`.
"""
