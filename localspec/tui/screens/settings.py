"""What the next round or answer is decoded with, as actions of the chat's screen: method, draft length, sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from localspec.commands.acts import set_sampling
from localspec.conversation import DRAFT_LENGTHS
from localspec.tui.screens.sampling import SamplingScreen
from localspec.tui.screens.views import Views


class Settings(Views):
    def change(self, act: Callable[[], object]) -> None:
        """Do it to the conversation, and draw what comes of it."""
        raise NotImplementedError

    def action_next_method(self) -> None:
        chat = self.conversation
        methods = chat.methods
        if len(methods) < 2:
            self._hint(
                "This model decodes plainly: there is no other method." if methods else "No model is loaded."
            )
            return
        place = methods.index(chat.method) if chat.method in methods else -1
        self._use(methods[(place + 1) % len(methods)], chat.draft_tokens)

    def action_next_length(self) -> None:
        chat = self.conversation
        longer = [n for n in DRAFT_LENGTHS if (n or 0) > (chat.draft_tokens or 0)]
        self._use(chat.method, longer[0] if longer else DRAFT_LENGTHS[0])

    def action_settings(self) -> None:
        options = self.conversation.options
        self.app.push_screen(SamplingScreen(options.sampling, options.recommended), self._set)

    def _use(self, method: str, draft_tokens: int | None) -> None:
        self.change(partial(self.conversation.use, method, draft_tokens))

    def _set(self, values: Mapping[str, float | None] | None) -> None:
        if values is not None:
            self.change(partial(set_sampling, self.conversation, values))
