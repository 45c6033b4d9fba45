"""F6: two answers to one question side by side. First they are made, one after the other; then both are shown again
at the speed they had."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from localspec.chat.numbers import speed
from localspec.race import Lane, Race, comparison, names, remarks, result, step, terms, written
from localspec.tui.widgets.gauge import gauge
from localspec.tui.widgets.race_lane import RaceLane

_DRAWS_PER_SECOND = 20
_KEYS = "Space again · Enter to the end · Esc back to the chat"
_LEAVE = "Esc stops the race"
_NAME = 12


class RaceScreen(Screen[None]):
    HELP = "The last message, answered with and without drafts from the same seed. The times are those of decoding."
    CSS_PATH: ClassVar = ["race.tcss", "../widgets/race_lane.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f6,q", "leave", "Back to the chat", id="race.leave"),
        Binding("space", "again", "Show it again at its true speed", id="race.again"),
        Binding("enter", "to_the_end", "Show the result at once", id="race.end"),
    ]

    def __init__(self, race: Race, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self.race = race
        self._clock = clock
        self._since: float | None = None  # when the showing began

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        with Horizontal():
            for lane, name in zip(self.race.lanes, names(self.race), strict=True):
                yield RaceLane(lane, name)
        yield Static(id="bars")
        yield Static(id="result")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.race.start()
        self.follow()
        self.set_interval(1 / _DRAWS_PER_SECOND, self.follow)

    def on_resize(self) -> None:
        self.follow()

    def follow(self) -> None:
        if self._since is None and self.race.over and not self.race.trouble:
            self._since = self._clock()
        shown = self._shown()
        done = self.race.over and shown == self._made()
        parting = None if not done or self.race.equal else self.race.same
        for view, tokens in zip(self.query(RaceLane), shown, strict=True):
            view.show(tokens, parting)
        self.query_one("#title", Static).update(self._title())
        self.query_one("#bars", Static).update(self._bars(shown))
        self.query_one("#result", Static).update(self._result(done))
        self.query_one("#keys", Static).update(
            Content.styled(_KEYS if self.race.over else _LEAVE, "$foreground-muted")
        )

    def action_leave(self) -> None:
        self.race.stop()
        self.dismiss()

    def action_again(self) -> None:
        if self._since is not None:
            self._since = self._clock()
            self.follow()

    def action_to_the_end(self) -> None:
        if self._since is not None:
            self._since = float("-inf")
            self.follow()

    def _made(self) -> list[int]:
        return [len(lane.answer.pieces) for lane in self.race.lanes]

    def _elapsed(self) -> float:
        return float("inf") if self._since is None else self._clock() - self._since

    def _shown(self) -> list[int]:
        """How many tokens of each: all there are while they are made, then as many as there were at this moment."""
        return [written(lane.arrivals(), self._elapsed()) for lane in self.race.lanes]

    def _title(self) -> Content:
        about = f"   {terms(self.race)}"
        return Content.assemble((" race ", "bold $primary"), self._phase(), (about, "$foreground-muted"))

    def _phase(self) -> str:
        if self.race.trouble:
            return " no result"
        if self.race.over:
            return " both at their true speed"
        return f" {step(self.race)}"

    def _bars(self, shown: list[int]) -> Content:
        most = max(*self._made(), 1) if self.race.over else self.race.asked.max_tokens or 1
        methods = ("plain", self.race.lanes[1].method)
        rows = [
            self._bar(name, lane, tokens, most)
            for name, lane, tokens in zip(methods, self.race.lanes, shown, strict=True)
        ]
        return Content("\n").join(rows)

    def _bar(self, name: str, lane: Lane, tokens: int, most: int) -> Content:
        figures = f" {tokens:>4} tokens {self._seconds(lane):>7.1f} s {speed(lane.speed or None):>5} tok/s"
        reading = lane.reading
        if not tokens and reading and reading.done < reading.total:
            figures = f" reading {reading.done:,} of {reading.total:,} tokens"
        room = max(4, self.size.width - 2 - _NAME - len(figures))
        colour = "$primary" if lane is self.race.lanes[0] else "$success"
        return Content.assemble(f"{name[:_NAME]:<{_NAME}}", gauge(tokens / most, room, colour), figures)

    def _seconds(self, lane: Lane) -> float:
        return min(lane.seconds, self._elapsed())

    def _result(self, done: bool) -> Content:
        if not done:
            return Content("")
        lines = [Content.styled(result(self.race), "bold"), Content(comparison(self.race))]
        lines += [Content.styled(text, "$foreground-muted") for text in remarks(self.race)]
        return Content("\n").join(line for line in lines if line)
