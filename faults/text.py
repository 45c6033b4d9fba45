"""What models, files and people write, and what must not come of it: on the screen, on lines, in lists, in tables."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import pty
import re
import select
import sys
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from faults.attack import Case, Trial, attack
from faults.program import PROGRAM
from localspec.chat.export import export_session
from localspec.chat.text import one_line, visible
from localspec.chat.trace import save
from localspec.engine.messages import Failed, Notice
from tests import ggufs
from tests.chat.said import Kept
from tests.chat.test_trace import recorded
from tests.tui.driving import open_chat
from tests.tui.scripted import finished, text

_DOOR = "Text"
_BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_ALLOWED = re.compile(rb"\x1b\[(?:2m|22m|\?2004[hl]|\?1034h)")  # dim thoughts, and what readline says to a terminal

PAYLOADS = {
    "clipboard": "\x1b]52;c;Y3VybCBldmls\x07",
    "clipboard, ended otherwise": "\x1b]52;c;Y3VybA==\x1b\\",
    "title": "\x1b]0;your bank\x07",
    "icon": "\x1b]1;x\x07",
    "hyperlink": "\x1b]8;;https://example.org/\x1b\\a link\x1b]8;;\x1b\\",
    "working folder": "\x1b]7;file://host/etc\x07",
    "notification": "\x1b]777;notify;a;b\x07",
    "colours changed": "\x1b]4;1;rgb:ff/ff/ff\x07\x1b]10;#000000\x07",
    "clear": "\x1b[2J\x1b[3J\x1b[H",
    "cursor": "\x1b[1;1Hover here\x1b[10A",
    "scrolled": "\x1b[100S\x1b[5;10r",
    "other screen": "\x1b[?1049h",
    "mouse": "\x1b[?1003h\x1b[?1006h",
    "what are you": "\x1b[c\x1b[6n\x1b]11;?\x07\x05",
    "keys set": '\x1b[=c\x1bP$q"p\x1b\\\x1bP+q544e\x1b\\',
    "a device control string": "\x1bPq#0;2;0;0;0~\x1b\\",
    "a picture": "\x1b_Ga=T;AAAA\x1b\\",
    "reset": "\x1bc",
    "one byte": "\x9b2J\x9d0;t\x9c\x90q\x9c\x84\x85\x8d",
    "bells": "\x07" * 50,
    "backspaces": "good\x08\x08\x08\x08evil",
    "carriage return": "good\revil",
    "deletes": "good\x7f\x7f\x7f\x7fevil",
    "shifts": "\x0e\x0f",
    "feeds": "\x0b\x0c",
    "zero": "\0",
    "overrides": f"{_BIDI}exe.gpj",
    "separators": "one\u2028two\u2029three",
    "half characters": "\ud800\udfff",
    "markup": "[bold]x[/bold][@click=app.quit]y[/][link=file:///]z[/link]",
    "broken markup": "[/ [/] [[] a[i]=b[/x]",
    "html": "<script>alert(1)</script><img src=x onerror=y><!--",
    "markdown": "[a](javascript:x) ![b](file:///etc/passwd) <https://a> ``` ~~~ | - | # *",
    "a wide line": "w" * 20_000,
    "wide letters": "漢" * 3000,
    "many marks": "a" + "\u0301" * 3000,
    "joined": "\U0001f468\u200d" * 500,
    "unassigned": "\U000e0001\U000e0041\ufffe\uffff\U0010ffff",
    "invisible": "\u200b\u200e\u200f\u2060\ufeff\u00ad",
    "deep quotes": ">" * 500 + " x",
    "deep lists": "\n".join("  " * i + "- x" for i in range(60)),
    "a wide table": "|" + "a|" * 200 + "\n|" + "-|" * 200 + "\n",
    "formulas": "=cmd|'/C calc'!A1",
}


def acting(shown: str) -> set[str]:
    """The characters that a terminal would act on."""
    return {
        c for c in shown if (unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t") or c in _BIDI
    }


@attack(_DOOR, "made visible", brief=44)
def made_visible(trial: Trial) -> Iterator[Case]:
    for name, payload in PAYLOADS.items():
        bad = acting(visible(payload)) | acting(one_line(payload, 80))
        yield name, f"{bad}" if bad else None
    every = "".join(map(chr, range(0x110000)))
    yield "every character there is", f"{bad}" if (bad := acting(visible(every))) else None


@attack(_DOOR, "on the screen", brief=3)
def on_screen(trial: Trial) -> Iterator[Case]:
    for name, payload in PAYLOADS.items():
        try:
            wrong = asyncio.run(asyncio.wait_for(_shown(payload), 30))
        except Exception as error:
            wrong = repr(error)[:300]
        yield name, wrong


async def _shown(payload: str) -> str | None:
    """As a question, an answer, a notice, a failure, and the name of the model."""
    async with open_chat(title=f"model {payload[:200]}") as it:
        it.chat.submit(f"ask {payload}")
        await it.until(lambda: it.client.asked)
        it.client.play(text(it.client.turn, f"say {payload} said"))
        it.client.play(Notice(f"note {payload[:2000]}", it.client.turn))
        it.client.play(finished(it.client.turn))
        await it.answered()
        drawn = _drawn(it)
        it.client.play(Failed(f"fail {payload[:2000]}", payload[:2000], 1, None))
        await it.until(lambda: it.client.idle)
        await it.pilot.pause(0.05)
        bad = acting(drawn + _drawn(it))
        crashed = not it.app.is_running or it.app.return_code
        return f"drawn: {bad}" if bad else "the screen ended" if crashed else None


def _drawn(it) -> str:  # type: ignore[no-untyped-def]
    strips = it.app.screen._compositor.render_strips()
    return "".join(segment.text for strip in strips for segment in strip)


def on_terminal(home: Path, *arguments: str, typed: str = "", seconds: float = 30) -> bytes:
    """All bytes that the program sends to its terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(home)
        kept = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        os.execve(sys.executable, [*PROGRAM, *arguments], kept)
    out, deadline, left = b"", time.monotonic() + seconds, typed.encode()
    while time.monotonic() < deadline:
        ready, _, _ = select.select([fd], [], [], 0.05)
        try:
            if ready:
                if not (data := os.read(fd, 65536)):
                    break
                out += data
            if left and (b"> " in out or not typed.startswith("\x04")):
                os.write(fd, left)
                left = b""
        except OSError:
            break
    os.close(fd)
    os.waitpid(pid, 0)
    return out


