"""Operations on stacks: what changes, in which order, under which hold."""
