"""The nouns: values without I/O, most of them frozen. They import each other, ``errors`` and ``checked`` alone."""
