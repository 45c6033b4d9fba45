"""What a server says about an answer that it wrote. Its rounds are not seen, so these are its figures, not ours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reported:
    """None: the server doesn't say. `tokens` counts those of the answer; the pieces that arrive may hold several."""

    server: str
    tokens: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    drafts: int | None = None

    @property
    def acceptance(self) -> float | None:
        """Accepted over drafted: servers don't say how many were tested."""
        return self.accepted / self.drafted if self.drafted and self.accepted is not None else None
