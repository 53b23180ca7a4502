"""The compute service as stacks see it: a port of theirs, and the adapter to the HTTP client."""
