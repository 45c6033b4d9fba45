"""The Textual interface. Sees engine events, sessions and figures; never a model or a drafter."""
