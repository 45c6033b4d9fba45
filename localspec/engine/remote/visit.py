"""Who answers at an address, with which models, and what it lets its clients decide."""

from __future__ import annotations

from typing import Any

import httpx2

from localspec.engine.remote.http import table
from localspec.engine.remote.site import SERVER, Address, Kind, Site
from localspec.errors import LocalspecError, UnknownName, UsageError

_OWNERS: dict[str, Kind] = {"localspec": "localspec", "llamacpp": "llama-server", "vllm": "vLLM"}


async def visit(client: httpx2.AsyncClient, address: Address) -> Site:
    """Raises LocalspecError where nobody answers, or with another model."""
    listed = (await table(client, address, "/v1/models")).get("data")
    cards = [card for card in listed if isinstance(card, dict)] if isinstance(listed, list) else []
    card = _chosen({str(card.get("id")): card for card in cards}, address)
    model, kind = str(card["id"]), _OWNERS.get(str(card.get("owned_by")), "other")
    n_ctx = card.get("max_model_len")
    if kind == "llama-server":
        n_ctx = await _n_ctx(client, address)
    room = n_ctx if isinstance(n_ctx, int) and n_ctx > 0 else 0
    if kind != "localspec":
        return Site(address, model, kind, room)
    return _localspec(address, model, room, card)


def _chosen(cards: dict[str, dict[str, Any]], address: Address) -> dict[str, Any]:
    if address.model is not None:
        if address.model not in cards:
            raise UnknownName(f"model at {address.base}", address.model, cards or ("none",))
        return cards[address.model]
    if len(cards) != 1:
        names = ", ".join(sorted(cards)[:20]) or "none"
        raise UsageError(f"{address.base} has {len(cards)} models: {names}.", "Choose one with --model NAME.")
    return next(iter(cards.values()))


async def _n_ctx(client: httpx2.AsyncClient, address: Address) -> object:
    try:
        settings = (await table(client, address, "/props")).get("default_generation_settings")
    except LocalspecError:  # a proxy before it may hide the page
        return None
    return settings.get("n_ctx") if isinstance(settings, dict) else None


def _localspec(address: Address, model: str, n_ctx: int, card: dict[str, Any]) -> Site:
    found = card.get("speculation")
    if not isinstance(found, dict):
        raise LocalspecError(f"{address.base} is still loading its model.", "Try again in a moment.")
    methods = tuple(map(str, found.get("methods") or (SERVER,)))
    reasons = {str(name): str(why) for name, why in dict(found.get("reasons") or {}).items()}
    method = str(found.get("method"))
    chosen = method if method in methods else methods[0]
    return Site(address, model, "localspec", n_ctx, chosen, methods, reasons, bool(found.get("thinks")))
