"""The Hugging Face Hub: which files a pair needs, fetching them so that nothing is fetched twice, what is stored.

`plan` asks the Hub, `fetch` brings what is missing, `scan` and `remove` look after what is here. The only room that
imports huggingface_hub. It knows pairs and GGUF headers, never a model, and it prints nothing.
"""

from __future__ import annotations

import os

# The client reads its environment when it is imported. A program that fetches models has nothing to report.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from localspec.hub.failures import HubError, NotTheHub, Offline, Unreachable
from localspec.hub.names import means
from localspec.hub.plan import free_bytes, plan
from localspec.hub.stored import Partial, Stored, StoredFile, remove, scan
from localspec.hub.transfer import Patience, Transfer, fetch
from localspec.hub.types import Cancelled, Plan, PlannedFile, Progress

__all__ = [
    "Cancelled",
    "HubError",
    "NotTheHub",
    "Offline",
    "Partial",
    "Patience",
    "Plan",
    "PlannedFile",
    "Progress",
    "Stored",
    "StoredFile",
    "Transfer",
    "Unreachable",
    "fetch",
    "free_bytes",
    "means",
    "plan",
    "remove",
    "scan",
]
