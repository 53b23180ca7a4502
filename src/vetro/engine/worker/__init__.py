"""The processes of an engine pool: the zygote, and the workers that it forks, one for each task."""
