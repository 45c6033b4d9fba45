"""One reply on its way to a client: whole, or event by event. Ends the answer when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from localspec.chat.answer import Answer
from localspec.engine.messages import Emitted, Finished, Prefill
from localspec.engine.wire import to_plain
from localspec.serve import replies
from localspec.serve.desk import Desk, Job, News
from localspec.serve.fields import Asked
from localspec.serve.refusal import Refused
from localspec.serve.replies import Voice

HEARTBEAT_S = 3.0  # silence after which a stream says that it lives
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


@dataclass(slots=True)
class Reply:
    """An ASGI application for one request. `written` counts characters, for text offsets."""

    desk: Desk
    job: Job
    asked: Asked
    voice: Voice
    answer: Answer = field(init=False)
    written: int = 0

    def __post_init__(self) -> None:
        self.answer = Answer(self.asked.command.method)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with _present(self.desk, self.job, receive):
            await (self._stream if self.asked.stream else self._whole)(scope, receive, send)

    async def _whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        response: Response
        async for news in self.job.follow(HEARTBEAT_S):
            if isinstance(news, Refused):
                self.desk.metrics.refused[news.status] += 1
                response = JSONResponse(news.body, news.status, news.headers)
            elif news is not None:
                self._take(news)
                if isinstance(news, Finished):
                    response = JSONResponse(self.voice.whole(self.answer))
        await response(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Headers go out with the first word, so that an early refusal still has its status."""
        begun = False
        async for news in self.job.follow(HEARTBEAT_S):
            if isinstance(news, Refused):
                self.desk.metrics.refused[news.status] += 1
                if not begun:
                    await JSONResponse(news.body, news.status, news.headers)(scope, receive, send)
                    return
            if not begun and isinstance(news, Prefill) and not self.asked.own:
                continue
            data = self._first() if not begun else b""
            data += self._said(news)
            if not begun:
                await send(_start())
                begun = True
            if data:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _first(self) -> bytes:
        return replies.event(self.voice.piece("", first=True)) if self.asked.kind == "chat" else b""

    def _said(self, news: News | None) -> bytes:
        """What one piece of news comes to on the stream."""
        match news:
            case None:
                return b": still here\n\n"
            case Refused():
                return replies.event(news.body)
            case Prefill():
                return replies.event(self.voice.bare() | {"localspec": to_plain(news)}) if self.asked.own else b""
            case Emitted():
                text = self._take(news)
                part = self.voice.piece(text, news.rounds, self.written)
                self.written += len(text)
                if self.asked.own:
                    part["localspec"] = to_plain(news)
                return replies.event(part)
            case Finished():
                self._take(news)
                part = self.voice.last(self.answer)
                if self.asked.own:
                    part["localspec"] = to_plain(news)
                counted = replies.event(self.voice.counted(self.answer)) if self.asked.usage else b""
                return replies.event(part) + counted + b"data: [DONE]\n\n"

    def _take(self, news: News) -> str:
        match news:
            case Emitted():
                return self.answer.extend(news.rounds, news.pieces)
            case Finished():
                self.answer.end(news)
        return ""


@asynccontextmanager
async def _present(desk: Desk, job: Job, receive: Receive) -> AsyncIterator[None]:
    """Cancel the job as soon as its client is gone, whether it reads or not."""
    watch = asyncio.create_task(_gone(desk, job, receive))
    try:
        yield
    except BaseException:
        desk.cancel(job)
        raise
    finally:
        watch.cancel()


async def _gone(desk: Desk, job: Job, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    desk.cancel(job)


def _start() -> dict[str, object]:
    headers = {"Content-Type": "text/event-stream; charset=utf-8"} | _HEADERS
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": 200, "headers": raw}
