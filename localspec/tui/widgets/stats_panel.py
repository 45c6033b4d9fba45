"""How the answer on screen is being made: speed, acceptance, positions, time, context, segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from localspec.chat.answer import Answer
from localspec.chat.figures import tokens_per_second
from localspec.chat.numbers import length, milliseconds, percent, speed
from localspec.commands.figures import against_plain
from localspec.conversation import Conversation
from localspec.spec.stats import Segment, Stats
from localspec.tui.charts import acceptance_of, speed_of, stacked, strip
from localspec.tui.widgets.advice_lines import advice_lines, why_lines
from localspec.tui.widgets.gauge import gauge

_POSITIONS = 8
_EMPTY = "The figures of an answer appear here while it is written."


class StatsPanel(VerticalScroll, can_focus=False):
    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation
        self._figures = Static()

    def compose(self) -> ComposeResult:
        yield self._figures

    def on_resize(self) -> None:
        self.follow()

    def follow(self) -> None:
        width = self.scrollable_content_region.width - 1  # a gap before the scrollbar
        if self.display and width > 0:
            self._figures.update(drawn(self._conversation, width))


def drawn(chat: Conversation, width: int) -> Content:
    answer = chat.shown
    sections = [_context(chat, width)]
    if answer and answer.rounds:
        stats = answer.stats
        sections = [
            _speed(chat, answer, width),
            _acceptance(answer, stats, width),
            _positions(stats, width),
            _time(stats, width),
            _segments(answer.segments, width),
            advice_lines(chat, width),
            *sections,
        ]
    else:
        sections.append([Content.styled(_EMPTY, "$foreground-muted")])
    return Content("\n\n").join(Content("\n").join(lines) for lines in sections if lines)


def _line(left: str, right: str | Content, width: int) -> Content:
    value = Content(right) if isinstance(right, str) else right
    return Content.assemble(
        (left, "bold $foreground-muted"), " " * max(1, width - len(left) - value.cell_length), value
    )


def _speed(chat: Conversation, answer: Answer, width: int) -> list[Content]:
    return [
        _line("SPEED", Content.assemble((speed(tokens_per_second(answer)), "bold"), " tok/s"), width),
        Content.styled(strip(answer.rounds, width, speed_of), "$primary"),
        _line("", Content.styled(against_plain(answer.segments[-1], chat.plain), "$foreground-muted"), width),
        *why_lines(chat, width),
    ]


def _acceptance(answer: Answer, stats: Stats, width: int) -> list[Content]:
    counted = (f"  {stats.accepted:,} of {stats.tested:,}", "$foreground-muted")
    rate = Content.assemble((percent(stats.acceptance_rate), "bold $success"), counted)
    mean = Content.assemble(
        (length(stats.mean_acceptance_length), "bold"), (" tokens a round", "$foreground-muted")
    )
    return [
        _line("ACCEPTANCE", rate, width),
        Content.styled(strip(answer.rounds, width, acceptance_of, top=1.0), "$success"),
        _line("MEAN LENGTH", mean, width),
    ]


def _positions(stats: Stats, width: int) -> list[Content]:
    if not stats.per_position:
        return []
    lines = [_line("BY POSITION", Content.styled("accepted of reached", "$foreground-muted"), width)]
    for number, at in enumerate(stats.per_position[:_POSITIONS], 1):
        figures = f" {percent(at.rate):>5}  {f'{at.accepted:,}/{at.reached:,}':>11}"
        room = max(4, width - 3 - len(figures))
        lines.append(Content.assemble(f"{number:>2} ", gauge(at.rate or 0.0, room, "$success"), figures))
    if hidden := len(stats.per_position) - _POSITIONS:
        lines += [Content.styled(f"   and {hidden} more", "$foreground-muted")] if hidden > 0 else []
    return lines


def _time(stats: Stats, width: int) -> list[Content]:
    parts = (
        ("verify", stats.verify_s, "█", "$primary"),
        ("draft", stats.draft_s, "▓", "$success"),
        ("sample", stats.sample_s, "▒", "$warning"),
        ("rest", stats.rest_s, "░", "$foreground-muted"),
    )
    whole = sum(seconds for _, seconds, _, _ in parts)
    if whole <= 0:
        return []
    cells = stacked([seconds for _, seconds, _, _ in parts], width)
    marks = Content.assemble(*((mark * n, colour) for (_, _, mark, colour), n in zip(parts, cells, strict=True)))
    legend = [
        Content.assemble((mark, colour), f" {name} {percent(seconds / whole)}")
        for name, seconds, mark, colour in parts
    ]
    mean = f"{milliseconds(stats.total_s / stats.rounds)}, {stats.rounds:,} of them"
    half = width // 2
    rows = [Content.assemble(_padded(a, half), b) for a, b in zip(legend[::2], legend[1::2], strict=True)]
    return [_line("ROUND", mean, width), marks, *rows]


def _padded(content: Content, width: int) -> Content:
    return content.pad_right(max(0, width - content.cell_length))


def _context(chat: Conversation, width: int) -> list[Content]:
    if not chat.context:
        return []
    used, room = chat.context
    share = used / room
    figures = f" {percent(share):>5}"
    reused = chat.shown.reused_tokens if chat.shown else 0
    lines = [
        _line("CONTEXT", f"{used:,} of {room:,} tokens", width),
        Content.assemble(gauge(share, width - len(figures), "$primary"), figures),
    ]
    if reused:
        lines.append(
            _line("", Content.styled(f"{reused:,} reused from the turn before", "$foreground-muted"), width)
        )
    return lines


def _segments(segments: Sequence[Segment], width: int) -> list[Content]:
    head = f"{'tokens':>8}{'tok/s':>7}{'accepted':>10}{'mean':>6}"
    room = max(6, width - len(head))
    rows: Iterator[str] = (
        f"{run.method[:room]:<{room}}{run.stats.emitted:>8,}{speed(run.stats.tokens_per_second):>7}"
        f"{percent(run.stats.acceptance_rate):>10}{length(run.stats.mean_acceptance_length):>6}"
        for run in segments
    )
    title = Content.assemble(("SEGMENTS".ljust(room)[:room], "bold $foreground-muted"), (head, "$foreground-muted"))
    return [title, *(Content(row) for row in rows)]
