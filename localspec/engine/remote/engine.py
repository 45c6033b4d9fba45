"""The remote engine: the commands and events of engine.py, by way of a server.

Single-threaded like that one; client.py puts it on a thread. Turns every LocalspecError into Failed and lives on.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2

from localspec.engine.inbox import Inbox
from localspec.engine.messages import Command, Event, Failed, Generate, Load, Notice, Unload, Use
from localspec.engine.remote import http
from localspec.engine.remote.body import asking
from localspec.engine.remote.counters import difference, of_metrics
from localspec.engine.remote.failures import Unreachable, explain, refused
from localspec.engine.remote.hearing import Hearing
from localspec.engine.remote.site import Address, Site
from localspec.engine.remote.visit import visit
from localspec.errors import LocalspecError
from localspec.spec.types import Finish

log = logging.getLogger(__name__)

_PAUSES_S = (0.5, 1.0, 2.0)  # before another try, as long as nothing was written
_LONGEST_PAUSE_S = 30.0
_SILENCE_S = 10.0  # a localspec says every few seconds that it lives
_READING_S, _WRITING_S = 600.0, 30.0  # others say nothing while they read a prompt, or make room for somebody else
_END = object()


class RemoteEngine:
    """`emit` receives every event, in order, on the thread that calls `handle`."""

    def __init__(self, address: Address, emit: Callable[[Event], None], inbox: Inbox | None = None) -> None:
        self.inbox = inbox or Inbox()
        self._address, self._emit = address, emit
        self._runner = asyncio.Runner()
        self._client: httpx2.AsyncClient | None = None
        self._site: Site | None = None
        self._told: set[str] = set()
        self._stopped = False
        self._use: Use | None = None

    def handle(self, command: Command) -> None:
        turn = command.turn if isinstance(command, Generate) else None
        try:
            match command:
                case Load():
                    self._runner.run(self._load())
                case Generate():
                    self._runner.run(self._generate(command))
                case Unload():
                    self._site = None
        except LocalspecError as error:
            self._emit(Failed(error.message, error.hint, error.exit_code, turn))
        except BrokenPipeError:  # nobody listens any more: a matter for the owner, who ends
            raise
        except Exception as error:
            log.exception("bug while handling %s", type(command).__name__)
            self._emit(Failed(f"Internal error: {error!r}", "This is a bug; the log has the details.", 1, turn))

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            self._runner.run(client.aclose())
        self._runner.close()

    async def _load(self) -> None:
        self._told.clear()
        self._site = site = await visit(self._connected(), self._address)
        self._emit(site.ready)
        if self._address.key and self._address.is_readable:
            self._notice(f"The API key goes to {self._address.host} unencrypted.")
        if site.kind == "other":
            self._notice(
                "This server is asked for temperature, top-p, two penalties and seed; the rest is its own."
            )

    async def _generate(self, command: Generate) -> None:
        if (site := self._site) is None:
            raise LocalspecError("No server is connected.", "Load again.")
        seed = command.sampling.seed if command.sampling.seed is not None else secrets.randbits(31)
        command = replace(command, sampling=replace(command.sampling, seed=seed))
        before = await self._metrics(site)
        heard = Hearing(site, command.turn)
        self._stopped, self._use = False, None
        while True:
            await self._patiently(site, command, heard)
            if self._use is None or self._stopped or heard.reason:
                break
            command = replace(command, method=self._use.method, draft_tokens=self._use.draft_tokens)
            self._use = None
            heard.again()
        reported = heard.reported()
        if before is not None:
            reported = difference(before, await self._metrics(site), heard.counted)
        reason = heard.reason or (Finish.CANCELLED if self._stopped else Finish.STOP)
        self._emit(heard.finished(reason, seed, reported))

    async def _patiently(self, site: Site, command: Generate, heard: Hearing) -> None:
        """Once, or a few times more while nothing was written."""
        for pause in (*_PAUSES_S, None):
            try:
                return await self._listen(site, command, heard)
            except Unreachable as error:
                if pause is None or not error.again or heard.begun:
                    raise
                self._notice(f"{error.message} Trying again.", command.turn)
                wait = min(max(pause, error.after_s or 0.0), _LONGEST_PAUSE_S)
                if await http.watched(asyncio.sleep(wait, _END), 2 * wait, self._interrupted) is None:
                    return None

    async def _listen(self, site: Site, command: Generate, heard: Hearing) -> None:
        left = None if command.max_tokens is None else command.max_tokens - len(heard.tokens)
        if left == 0:  # the switch came with the last token
            heard.reason = Finish.LENGTH
            return
        wanted = asking(site, command, (*command.resume, *heard.tokens) if site.switches else command.resume, left)
        client, response = self._connected(), None
        try:
            request = client.build_request("POST", self._address.base + wanted.path, json=wanted.body)
            sending = client.send(request, stream=True)
            response = await http.watched(sending, self._patience(site, heard), self._interrupted)
            if response is None:
                return
            if response.status_code != 200:
                raise await refused(response, self._address)
            await self._follow(site, response, heard)
        except (httpx2.HTTPError, httpx2.StreamError, TimeoutError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise explain(error, self._address) from None
        finally:
            if response is not None:
                await response.aclose()

    async def _follow(self, site: Site, response: httpx2.Response, heard: Hearing) -> None:
        stream = http.lines(response)
        while not heard.done:
            line: Any = await http.watched(anext(stream, _END), self._patience(site, heard), self._interrupted)
            if line is None:
                return
            if line is _END:
                if heard.reason is None:
                    text = f"The connection to {self._address.base} broke in the middle of the answer."
                    raise Unreachable(text, "Ask again, or look at the server.", again=True)
                return
            for event in heard.take(line):
                self._emit(event)
            if self._interrupted():
                return

    def _interrupted(self) -> bool:
        """Whether the request should end: for good, or to go on with other settings."""
        self._stopped = self._stopped or self.inbox.interrupted()
        while not self._stopped and (use := self.inbox.switch()):
            if self._site and self._site.switches:
                self._use = use
            else:
                self._notice("The server decides how it drafts.")
        return self._stopped or self._use is not None

    def _patience(self, site: Site, heard: Hearing) -> float:
        if site.kind == "localspec":
            return _SILENCE_S
        return _WRITING_S if heard.begun else _READING_S

    def _connected(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = http.connect(self._address)
        return self._client

    async def _metrics(self, site: Site) -> dict[str, float] | None:
        if site.kind != "vLLM":
            return None
        try:
            return of_metrics(await http.page(self._connected(), self._address, "/metrics"))
        except LocalspecError:  # the page may be closed to clients
            return None

    def _notice(self, text: str, turn: int | None = None) -> None:
        if text not in self._told:
            self._told.add(text)
            self._emit(Notice(text, turn))
