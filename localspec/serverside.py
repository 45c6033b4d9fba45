"""`--server URL`: from flags to a server that answers, in place of files to load. Knows no screen."""

from __future__ import annotations

import asyncio
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from localspec import keyfile
from localspec.engine.messages import Load
from localspec.engine.remote import SERVER, Address, Site
from localspec.engine.remote.http import connect
from localspec.engine.remote.visit import visit
from localspec.errors import UnknownName, UsageError
from localspec.flags import ModelFlags, ServerFlags, SpeculationFlags
from localspec.methods import canonical
from localspec.model import ModelSpec


def reached(flags: ServerFlags, model: ModelFlags, speculation: SpeculationFlags) -> Site:
    """The server, once it has answered. Raises UsageError for flags that only have a meaning where a model is
    loaded here."""
    for group in (model, speculation):
        for field in fields(group):
            if getattr(group, field.name) != field.default and field.name not in _SENT:
                flag = "--" + field.name.replace("_", "-")
                raise UsageError(
                    f"{flag} is for a model that is loaded here.", "With --server, the server decides it."
                )
    key = keyfile.own_key(Path(os.path.expanduser(flags.server_key_file)) if flags.server_key_file else None)
    return asyncio.run(_visited(Address.of(flags.server or "", flags.model, key)))


def load(site: Site) -> Load:
    """What the engine is asked to load: nothing, but there is one place where loads are named."""
    return Load(ModelSpec(f"{site.address.base}#{site.model}"))


def speculation(site: Site, flags: SpeculationFlags, asked: dict[str, Any]) -> dict[str, Any]:
    """Fields of `Generate`: what was `asked`, as far as this server takes it."""
    if not site.switches:
        if flags != SpeculationFlags():
            text = "This server decides how it drafts."
            raise UsageError(text, "A `localspec serve` takes these settings with each request.")
        return {"method": SERVER, "draft_tokens": None, "verifier": "block"}
    method = asked["method"] if flags.method or flags.speculative_config else site.method
    if canonical(method) not in site.methods:
        raise UnknownName(f"method at {site.address.base}", method, site.methods)
    return asked | {"method": method}


async def _visited(address: Address) -> Site:
    async with connect(address) as client:
        return await visit(client, address)


_SENT = {"method", "draft_tokens", "speculative_config"}
