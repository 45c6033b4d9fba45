"""Chat templates, rendered by a process of their own (rendering.py) that may use two seconds and little memory.

The process is started with the first template and kept. A template that used it up is not tried again.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from localspec.llama.rendering import CPU_S, LENGTH

_PATIENCE_S = 8.0  # by the clock, where the machine has other things to do or knows no limit of time
_ENDLESS = f"it takes longer than {CPU_S} seconds"
# What Python and its library need to start, and no secret: a template has no business with the rest.
_KEPT = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZ", "LANG", "LC_ALL")


class TemplateError(Exception):
    """A template that can't be read, or that refused the conversation. chat/template.py knows what to do."""


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    bos: str,
    eos: str,
    add_generation_prompt: bool = True,
    **kwargs: Any,
) -> str:
    """The text of the conversation as the model was trained to see it."""
    values = {"functions": None, "function_call": None, "tools": None, "tool_choice": None, **kwargs}
    values |= {"messages": list(messages), "bos_token": bos, "eos_token": eos}
    values["add_generation_prompt"] = add_generation_prompt
    try:
        request = json.dumps({"template": template, "values": values}).encode()
    except (TypeError, ValueError) as error:
        raise TemplateError(f"its variables can't be handed over: {error}") from None
    return _renderer.render(template, request)


class _Renderer:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._refused: dict[str, str] = {}
        self._alone = threading.Lock()

    def render(self, template: str, request: bytes) -> str:
        with self._alone:
            if template in self._refused:
                raise TemplateError(self._refused[template])
            reply = self._asked(request)
            if reply is None:
                self.close()
                self._refused[template] = _ENDLESS
                raise TemplateError(_ENDLESS)
        if "error" in reply:
            raise TemplateError(reply["error"])
        return str(reply["text"])

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()

    def _asked(self, request: bytes) -> dict[str, str] | None:
        """None where the process ended over it."""
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        clock = threading.Timer(_PATIENCE_S, process.kill)
        clock.start()
        try:
            process.stdin.write(LENGTH.pack(len(request)) + request)
            process.stdin.flush()
            reply = _read(process.stdout)
        except OSError:
            return None
        finally:
            clock.cancel()
        return reply

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(Path(__file__).with_name("rendering.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                cwd=os.path.abspath(os.sep),
            )
        return self._process


def _read(pipe: IO[bytes]) -> dict[str, str] | None:
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    data = pipe.read(length)
    return json.loads(data) if len(data) == length else None


_renderer = _Renderer()
atexit.register(_renderer.close)
