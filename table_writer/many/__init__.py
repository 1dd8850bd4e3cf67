"""Calls on many tables: which they are, a few at a time; a short look at each, and all that is to do where it is."""
