"""The command line as a client of a running Vetro: connection, hints, completed names, progress."""
