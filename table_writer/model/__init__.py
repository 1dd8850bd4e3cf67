"""The nouns: frozen, picklable, no I/O, importing nothing of their siblings."""
