"""All broken rules; ``rules.md`` has those of which nothing is here, and why."""

from __future__ import annotations

from typing import Final

from . import deep_mutations, late_mutations, loop_mutations, mutations, world_mutations, write_mutations
from .mutation import Mutation

EVERY_MUTATION: Final[tuple[Mutation, ...]] = (
    *mutations.MUTATIONS,
    *write_mutations.MUTATIONS,
    *late_mutations.MUTATIONS,
    *world_mutations.MUTATIONS,
    *deep_mutations.MUTATIONS,
    *loop_mutations.MUTATIONS,
)