def _acted(out: bytes) -> str | None:
    rest = _ALLOWED.sub(b"", out).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "")
    bad = acting(rest)
    return f"it sends {bad}: {rest[-200:]!r}" if bad else None


@attack(_DOOR, "on a terminal, without a screen", brief=2)
def on_lines(trial: Trial) -> Iterator[Case]:
    """Model files and traces that carry each payload, through the commands that print them."""
    for number, (name, payload) in enumerate([*PAYLOADS.items()][:: trial.few(3, 20)]):
        folder = trial.folder / f"{number}"
        folder.mkdir()
        printable = payload.encode("utf-8", "replace").decode()[:2000]
        named = ggufs.noise(folder / "m.gguf", extra={"general.name": printable, "tokenizer.ggml.pre": printable})
        for flags in ((), ("--json",)):
            yield f"inspect {' '.join(flags)}: {name}", _acted(on_terminal(folder, "inspect", str(named), *flags))
        trace = recorded()
        pieces = trace.answer.pieces
        pieces[0] = replace(pieces[0], text=printable)
        header = replace(trace.header, title=printable[:200], prompt=printable)
        save(replace(trace, header=header), folder / "a.jsonl")
        yield f"replay: {name}", _acted(on_terminal(folder, "replay", "a.jsonl", "--plain", "--speed", "1000"))


@attack(_DOOR, "in exported tables", brief=40)
def tables(trial: Trial) -> Iterator[Case]:
    formulas = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|'/C calc'!A1", '=HYPERLINK("http://x")')
    formulas += (
        " =1",
        "\n=1",
        '"=1',
        "'=1",
        "＝1",
        "；=1",
        ",=1",
        "x\n=1",
        'a","=1',
        "\x00=1",
        "=1\x1b[2J",
        "\u202e=1",
    )
    for number, formula in enumerate(formulas):
        kept = Kept()
        node = kept.ask(formula, formula)
        assert node.answer is not None
        node.answer.error, node.answer.method = formula, formula
        folder = trial.folder / f"{number}"
        folder.mkdir()
        _, table = export_session(folder, kept.session, {"a": formula}, now=datetime(2026, 1, 1, tzinfo=UTC))
        rows = list(csv.reader(io.StringIO(table.read_text("utf-8"), newline="")))
        cells = [
            cell for row in rows[1:] for cell in row if cell.lstrip()[:1] in tuple("=+@＝＋＠") or _is_formula(cell)
        ]
        yield repr(formula), f"a cell is {cells[0]!r}" if cells else None
        yield f"{formula!r}, the shape", None if len({len(row) for row in rows}) == 1 else "rows of other lengths"


def _is_formula(cell: str) -> bool:
    return cell[:1] in ("-", "\t", "\r", "\n") and not re.fullmatch(r"-?[\d.e-]+", cell)
