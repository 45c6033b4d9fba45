"""Where messages are written: the editor, the list of what could come next, and what is being edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from localspec.chat.session import Node
from localspec.conversation import Conversation
from localspec.tui.completion import Offer, files_under, offer
from localspec.tui.widgets.prompt import Prompt
from localspec.tui.widgets.suggestions import Suggestions


class Composer(Vertical):
    @dataclass
    class Sent(Message):
        """`instead_of` is the message that this one is an edit of."""

        text: str
        instead_of: Node | None

    def __init__(self, conversation: Conversation, keys: Mapping[str, str], folder: Path | None = None) -> None:
        """`folder` is where files to attach are looked for: the current one."""
        super().__init__()
        self._conversation, self._keys = conversation, keys
        self._folder = folder or Path.cwd()
        self._files: tuple[str, ...] | None = None  # None: not looked for since the prompt was empty
        self.editing: Node | None = None

    def compose(self) -> ComposeResult:
        suggestions = Suggestions()
        yield suggestions
        yield Prompt(suggestions, self._offer, self._keys)

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    def edit(self, node: Node | None) -> None:
        self.editing = node
        title = "editing an earlier message: Enter asks it beside the old one, Esc leaves it" if node else ""
        self.prompt.border_title = title

    def leave(self) -> None:
        """Stop editing; what was being edited stays as it is."""
        self.prompt.put("")
        self.edit(None)

    def give_back(self, text: str, instead_of: Node | None) -> None:
        self.prompt.give_back(text)
        self.edit(instead_of)

    def leaf(self, step: int) -> None:
        """Through the messages that were sent; -1 towards older ones."""
        own = [node for node in self._conversation.session.path if node.message]
        place = own.index(self.editing) if self.editing in own else len(own)
        target = max(0, place + step)
        node = own[target] if target < len(own) else None
        if node is not self.editing:
            self.prompt.put(node.message.text if node and node.message else "")
            self.edit(node)

    @on(Prompt.Sent)
    def _sent(self, event: Prompt.Sent) -> None:
        event.stop()
        editing, self._files = self.editing, None
        self.edit(None)
        self.post_message(self.Sent(event.text, editing))

    @on(Prompt.Recalled)
    def _recalled(self, event: Prompt.Recalled) -> None:
        """Up takes back the last queued prompt, else leafs through the messages that were sent."""
        event.stop()
        queue = self._conversation.queue
        if event.step < 0 and queue and not self.editing:
            self.prompt.put(queue.pop())
        else:
            self.leaf(event.step)

    def _offer(self, before: str) -> Offer | None:
        if self._files is None and "@" in before:
            self._files = ()
            self._look_for_files()
        return offer(before, self._conversation, self._files or ())

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _look_for_files(self) -> None:
        files = tuple(files_under(self._folder))
        self.app.call_from_thread(self._found, files)

    def _found(self, files: tuple[str, ...]) -> None:
        self._files = files
        self.prompt.suggest()
