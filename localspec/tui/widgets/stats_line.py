"""The figures of the answer on one line, where there is no room for the panel."""

from __future__ import annotations

from textual.content import Content

from localspec.chat.figures import tokens_per_second
from localspec.chat.numbers import length, percent, speed
from localspec.tui.widgets.drawn import Drawn


class StatsLine(Drawn):
    def drawn(self, width: int) -> Content:
        opened = self.screen.has_class("-narrow") and self.screen.has_class("-flipped")
        return Content.assemble(
            " ",
            self._figures(),
            (f"   {self.key('chat.panel', 'F7')} {'back' if opened else 'more'}", "$foreground-muted"),
        )

    def _figures(self) -> Content:
        chat, answer = self.conversation, self.conversation.shown
        if answer is None or not answer.rounds:
            return Content.styled("speed and acceptance appear here", "$foreground-muted")
        stats = answer.stats
        return Content.assemble(
            (f"{speed(tokens_per_second(answer))} tok/s", "bold"),
            *(" · ", (percent(stats.acceptance_rate), "$success"), " · "),
            *(length(stats.mean_acceptance_length), f" · {chat.method} k={chat.draft_tokens or 'auto'}"),
        )
