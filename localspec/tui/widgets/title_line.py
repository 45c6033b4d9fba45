"""The first line: what is loaded, or how far loading is, and the title of the session."""

from __future__ import annotations

from textual.content import Content

from localspec.chat.text import one_line
from localspec.engine.messages import Died, Failed, Loading, Ready
from localspec.tui.widgets.drawn import Drawn
from localspec.tui.widgets.gauge import gauge

_TITLE, _LEAST = 40, 4  # characters of the session's title; fewer say nothing


class TitleLine(Drawn):
    def drawn(self, width: int) -> Content:
        left = Content.assemble((" localspec ", "bold $primary"), " ", self._state())
        help = f"{self.key('app.help', 'F1')} help "
        room = width - len(help) - 1
        title = one_line(self.conversation.title, min(_TITLE, room - left.cell_length - 3))
        if len(title) >= _LEAST:
            left = left.pad_right(room - left.cell_length - Content(title).cell_length).append(title)
        return Content.assemble(
            left.truncate(max(0, room), ellipsis=True, pad=True), " ", (help, "$foreground-muted")
        )

    def _state(self) -> Content:
        name = one_line(self.conversation.options.title, 60)
        match self.conversation.engine:
            case None:
                return Content.assemble("no model", ("  F2 chooses one", "$foreground-muted"))
            case Loading(fraction=fraction):
                return Content.assemble(
                    ("loading ", "$foreground-muted"),
                    name,
                    " ",
                    gauge(fraction, 12, "$primary"),
                    f" {fraction:4.0%}",
                )
            case Ready():
                return Content.assemble((name, "bold"), (f"  +  {self.conversation.method}", "$foreground-muted"))
            case Failed():
                return Content.assemble(name, ("  could not be loaded", "$text-error"))
            case Died():
                return Content.assemble(name, ("  engine stopped · F8 reloads", "$text-error"))
