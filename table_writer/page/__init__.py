"""The page about one table: all that one look shows, as facts and as one HTML file with pictures."""
