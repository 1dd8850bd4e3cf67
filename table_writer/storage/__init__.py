"""Gateway to the storage: one protocol, and a package for each kind of store, which ``kinds.py`` lists."""
