"""`localspec chat` without a screen: lines in, lines out, for pipes and screen readers.

The same conversation as on the screen (conversation/), driven by the same slash commands. Answers go to standard
output, everything else to standard error, what a model thinks before it answers included.
"""

from localspec.plain.chat import PlainChat

__all__ = ["PlainChat"]
