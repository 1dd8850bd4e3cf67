"""The run of one write: the six steps in order, what is staged between them, and the services that they share."""
