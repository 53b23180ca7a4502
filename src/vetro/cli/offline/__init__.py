"""Commands that need no service: they open packages and run languages in this process."""
