"""Conversations as text: templates, detokenising, sessions, exports. Knows no screen and no process."""
