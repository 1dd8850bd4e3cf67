"""`make demo`: what the library is for, on embedded parts, with a reader that looks all the time."""
