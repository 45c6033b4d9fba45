"""Where a server is, and what it turned out to be. Plain data."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from localspec import __version__
from localspec.addresses import is_loopback_name
from localspec.engine.messages import Environment, Ready
from localspec.errors import UsageError
from localspec.methods import METHODS
from localspec.model import ModelInfo

Kind: TypeAlias = Literal["localspec", "llama-server", "vLLM", "other"]

SERVER = "server"  # the method, where the server chooses it and doesn't say
_EXAMPLE = "For example: --server http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Address:
    """`base` has no /v1 at its end. The key is left out wherever this is printed."""

    base: str
    model: str | None = None
    key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, model: str | None = None, key: str | None = None) -> Address:
        """Raises UsageError for what is no address."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host, parts = None, urlsplit("")
        if parts.scheme not in ("http", "https") or not host:
            raise UsageError("--server wants an address that begins with http:// or https://.", _EXAMPLE)
        if parts.username or parts.password:
            text = "A key on the command line can be read by every program of this machine."
            raise UsageError(text, "Put it into LOCALSPEC_API_KEY, or into a file: --server-key-file FILE")
        if parts.query or parts.fragment:
            raise UsageError("--server wants an address without ? and #.", _EXAMPLE)
        return cls(url.rstrip("/").removesuffix("/v1"), model, key)

    @property
    def host(self) -> str:
        return urlsplit(self.base).hostname or ""

    @property
    def is_local(self) -> bool:
        return is_loopback_name(self.host)

    @property
    def is_readable(self) -> bool:
        """Can others on the way read what is sent?"""
        return self.base.startswith("http:") and not self.is_local


@dataclass(frozen=True, slots=True)
class Site:
    """A server that answers. `n_ctx` is 0 where it doesn't say; the speculation settings are those of a localspec."""

    address: Address
    model: str
    kind: Kind
    n_ctx: int = 0
    method: str = SERVER
    methods: tuple[str, ...] = (SERVER,)
    reasons: Mapping[str, str] = field(default_factory=dict)
    thinks: bool = False

    @property
    def switches(self) -> bool:
        """Does it take speculation settings with each request?"""
        return self.kind == "localspec"

    @property
    def title(self) -> str:
        return f"{self.model} at {self.address.base}"

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            role="target",
            path=f"{self.address.base}#{self.model}",
            name=self.model,
            description=f"on a server ({self.kind})",
            architecture="",
            bytes=0,
            fingerprint="",
            n_ctx=self.n_ctx,
            n_ctx_train=self.n_ctx,
            n_vocab=0,
            n_layer=0,
            gpu_layers=0,
            threads=0,
            flash_attn=False,
            cache_type_k="",
            cache_type_v="",
            rollback="NONE",
        )

    @property
    def environment(self) -> Environment:
        """The figures of an answer depend on a machine that this one knows nothing of."""
        return Environment(
            localspec=__version__,
            llama_cpp_python="",
            llama_cpp="",
            backend=f"server ({self.kind})",
            devices=(self.address.base,),
            cpu="",
            threads=0,
            os=platform.platform(),
            peak_memory_bytes=0,
            models=(self.info,),
        )

    @property
    def ready(self) -> Ready:
        reasons = dict(self.reasons)
        if not self.switches:
            reasons = dict.fromkeys(METHODS, "the server decides how it drafts")
        unseen = "" if self.switches else "this server sends none that localspec can read"
        return Ready(self.info, None, self.methods, tuple(reasons.items()), self.environment, self.thinks, unseen)
