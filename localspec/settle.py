"""From flags, environment and config file to what the engine is asked for: the one place where they meet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localspec import addresses, catalog, config, vllm
from localspec.config import Config, Setting
from localspec.errors import UnknownName, UsageError
from localspec.flags import given
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling

if TYPE_CHECKING:
    from localspec.engine.messages import Load

_MODEL = ("n_ctx", "gpu_layers", "threads", "flash_attn", "cache_type_k", "cache_type_v", "n_batch")
_DRAFT = ("n_ctx", "gpu_layers", "threads")
_APART = (
    "target",
    "draft",
    "stop",
    "logit_bias",
    "ban_token",
    "rpc",
    "trust_network",
)  # flags that are no settings: they belong to one call


def settle(*groups: Any) -> tuple[Config, dict[str, Any]]:
    """The settings in effect, and the flags that are not settings (target, stop)."""
    flags = given(*groups)
    apart: dict[str, Any] = {name: flags.pop(name) for name in _APART if name in flags}
    if apart.get("target") and flags.get("pair"):
        raise UsageError("--pair and --target are two ways to name one model.", "Give one of them.")
    if text := flags.pop("speculative_config", None):
        _merge(flags, apart, vllm.settings(text))
    if not all(apart.get("stop") or ()):
        raise UsageError("--stop is empty.", "An empty text stands everywhere: leave it out.")
    found = settings(flags, pair=not apart.get("target"))
    return Config(**{name: setting.value for name, setting in found.items()}), apart  # type: ignore[arg-type]


def settings(flags: dict[str, Any] | None = None, *, pair: bool = True) -> dict[str, Setting]:
    """Every setting with its origin. What the authors of the pair recommend stands in for the program's defaults."""
    found = config.settings(flags)
    if not pair:
        return found
    chosen = catalog.find(str(found["pair"].value))
    origin = f"recommended by the authors of {chosen.title}"
    return found | {
        name: Setting(value, origin) for name, value in chosen.sampling.items() if found[name].origin == "default"
    }


def recommended(settings: Config, apart: dict[str, Any]) -> dict[str, float]:
    """The sampling that the authors of the pair recommend; of a single file nothing is known."""
    return {} if apart.get("target") else dict(catalog.find(settings.pair).sampling)


def _merge(flags: dict[str, Any], apart: dict[str, Any], configured: dict[str, Any]) -> None:
    """What --speculative-config says, where no flag says something else."""
    for name, value in configured.items():
        place = apart if name in _APART else flags
        if place.get(name) not in (None, value):
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} and --speculative-config say different things.", "Give one of them.")
        place[name] = value


def load(settings: Config, apart: dict[str, Any], *, remember: bool = False) -> tuple[Load, str]:
    """The files to load with what was asked of them, and a title for people. `remember` answers of a chat."""
    from localspec.engine.messages import Load

    target, draft = apart.get("target"), apart.get("draft")
    if target:
        title = Path(target).name.removesuffix(".gguf")
    else:
        pair = catalog.find(settings.pair)
        located = catalog.resolve(pair)
        target, draft, title = located.target, draft or located.draft, pair.title
    asked = {name: getattr(settings, name) for name in _MODEL}
    own = {name: getattr(settings, f"draft_{name}") for name in _DRAFT}
    spec = ModelSpec(str(draft), **{"flash_attn": settings.flash_attn, **own}) if draft else None
    kept = settings.remember_tokens if remember else 0
    rpc = addresses.places(apart.get("rpc"), trusted=bool(apart.get("trust_network")))
    corpus = str(config.data_dir() / "answers") if kept else None
    return Load(ModelSpec(str(target), **asked), spec, corpus, kept, numerics=numerics(settings), rpc=rpc), title


def sampling(settings: Config, apart: dict[str, Any]) -> Sampling:
    """The sampling settings, with what was said about single tokens."""
    return replace(
        settings.sampling,
        logit_bias=tuple(_bias(text) for text in apart.get("logit_bias") or ()),
        banned=tuple(apart.get("ban_token") or ()),
    )


def numerics(settings: Config) -> str:
    """The field of `Load`."""
    if settings.numerics not in ("fast", "strict"):
        raise UnknownName("kind of numerics", settings.numerics, ("fast", "strict"))
    return settings.numerics


def grammar(schema: str | None, gbnf: str | None) -> str | None:
    """The text of the grammar that the answer must follow, checked before anything is loaded."""
    from localspec.grammar.automaton import Grammar
    from localspec.grammar.schema import to_gbnf

    if schema and gbnf:
        raise UsageError("--json-schema and --grammar are two ways to hold the answer.", "Give one of them.")
    file = schema or gbnf
    if file is None:
        return None
    try:
        text = Path(file).read_text("utf-8")
        text = to_gbnf(text) if schema else text
        Grammar(text)
    except OSError as error:
        raise UsageError(f"Cannot read {file}: {error.strerror}.", "Give the path of a text file.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no UTF-8 text.", "Give the path of a text file.") from None
    except UsageError as error:
        raise UsageError(f"{file}, {error.message}", error.hint) from None
    return text


def _bias(text: str) -> tuple[int, float]:
    token, _, bias = text.partition("=")
    try:
        return int(token), float(bias)
    except ValueError:
        raise UsageError(
            f"--logit-bias is {text!r}.", "Write a token id and a number: --logit-bias 42=-1.5"
        ) from None


def speculation(settings: Config) -> dict[str, Any]:
    """The method, draft length and verifier, as fields of `Generate`."""
    from localspec.methods import canonical
    from localspec.spec.lossy import verifier

    rule = settings.lossy or settings.verifier
    verifier(rule)  # raises for one that is not there
    return {
        "method": canonical(settings.method),
        "draft_tokens": None if settings.draft_tokens == "auto" else settings.draft_tokens,
        "verifier": rule,
        "lookup": (settings.lookup_min, max(settings.lookup_min, settings.lookup_max)),
    }
