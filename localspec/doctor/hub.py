"""Whether the Hub can be reached, and what its client would find in the environment. Asks without the client, and
never looks at a token: only at where one would come from."""

from __future__ import annotations

import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from localspec.doctor.facts import Hub

LIMIT = 3.0  # seconds; also for the name, which the system may look up much longer
_ENDPOINT = "https://huggingface.co"
_TRUE = {"1", "ON", "YES", "TRUE"}
_BROKEN = {407: "the proxy asks for a password", 502: "the proxy answers 502", 503: "it answers 503"}


def ask(env: Mapping[str, str]) -> Callable[[], Hub]:
    """Start to ask now; the answer comes when it is called for."""
    endpoint = env.get("HF_ENDPOINT", "").rstrip("/") or _ENDPOINT
    if is_offline(env):
        return lambda: Hub(endpoint, offline=True, token=token(env))
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(_trouble(endpoint)), daemon=True)
    thread.start()

    def answer() -> Hub:
        thread.join(LIMIT)
        trouble = said[0] if said else f"no answer within {LIMIT:.0f} seconds"
        return Hub(endpoint, reachable=not trouble, trouble=trouble, token=token(env))

    return answer


def is_offline(env: Mapping[str, str]) -> bool:
    return (env.get("HF_HUB_OFFLINE") or env.get("TRANSFORMERS_OFFLINE") or "").upper() in _TRUE


def token(env: Mapping[str, str]) -> str:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if env.get(name, "").strip():
            return name
    file = Path(env.get("HF_TOKEN_PATH") or _home(env) / "token")
    try:
        return "stored" if file.stat().st_size else "none"
    except OSError:
        return "none"


def _home(env: Mapping[str, str]) -> Path:
    caches = env.get("XDG_CACHE_HOME") or Path("~/.cache")
    return Path(os.path.expanduser(env.get("HF_HOME") or Path(caches, "huggingface")))


def _trouble(endpoint: str) -> str:
    """Why there is no answer; empty when there is one, whatever it says."""
    try:
        request = urllib.request.Request(endpoint, method="HEAD")
        with urllib.request.urlopen(request, timeout=LIMIT):
            return ""
    except urllib.error.HTTPError as error:
        return _BROKEN.get(error.code, "")
    except urllib.error.URLError as error:
        return _plain(error.reason)
    except (OSError, ValueError) as error:
        return _plain(error)


def _plain(reason: object) -> str:
    """Without error numbers and the places in a library where they arose."""
    return re.sub(r"^\[[^]]*\] | \(_ssl\.c:\d+\)$", "", str(reason)) or type(reason).__name__
