"""The state of the chat: the turns of one session, and the other sessions that can be opened in its place.

A screen reads this state and draws it; it changes it only through the methods of Conversation. Knows no widget and
no clock.
"""

from localspec.chat.room import Full
from localspec.chat.store import Hit, Row
from localspec.conversation.data import DRAFT_LENGTHS, OFF, Note, Options, Returned
from localspec.conversation.sessions import Conversation

__all__ = ["DRAFT_LENGTHS", "OFF", "Conversation", "Full", "Hit", "Note", "Options", "Returned", "Row"]
