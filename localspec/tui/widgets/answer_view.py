"""One answer: Markdown that grows at its end, and the figures under it."""

from __future__ import annotations

import logging
from time import monotonic

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.style import Style
from textual.widgets import Markdown, Static

from localspec.chat.figures import footer
from localspec.chat.session import Node
from localspec.chat.text import one_line, visible
from localspec.chat.thinking import Parts, parts, tokens_before
from localspec.conversation import Conversation
from localspec.tui.markdown import parser
from localspec.tui.widgets.sibling_mark import sibling_mark
from localspec.tui.widgets.thought_view import ThoughtView
from localspec.tui.widgets.token_view import TokenView

log = logging.getLogger(__name__)

_REST = 2  # how many times the cost of an append to wait before the next: a long list is built anew by each of them


class AnswerView(Vertical):
    """`follow` appends what is new in the node's answer. The Markdown starts empty and is only ever appended to."""

    def __init__(self, node: Node, conversation: Conversation) -> None:
        super().__init__()
        assert node.answer is not None, "a node with an answer"
        self._node = node
        self._answer = node.answer
        self._conversation = conversation
        self._markdown = _empty()
        self._footer = Static(classes="footer")
        self._thought = ThoughtView()
        self._written = 0  # characters of the answer
        self._seen = 0  # characters of all that came
        self._rest_until = 0.0
        self._done = False
        self._parts = Parts("", "")

    def compose(self) -> ComposeResult:
        asked = self._node.asked  # an earlier answer may be another model's
        title = asked.model if asked and asked.model else self._conversation.options.title
        name = (one_line(title, 60), "bold $success")
        yield Static(Content.assemble(name, sibling_mark(self._node), _tokens(self._node)), classes="name")
        self._thought.display = False
        yield self._thought
        yield self._markdown
        yield self._footer

    @property
    def tokens(self) -> TokenView | None:
        """The view token by token, where it is shown instead of the text."""
        return next((view for view in self.query(TokenView) if view.display), None)

    def show_tokens(self, shown: bool) -> None:
        self._markdown.display = not shown
        self._thought.display = not shown and bool(self._parts.thought)
        for view in self.query(TokenView):
            view.display = shown
        if shown and not self.query(TokenView):
            self.mount(TokenView(self._node), before=self._footer)

    async def follow(self, *, figures: bool) -> None:
        """One append for everything that came since the last call. It is awaited, so that a slow terminal gets
        fewer and larger ones."""
        running = self._conversation.running is self._node
        if tokens := self.tokens:
            tokens.follow()
        if (self._done and not running) or (running and monotonic() < self._rest_until):
            return
        await self._append(ended=not running)
        if figures or not running:
            self._footer.update(self._figures(running))
        self._done = not running

    @property
    def behind(self) -> bool:
        """Not everything that was said is drawn."""
        return not self._done and self._seen < len(self._answer.text)

    async def _append(self, *, ended: bool) -> None:
        text = self._answer.text
        if len(text) == self._seen and not ended:
            return
        self._seen, self._parts = len(text), parts(text, opened=self._conversation.opened(self._node), ended=ended)
        self._follow_thought()
        said = self._parts.said
        if len(said) == self._written:
            return
        began = monotonic()
        await self._write(said)
        now = monotonic()
        self._rest_until = now + _REST * (now - began)

    async def _write(self, said: str) -> None:
        if len(said) < self._written:  # an answer that goes on after a stop begins again with half a character
            await self._redraw(visible(said))
        else:
            try:
                await self._markdown.append(visible(said[self._written :]))
            except Exception:  # Textual 8.2 fails on a table that loses its last row to what comes after it
                log.warning("the Markdown is drawn anew", exc_info=True)
                await self._redraw(visible(said))
        self._written = len(said)

    def _follow_thought(self) -> None:
        self._thought.display = bool(self._parts.thought) and self._markdown.display
        self._thought.follow(self._parts, lambda: tokens_before(self._answer.pieces, self._parts.begins))

    @property
    def thoughtful(self) -> bool:
        return bool(self._parts.thought)

    def flip_thought(self) -> None:
        self._thought.action_flip()

    async def _redraw(self, text: str) -> None:
        """Start again with an empty Markdown: appending at once what failed piece by piece."""
        await self._markdown.remove()
        self._markdown = _empty()
        await self.mount(self._markdown, before=self._footer)
        await self._markdown.append(text)

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


def _tokens(node: Node) -> Content:
    """Flips this answer between its text and its tokens."""
    click = Style.from_meta({"@click": f"screen.tokens({node.id})"})
    return Content.assemble("   ", Content.styled("tokens", "$foreground-muted").stylize(click))


def _empty() -> Markdown:
    return Markdown(parser_factory=parser, open_links=False)
