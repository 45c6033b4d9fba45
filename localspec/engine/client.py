"""How an interface sees the engine: commands in, events out, nothing that waits.

The real client is process.py; the tests play a scripted one. Knows no process and no screen.
"""

from __future__ import annotations

from typing import Protocol

from localspec.engine.messages import Command, Event


class EngineClient(Protocol):
    def start(self) -> None:
        """Start the engine, or start it again; returns at once."""

    def send(self, command: Command) -> None:
        """Hand a command over; never blocks."""

    def poll(self) -> list[Event]:
        """Everything that is pending; never blocks. `Died` comes once, when the engine is gone."""

    def close(self) -> None:
        """End the engine."""
