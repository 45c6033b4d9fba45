"""The process that renders chat templates: a program of somebody else's, given nothing that it could do harm with.

Reads requests from standard input and writes replies to standard output, each a length and JSON. Run as a file, not as
a part of localspec: it needs Jinja and nothing else, so it starts fast. Beyond Jinja's sandbox, the system takes away
what a template has no use for: other files and connections, memory, and time.
"""

from __future__ import annotations

import json
import signal
import struct
import sys
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, BinaryIO, NoReturn

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

try:
    import resource
except ImportError:  # Windows: time is watched by the other side, and that has to do
    resource = None  # type: ignore[assignment]

MEMORY = 512 << 20
CPU_S = 2
LENGTH = struct.Struct("<Q")
_SPARE, _FOLD = 1 << 20, 4  # characters that a template may add, and how often it may repeat what it is given


class _Generation(Extension):
    """`{% generation %}` marks what a model is trained on; its content counts like any other."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own convention

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    _confine()
    while head := requests.read(LENGTH.size):
        data = requests.read(LENGTH.unpack(head)[0])
        _allow_time()
        reply = json.dumps(_answer(data)).encode()
        replies.write(LENGTH.pack(len(reply)) + reply)
        replies.flush()


def _answer(data: bytes) -> dict[str, str]:
    try:
        return {"text": _rendered(json.loads(data), _SPARE + _FOLD * len(data))}
    except MemoryError:
        return {"error": "it asks for too much memory"}
    except RecursionError:
        return {"error": "it calls itself without an end"}
    except BaseException as error:  # anything can come out of a template
        with suppress(BaseException):
            return {"error": str(error)[:2000] or type(error).__name__}
        return {"error": "it fails"}


def _rendered(request: dict[str, Any], most: int) -> str:
    parts, length = [], 0
    for part in _compiled(request["template"]).generate(**request["values"], **_FUNCTIONS):
        parts.append(part)
        length += len(part)
        if length > most:
            raise ValueError(f"it writes more than {most:,} characters")
    return "".join(parts)


@lru_cache(maxsize=8)
def _compiled(source: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.BaseLoader(), trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    return environment.from_string(source)


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    known = {name: options[name] for name in ("separators", "sort_keys") if name in options}
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **known)


def _raise(message: str) -> NoReturn:
    raise ValueError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


# What Jinja and Python import when it is first used can't be imported later: these are all of it.
_WARM_UP = (
    "{{ [1] | pprint }}{{ lipsum(1) }}{{ 'http://a.b' | urlize }}{{ strftime_now('%c') }}{{ 'a' | title | striptags }}",
    *("{{ raise_exception('') }}", "{{ a.b.c }}", "{{ 'a' | no }}", "{% for %}", "{{ [1] | map('no') | list }}"),
)

_FUNCTIONS = {"raise_exception": _raise, "strftime_now": _now}


def _confine() -> None:
    """No descriptor beside the three that are open, so no file and no connection; no other process; no core."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the program
    for template in _WARM_UP:
        with suppress(Exception):
            _compiled(template).render(**_FUNCTIONS)
    if resource is None:
        return
    for limit, most in (
        (resource.RLIMIT_NOFILE, 3),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_AS, MEMORY),
    ):
        with suppress(ValueError, OSError):  # not every system has every limit
            resource.setrlimit(limit, (most, most))


def _allow_time() -> None:
    """From now on. The system ends a process that uses it up, in native code too."""
    if resource is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        whole = int(used.ru_utime + used.ru_stime) + 1 + CPU_S
        resource.setrlimit(resource.RLIMIT_CPU, (whole, resource.getrlimit(resource.RLIMIT_CPU)[1]))


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
