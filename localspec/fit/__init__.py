"""Does it fit? What a model takes, what this machine has, and which layers go where. Loads no model."""
