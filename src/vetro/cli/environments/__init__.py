"""Commands on environments: compose, deploy, upgrade, call actions."""
