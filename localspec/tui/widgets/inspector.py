"""Under a transcript that shows tokens: what each mark stands for, and what is known about the token at the cursor."""

from __future__ import annotations

from collections import Counter

from textual.content import Content
from textual.widgets import Static

from localspec.chat.answer import Answer
from localspec.chat.token_text import OWN
from localspec.tui.widgets.token_view import TokenView

_MUTED = "$foreground-muted"
_ASK = "← → or the mouse: ask about a token · F5 goes back to the text"


class Inspector(Static):
    def __init__(self) -> None:
        super().__init__()
        self.display = False

    def show(self, view: TokenView | None, missing: str = "") -> None:
        """About this view; None hides the lines. `missing`: why its alternatives are, if they are."""
        self.display = view is not None
        if view:
            about = _sentence(view.inspection(missing))
            self.update(Content.assemble(legend(view.answer, view.letters), "\n", about))


def legend(answer: Answer, letters: dict[str, str]) -> Content:
    """The marks with how many tokens have each. A drafter's letter stands before its first token."""
    counts = Counter(piece.provenance for piece in answer.pieces)
    own = sum(counts.pop(name, 0) for name in OWN)
    plain = counts.pop("plain", 0)
    rejected = sum(len(made.drafted) - made.accepted for made in answer.rounds)
    items = [_drafter(source, count, letters) for source, count in counts.items()]
    items.append(Content.assemble(("the model's own", "underline"), f" {own:,}"))
    items.append(Content.assemble(("plain", _MUTED), f" {plain:,}"))
    items.append(Content.assemble(("rejected", f"{_MUTED} strike"), f" {rejected:,}"))
    return Content("   ").join(items)


def _drafter(source: str, count: int, letters: dict[str, str]) -> Content:
    letter = Content.assemble((letters[source], "bold reverse"), " ") if source in letters else Content("")
    return Content.assemble(letter, (source, "on $success 28%"), f" {count:,}")


def _sentence(inspection: tuple[str, str] | None) -> Content:
    if inspection is None:
        return Content.styled(_ASK, _MUTED)
    token, about = inspection
    return Content.assemble((token, "bold"), "   ", about)
