"""The page about one table: the facts of one look, as text and as one HTML file with pictures."""
