"""Networks: the service owns them and their addresses (`fabric`), determines what nodes must know
of each other when one network spans several (`overlays`), and sends each node its whole wanted
state (`reconciler`).
"""
