"""The loopback Hub, a pair that it holds, and the real client pointed at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec import hub as client
from localspec.catalog import FileRef, Pair
from tests.conftest import Models
from tests.hub.server import Hub

REPO = "owner/Noise-GGUF"
TARGET, DRAFT = "Noise-Q8_0.gguf", "Noise-small.gguf"
SECRET = "hf_thesecretofthetest"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "nowhere")
        yield hub


@pytest.fixture
def target(models: Models) -> bytes:
    return Path(models("noise")).read_bytes()


@pytest.fixture
def draft(models: Models) -> bytes:
    return Path(models("noise_q8")).read_bytes()


@pytest.fixture
def stocked(hub: Hub, target: bytes, draft: bytes) -> Hub:
    hub.add(REPO, TARGET, target)
    hub.add(REPO, DRAFT, draft)
    return hub


@pytest.fixture
def pair() -> Pair:
    return Pair("noise", "Noise", FileRef(repo=REPO, file=TARGET), FileRef(repo=REPO, file=DRAFT))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


QUICK = client.Patience(stall_s=0.3, first_wait_s=0)


def bring(pair: Pair, cache: Path, patience: client.Patience = QUICK) -> tuple[Path, ...]:
    """Plan and fetch."""
    return client.fetch(client.plan(pair, cache=cache), lambda _: None, lambda: False, patience=patience)


def parts(cache: Path) -> list[Path]:
    return sorted(cache.glob("models--*/blobs/*.part"))


def finals(cache: Path) -> list[str]:
    """What a program would take for a whole model."""
    blobs = (path for path in cache.glob("models--*/blobs/*") if ".localspec." not in path.name)
    return sorted(path.name for path in (*blobs, *cache.glob("models--*/snapshots/*/**/*.gguf")))
