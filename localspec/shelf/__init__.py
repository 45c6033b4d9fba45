"""The models of this machine and of the catalogue: what is here, what could be, how to get and to drop it."""
