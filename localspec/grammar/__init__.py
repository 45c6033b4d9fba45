"""Grammars that an answer must follow: GBNF, JSON schemas, and the automaton that matches tokens against them.

Pure Python on purpose. llama.cpp's own matcher ends the process on a token that it does not expect, prints what it
can't parse to the terminal, and has to be copied for every drafted token; states of this one are values.
"""
