"""The names of the drafting methods, and what other engines call them. Pure data, so that `--help` stays fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localspec.errors import UnknownName

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

METHODS = ("auto", "off", "lookup", "suffix", "draft", "translated", "cascade", "mtp", "eagle3", "dflash")

# vLLM's and llama.cpp's names: a command copied from their documentation works.
ALIASES = {
    "none": "off",
    "ngram": "lookup",
    "ngram-simple": "lookup",
    "ngram-mod": "lookup",
    "ngram-map-k": "lookup",
    "ngram-map-k4v": "lookup",
    "ngram-cache": "lookup",
    "prompt-lookup": "lookup",
    "prompt_lookup": "lookup",
    "suffix_decoding": "suffix",
    "draft_model": "draft",
    "draft-model": "draft",
    "draft-simple": "draft",
    "draft-mtp": "mtp",
    "deepseek_mtp": "mtp",
    "draft-eagle3": "eagle3",
    "eagle": "eagle3",
    "draft-dflash": "dflash",
}


def canonical(name: str) -> str:
    """The method behind a name or alias; raises UnknownName with the nearest one."""
    name = ALIASES.get(name.lower(), name.lower())
    if name not in METHODS and name not in (known := (*METHODS, *installed())):
        raise UnknownName("method", name, known)
    return name


def installed() -> dict[str, EntryPoint]:
    """Drafters that other packages bring (docs/drafters.md)."""
    from importlib.metadata import entry_points  # as slow to import as all of this command line's own modules

    return {point.name: point for point in entry_points(group="localspec.drafters")}
