"""The reports that calls return, as plain text and as HTML for notebooks: escaped, with nothing from the network."""
