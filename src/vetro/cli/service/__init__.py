"""Commands that run and operate a Vetro: its processes, keys, tokens, projects."""
