"""The editor for the next message. Enter sends; what is pasted is text, whatever it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from localspec.chat.text import visible
from localspec.tui.completion import Offer, Suggestion
from localspec.tui.widgets.suggestions import Suggestions


class Prompt(TextArea):
    BINDING_GROUP_TITLE = "Writing"
    HELP = (
        "Enter sends the message; while an answer is being written it waits in the queue. "
        "/ begins a command, @ attaches a text file, // sends a slash. Tab completes."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", id="prompt.send"),
        Binding("shift+enter,ctrl+j", "newline", "New line", id="prompt.newline"),
        Binding("up", "cursor_up", "In an empty prompt: edit an earlier message", id="prompt.recall"),
        Binding("down", "cursor_down", "After that: a later message", id="prompt.later"),
        Binding(
            "tab",
            "complete",
            "Complete a command or a file; else go on to what can be opened",
            id="prompt.complete",
        ),
        Binding("pageup", "screen.scroll(-1)", "Scroll the conversation up", id="prompt.page_up", priority=True),
        Binding(
            "pagedown", "screen.scroll(1)", "Scroll the conversation down", id="prompt.page_down", priority=True
        ),
        Binding("ctrl+d", "delete_or_quit", "Quit, in an empty prompt", id="prompt.quit"),
    ]

    @dataclass
    class Sent(Message):
        text: str

    @dataclass
    class Recalled(Message):
        """The user leafs through earlier messages: -1 towards older ones."""

        step: int

    def __init__(
        self, suggestions: Suggestions, offer: Callable[[str], Offer | None], keys: Mapping[str, str]
    ) -> None:
        """`offer` says what could come after a text; `keys` are the user's own, by the id of the binding."""
        super().__init__(soft_wrap=True, tab_behavior="focus", placeholder="Write a message, or / for commands")
        self.cursor_blink = False
        self._suggestions, self._offer = suggestions, offer
        self._unwanted = False  # the user closed the list, until there is none any more
        self._recalled = ""
        for key in (key for name in keys.values() for key in name.split(",")):
            self._bindings.key_to_bindings.pop(key, None)  # the editor's own use of it ends
        self._in_order = self._orderly(keys)

    def _orderly(self, keys: Mapping[str, str]) -> dict[str, Callable[[], object]]:
        """Keys whose meaning depends on the text."""
        acts: dict[str, Callable[[], object]] = {
            "prompt.send": self.action_send,
            "prompt.newline": self.action_newline,
            "prompt.recall": self.action_cursor_up,
            "prompt.later": self.action_cursor_down,
            "prompt.complete": self.action_complete,
            "prompt.quit": self.action_delete_or_quit,
        }
        usual = {
            binding.id: binding.key for binding in self.BINDINGS if isinstance(binding, Binding) and binding.id
        }
        return {key: act for name, act in acts.items() for key in keys.get(name, usual[name]).split(",")}

    def put(self, text: str) -> None:
        """Replace the text and go to its end."""
        self.text = self._recalled = visible(text)
        self.move_cursor(self.document.end)

    def give_back(self, text: str) -> None:
        """Put a text that was not taken before what was typed since."""
        self.put(f"{text}\n{self.text}" if self.text.strip() else text)

    def action_send(self) -> None:
        if suggestion := self._suggested():
            self._accept(suggestion)
            if not (suggestion.ends and self.text.startswith("/")):
                return
        text = self.text
        self.put("")  # at once: the next message may arrive in the same burst of keys
        self.post_message(self.Sent(text))

    def action_newline(self) -> None:
        self.insert("\n")

    def action_complete(self) -> None:
        self._suggest()
        if suggestion := self._suggestions.first():
            self._accept(suggestion)
        else:
            self.screen.focus_next()

    def action_cursor_up(self, select: bool = False) -> None:
        if self._choosing and not select:
            self._suggestions.move(-1)
        elif select or not self._leafing or self.cursor_location[0] > 0:
            super().action_cursor_up(select)
        else:
            self.post_message(self.Recalled(-1))

    def action_cursor_down(self, select: bool = False) -> None:
        if self._choosing and not select:
            self._suggestions.move(1)
        elif select or not self._leafing or self.cursor_location[0] < self.document.line_count - 1:
            super().action_cursor_down(select)
        else:
            self.post_message(self.Recalled(1))

    def action_delete_or_quit(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            self.app.exit()

    async def _on_key(self, event: events.Key) -> None:
        """Keys whose meaning depends on the text are handled here, in the order of typing: a binding would run
        before the characters that arrived just ahead of it are in the text."""
        act = self._in_order.get(event.key)
        if event.key == "escape" and self._suggestions.offer:
            act = self._close_list
        if act is None:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        act()

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()  # else Textual's own handler pastes it once more
        event.stop()
        await super()._on_paste(events.Paste(visible(event.text.replace("\r\n", "\n").replace("\r", "\n"))))

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def suggest(self) -> None:
        """Offer what could come next."""
        self._suggest()

    def _suggest(self) -> None:
        row, column = self.cursor_location
        before = "\n".join([*self.document.lines[:row], self.document.get_line(row)[:column]])
        found = self._offer(before) if self.selection.is_empty else None
        self._unwanted = self._unwanted and found is not None
        self._suggestions.show(None if self._unwanted else found)

    def _suggested(self) -> Suggestion | None:
        self._suggest()
        return self._suggestions.chosen

    def _accept(self, suggestion: Suggestion) -> None:
        assert self._suggestions.offer is not None, "it came out of an offer"
        row, column = self.cursor_location
        start = column - len(self._suggestions.offer.word)
        self.replace(suggestion.text, (row, start), (row, column), maintain_selection_offset=False)
        self._suggest()

    def _close_list(self) -> None:
        self._unwanted = True
        self._suggestions.show(None)

    @property
    def _choosing(self) -> bool:
        return bool(self._suggestions.offer and self._suggestions.offer.items)

    @property
    def _leafing(self) -> bool:
        """Nothing of the user's own is in the editor: it is empty, or as it was recalled."""
        return self.text in ("", self._recalled)
