"""An executable model of the protocol: every interleaving of a few actors, decided by the product's own rules."""
