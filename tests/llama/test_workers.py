"""RPC workers: what is decided before native code sees them, with a build that lacks the backend and a played one."""

from __future__ import annotations

import ctypes
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localspec import addresses
from localspec.errors import LocalspecError, UsageError
from localspec.llama import devices, workers
from localspec.llama.devices import Device

CPU = Device("CPU", "a processor", "cpu", "CPU", 8, 8)
GPU = Device("CUDA0", "a card", "gpu", "CUDA", 8, 8)


class Native:
    """Plays the functions of a build with the backend; each endpoint has one device."""

    def __init__(self, own: dict[int, Device], *, offers: int = 1) -> None:
        self.devices = dict(own)
        self.offers = offers
        self._next = 100

    def handles(self) -> tuple[int, ...]:
        return tuple(self.devices)

    def list_devices(self) -> tuple[Device, ...]:
        return tuple(self.devices.values())

    def function(self, symbol: str, *_: Any) -> Callable[..., Any]:
        return {"ggml_backend_rpc_add_server": self._add, "ggml_backend_register": self._register}[symbol]

    def _add(self, place: bytes) -> int | None:
        self._place = place.decode()
        return 1 if self.offers else None

    def _register(self, registry: int) -> None:
        self.devices[self._next] = Device(f"RPC{self._next}", self._place, "gpu", "RPC", 8, 8)
        self._next += 1


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Native]:
    def one(own: dict[int, Device], **options: Any) -> Native:
        native = Native(own, **options)
        monkeypatch.setattr(workers, "_here", workers._Joined())
        monkeypatch.setattr(devices, "has", lambda symbol: True)
        monkeypatch.setattr(workers, "_keep_watch", lambda host, port: None)
        for name in ("handles", "list_devices", "function"):
            monkeypatch.setattr(devices, name, getattr(native, name))
        return native

    return one


@pytest.fixture
def worker() -> Iterator[str]:
    """Hangs up on what is no greeting, as a free worker does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    opened, _ = listening.accept()
                except OSError:
                    return
                with opened:
                    opened.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_PATIENCE_S", 0.2)


def listed(chosen: Any) -> list[int]:
    found = ctypes.cast(chosen, ctypes.POINTER(ctypes.c_void_p))
    handles: list[int] = []
    while handle := found[len(handles)]:
        handles.append(handle)
    return handles


def test_free_worker_can_be_used(worker: str) -> None:
    assert workers.look(worker) is None
    assert workers.look(worker) is None, "it is free again"


def test_worker_that_works_for_somebody_else_is_not_waited_for(silent: str) -> None:
    assert "somebody else" in (workers.look(silent) or "")


def test_nobody_there_is_said() -> None:
    assert "can't be reached" in (workers.look("127.0.0.1:9") or "")


def test_build_without_the_backend_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has", lambda symbol: False)
    for use in (lambda: workers.join(("127.0.0.1:1",)), lambda: workers.work("127.0.0.1", 1, 1)):
        with pytest.raises(workers.NoWorkers) as refused:
            use()
        assert "GGML_RPC=ON" in refused.value.hint
    assert workers.join(()) == ()


def test_nothing_joined_leaves_the_choice_to_llama_cpp(play: Callable[..., Native]) -> None:
    play({1: CPU, 2: GPU})
    assert workers.join(()) == ()
    assert workers.chosen() is None


def test_target_goes_to_workers_and_own_cards_and_a_draft_stays_here(
    play: Callable[..., Native], worker: str
) -> None:
    play({1: CPU, 2: GPU})
    assert workers.join((worker,)) == ()
    assert listed(workers.chosen()) == [100, 2]
    with workers.only_here():
        assert listed(workers.chosen()) == [2]
    assert listed(workers.chosen()) == [100, 2]


def test_worker_that_is_gone_is_left_out_and_said(play: Callable[..., Native], worker: str) -> None:
    play({1: CPU})
    [note] = workers.join((worker, "127.0.0.1:9"))
    assert "127.0.0.1:9" in note and "elsewhere" in note
    assert listed(workers.chosen()) == [100]


def test_later_load_without_workers_uses_none(play: Callable[..., Native], worker: str) -> None:
    play({1: CPU})
    workers.join((worker,))
    workers.join(())
    assert listed(workers.chosen()) == []


def test_worker_is_registered_once(play: Callable[..., Native], worker: str) -> None:
    native = play({1: CPU})
    workers.join((worker,))
    workers.join((worker,))
    assert len(native.devices) == 2


def test_worker_without_a_device_is_said(play: Callable[..., Native], worker: str) -> None:
    play({1: CPU}, offers=0)
    with pytest.raises(LocalspecError, match="no device"):
        workers.join((worker,))


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such option")
def test_connections_to_a_worker_are_watched_and_no_others(worker: str, silent: str) -> None:
    def connected(place: str) -> socket.socket:
        return socket.create_connection(addresses.split(place))

    with connected(worker) as watched, connected(silent) as other:
        workers.watch({addresses.split(worker)})
        timeouts = [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for each in (watched, other)]
    assert timeouts == [9000, 0]


def test_own_addresses_need_no_trust_and_others_do() -> None:
    assert addresses.places("127.0.0.1:1, [::1]:2,127.0.0.1:1", trusted=False) == ("127.0.0.1:1", "[::1]:2")
    assert addresses.places(None, trusted=False) == ()
    with pytest.raises(UsageError, match="no key and no encryption") as refused:
        addresses.places("192.0.2.1:50052", trusted=False)
    assert "--i-trust-this-network" in refused.value.hint
    assert addresses.places("192.0.2.1:50052", trusted=True) == ("192.0.2.1:50052",)


@pytest.mark.parametrize("place", ["x", ":1", "h:", "h:0", "h:65536", "h:1x", "h:²"])
def test_what_is_no_place_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        addresses.places(place, trusted=True)
