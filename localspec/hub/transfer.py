"""Fetching what a plan lacks: a download that continues where the last one stopped, however that one ended.

Every attempt asks the Hub anew for the rest of the file, tied to the entity tag that the first bytes came with. Only
a file of the right size and digest with a readable GGUF header gets its name. `transfer="xet"` leaves the transfer
to the Hub's own client, which is faster on some lines but begins again after every interruption.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import httpx2
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

from localspec.hub import answer, site, store
from localspec.hub.client import fetch_with_client
from localspec.hub.failures import Broken, HubError, Offline, explain, on_disk
from localspec.hub.meter import Meter
from localspec.hub.part import Part
from localspec.hub.types import Cancelled, Plan, PlannedFile, Progress

Transfer: TypeAlias = Literal["http", "xet"]
Report: TypeAlias = Callable[[Progress], None]

_PASSING = (Broken, httpx2.TransportError)
_LASTING = (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, httpx2.ProxyError)
_OF_THE_HUB = (Broken, httpx2.HTTPError, httpx2.InvalidURL, HfHubHTTPError, OfflineModeIsEnabled)
_LONGEST_WAIT_S = 30.0
_POLL_S = 0.1


def _stall_s() -> float:
    """HF_HUB_DOWNLOAD_TIMEOUT is the Hub client's own variable; its default of 10 seconds is short for a busy line."""
    value = os.environ.get("HF_HUB_DOWNLOAD_TIMEOUT", "")
    return float(value) if value.isdigit() and int(value) else 30.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for what."""

    connect_s: float = 10.0
    stall_s: float = field(default_factory=_stall_s)  # without a byte
    retries: int = 5  # in a row without a new byte
    first_wait_s: float = 1.0  # before the first of them; doubled each time


def fetch(
    plan: Plan,
    report: Report,
    cancelled: Callable[[], bool],
    *,
    transfer: Transfer = "http",
    patience: Patience | None = None,
) -> tuple[Path, ...]:
    """Bring every file of the plan into the cache and return where they are, in its order.

    Raises Cancelled when `cancelled` says so, which is asked often and from a second thread as well, and
    LocalspecError for everything that can't be helped. What has arrived is kept in both cases.
    """
    job = _Job(plan.cache, report, cancelled, transfer, patience or Patience())
    return tuple(job.bring(file) for file in plan.files)


@dataclass(frozen=True, slots=True)
class _Job:
    cache: Path
    report: Report
    cancelled: Callable[[], bool]
    transfer: Transfer
    patience: Patience

    def bring(self, file: PlannedFile) -> Path:
        meter = Meter(file, self.report)
        try:
            if not store.is_here(self.cache, file):
                self._download(file, meter)
            meter.at(file.size)
            return self._linked(file)
        except _OF_THE_HUB as error:
            raise explain(error, file.repo, site.endpoint(), with_token=site.token() is not None) from None
        except OSError as error:
            raise on_disk(error, self.cache) from None

    def _linked(self, file: PlannedFile) -> Path:
        """A file that is here may lie in a cache that can only be read."""
        try:
            return store.link(self.cache, file)
        except OSError:
            if store.pointer(self.cache, file).exists():
                return store.pointer(self.cache, file)
            raise

    def _download(self, file: PlannedFile, meter: Meter) -> None:
        if site.is_offline():
            raise Offline()
        store.prepare(self.cache, file)
        if self.transfer == "xet":
            fetch_with_client(self.cache, file, meter, self._go_on)
            return

        def waiting() -> None:
            self._go_on()
            meter.at(store.partial(self.cache, file), "another program is fetching it")

        def checking() -> None:
            self._go_on()
            meter.at(store.partial(self.cache, file), "checking what is here")

        with store.held(store.lock(self.cache, file), waiting):
            if store.is_here(self.cache, file):
                return
            with Part(file, self.cache, checking) as part:
                self._complete(file, part, meter)
                part.verify()
            store.keep(self.cache, file)

    def _complete(self, file: PlannedFile, part: Part, meter: Meter) -> None:
        """Attempt after attempt; a new byte makes up for all that failed before it."""
        failed, best = 0, part.size
        while part.size < file.size:
            try:
                self._attempt(file, part, meter)
            except _LASTING:
                raise
            except _PASSING as error:
                self._go_on()
                failed = 1 if part.size > best else failed + 1
                best = max(best, part.size)
                if failed > self.patience.retries:
                    raise
                self._pause(self._wait_s(error, failed), part.size, meter)

    def _attempt(self, file: PlannedFile, part: Part, meter: Meter) -> None:
        self._go_on()
        patience = self.patience
        with answer.rest_of(file, part.size, part.validator, patience.connect_s, patience.stall_s) as found:
            if found.start < part.size or (part.validator and found.validator != part.validator):
                part.restart()
            if found.start > part.size:
                raise Broken("the server sent the rest of another file")
            part.begin(found.validator)
            with answer.waking(found.response, self.cancelled):
                for data in found.response.iter_raw():
                    part.append(data)
                    meter.at(part.size)
                    self._go_on()
                    if part.size > file.size:
                        part.drop()
                        raise HubError(f"The Hub sends more than {file.name} is long.", "Pull again later.")
        if part.size < file.size:
            raise Broken("the connection was closed")

    def _wait_s(self, error: Exception, failed: int) -> float:
        asked = error.wait_s if isinstance(error, Broken) else 0
        return max(asked, min(self.patience.first_wait_s * 2.0 ** (failed - 1), _LONGEST_WAIT_S))

    def _pause(self, seconds: float, done: int, meter: Meter) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._go_on()
            meter.at(done, f"the connection broke; trying again in {left:.0f} s")
            time.sleep(min(_POLL_S, left))

    def _go_on(self) -> None:
        if self.cancelled():
            raise Cancelled()
