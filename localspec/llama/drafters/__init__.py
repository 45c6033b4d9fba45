"""Drafters that read the target's hidden states, one file each. They are ordinary drafters to everyone else."""
