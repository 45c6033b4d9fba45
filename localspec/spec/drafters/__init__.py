"""Drafters: ways to propose tokens. One file each; the registry finds them."""
