"""The last line: keys that matter now, and the settings in effect. Drops what matters least when it is narrow."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content

from localspec.chat.numbers import percent
from localspec.spec.rules import is_lossy
from localspec.tui.charts import short
from localspec.tui.widgets.drawn import Drawn
from localspec.tui.widgets.gauge import gauge

_GAP = "   "
_FULL_SOON, _FULL_NEARLY = 0.80, 0.95


@dataclass(frozen=True, slots=True)
class Item:
    """`weight`: the lightest item goes first when there is no room."""

    content: Content
    weight: int


class StatusLine(Drawn):
    def drawn(self, width: int) -> Content:
        left, right = self._keys(), self._settings()
        while len(left) + len(right) > 1 and _width(left) + _width(right) + len(_GAP) > width - 2:
            lightest = min((*left, *right), key=lambda item: item.weight)
            (left if lightest in left else right).remove(lightest)
        space = width - 2 - _width(left) - _width(right)
        return Content.assemble(" ", _joined(left), " " * max(space, 0), _joined(right), " ")

    def _keys(self) -> list[Item]:
        chat = self.conversation
        items = [
            Item(_key(self.key("chat.method", "F3"), "method", chat.method, "next_method"), 8),
            Item(_key(self.key("chat.length", "F4"), "length", str(chat.draft_tokens or "auto"), "next_length"), 6),
        ]
        if chat.running:
            items.append(
                Item(_key(self.key("chat.stop", "Esc"), "", "stopping" if chat.stopping else "stop", "stop"), 9)
            )
        elif chat.answers:
            items.append(Item(_key(self.key("chat.regenerate", "Ctrl+R"), "", "again", "regenerate"), 2))
            items.append(Item(_key(self.key("chat.export", "Ctrl+S"), "", "export", "export"), 1))
        return items

    def _settings(self) -> list[Item]:
        chat = self.conversation
        items = []
        if is_lossy(chat.options.verifier):
            items.append(Item(Content.styled(f"LOSSY {chat.options.verifier}", "$warning bold"), 9))
        if chat.context:
            used, room = chat.context
            items.append(Item(context_gauge(used, room), 7))
        items.append(Item(Content.styled(f"T {chat.options.sampling.temperature:g}", "$foreground-muted"), 5))
        seed = chat.shown.seed if chat.shown else None
        if seed is not None:
            items.append(Item(Content.styled(f"seed {seed}", "$foreground-muted"), 3))
        return items


def context_gauge(used: int, room: int) -> Content:
    share = used / room
    colour = "$error" if share >= _FULL_NEARLY else "$warning" if share >= _FULL_SOON else "$primary"
    warning = f" {percent(share)}" if share >= _FULL_SOON else ""
    return Content.assemble(
        ("ctx ", "$foreground-muted"),
        f"{short(used)}/{short(room)} ",
        gauge(share, 6, colour),
        (warning, colour),
    )


def _key(key: str, name: str, value: str, action: str) -> Content:
    label = f"{name} " if name else ""
    template = f"[@click=screen.{action}][$primary bold]{key}[/] [$foreground-muted]{label}[/]$value[/]"
    return Content.from_markup(template, value=value)


def _joined(items: list[Item]) -> Content:
    return Content(_GAP).join(item.content for item in items)


def _width(items: list[Item]) -> int:
    return sum(item.content.cell_length for item in items) + len(_GAP) * max(0, len(items) - 1)
