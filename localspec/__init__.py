"""localspec: chat with GGUF models, decoded by an exact speculative loop."""

from __future__ import annotations

__version__ = "0.1.0"
