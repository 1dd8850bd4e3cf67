"""How results look: plain text everywhere, HTML in notebooks, always escaped, never from the network."""
