"""One answer: Markdown that grows at its end, and the figures under it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownStream

from localspec.chat.figures import footer
from localspec.chat.session import Node
from localspec.tui.conversation import Conversation
from localspec.tui.markdown import parser
from localspec.tui.text import one_line, visible
from localspec.tui.widgets.sibling_mark import sibling_mark


class AnswerView(Vertical):
    """`follow` writes what is new in the node's answer. A streamed Markdown starts empty and only grows."""

    def __init__(self, node: Node, conversation: Conversation) -> None:
        super().__init__()
        assert node.answer is not None, "a node with an answer"
        self._node = node
        self._answer = node.answer
        self._conversation = conversation
        self._markdown = Markdown(parser_factory=parser, open_links=False)
        self._footer = Static(classes="footer")
        self._stream: MarkdownStream | None = None
        self._written = 0

    def compose(self) -> ComposeResult:
        name = (one_line(self._conversation.model_name, 60), "bold $success")
        yield Static(Content.assemble(name, sibling_mark(self._node)), classes="name")
        yield self._markdown
        yield self._footer

    async def on_mount(self) -> None:
        self._stream = Markdown.get_stream(self._markdown)
        await self.follow(figures=True)

    async def on_unmount(self) -> None:
        await self.close()

    async def follow(self, *, figures: bool) -> None:
        """One write for everything that came since the last call."""
        if self._stream is None:
            return
        text = self._answer.text
        if len(text) > self._written:
            new, self._written = text[self._written :], len(text)
            await self._stream.write(visible(new))
        running = self._conversation.running is self._node
        if figures or not running:
            self._footer.update(self._figures(running))
        if not running:
            await self.close()

    async def close(self) -> None:
        """Nothing more will come: let the stream finish what it has."""
        stream, self._stream = self._stream, None
        if stream:
            await stream.stop()

    def _figures(self, running: bool) -> Content:
        reading = self._conversation.reading
        if not running:
            text = footer(self._answer)
            return Content(f"interrupted · {text}" if self._answer.error else text)
        if self._conversation.stopping:
            return Content("stopping after this round …")
        if self._answer.pieces:
            return Content(footer(self._answer))
        if reading and reading.done < reading.total:
            cached = f", {reading.reused:,} of them known already" if reading.reused else ""
            return Content(f"reading {reading.done:,} of {reading.total:,} tokens{cached} …")
        return Content("waiting for the first token …")
