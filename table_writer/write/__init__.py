"""The run of one write: steps 1 to 5 in order, staged writes between them, and the services that they share."""
