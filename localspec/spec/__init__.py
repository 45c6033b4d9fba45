"""The algorithm of speculative decoding. Standard library and numpy only; knows no model format and no screen."""
