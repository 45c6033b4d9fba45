"""Text that others wrote, made safe to draw. Knows no widget.

A terminal obeys control characters, and a bidirectional override makes text read as what it isn't. Both are shown
instead. Line separators become line feeds: Textual splits a streamed text at more places than its Markdown parser.
"""

from __future__ import annotations

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: "␡"}
_UNSHOWABLE = [*range(0x80, 0xA0), *range(0xD800, 0xE000), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_VISIBLE = dict.fromkeys(_UNSHOWABLE, _REPLACEMENT) | _PICTURES | {0x2028: "\n", 0x2029: "\n"}


def visible(text: str) -> str:
    """The same text with every character that would act on the terminal replaced by a picture of it."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def one_line(text: str, width: int) -> str:
    """The beginning of a text on a single line, cut with an ellipsis."""
    line = " ".join(visible(text).split())
    return line if len(line) <= width else line[: max(0, width - 1)].rstrip() + "…"
