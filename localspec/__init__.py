"""localspec: chat with GGUF models, decoded by an exact speculative loop."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["Message", "Model", "Sampling", "__version__"]


def __getattr__(name: str) -> Any:
    """The library is loaded when it is used: `localspec --help` needs none of it."""
    match name:
        case "Model":
            from localspec.library import Model

            return Model
        case "Message":
            from localspec.chat.message import Message

            return Message
        case "Sampling":
            from localspec.spec.settings import Sampling

            return Sampling
    raise AttributeError(f"module 'localspec' has no attribute {name!r}")
