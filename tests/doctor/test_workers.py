"""Workers that the doctor is asked about: described, played by a socket, and real ones."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace

import pytest

from localspec.doctor import gather, remote
from localspec.doctor.examine import gaps
from localspec.doctor.facts import BROKE_OFF, Worker
from localspec.doctor.report import WIDTH, document, lines
from localspec.llama import workers
from tests.doctor.machines import BUILD, CPU, ON_GPU, WELL

ABLE = replace(WELL, build=replace(BUILD, rpc=True))
FAR, NEAR = "192.168.1.7:50052", "127.0.0.1:50052"
REFUSED = "can't be reached (Connection refused)"
PATIENCE_S = 60
PROGRAM = (sys.executable, "-c", "from localspec.cli import main; main()")


@contextmanager
def closed_port() -> Iterator[str]:
    """Held without listening, so that nobody else gets it."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """Says this to whoever connects; None: never a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def serve() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return
                if answer is not None:
                    held[-1].sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for each in held:
            each.close()


class TestDescribed:
    def test_without_rpc_a_line_says_whether_this_build_could(self) -> None:
        assert "this build can use workers (--rpc) and be one" in " ".join("\n".join(lines(ABLE)).split())
        assert "this build has no RPC backend" in " ".join("\n".join(lines(WELL)).split())
        assert gaps(WELL) == gaps(ABLE) == ()

    def test_one_that_answers_has_its_time_and_what_it_offers(self) -> None:
        facts = replace(ABLE, workers=(Worker(FAR, round_trip_s=0.0021, devices=(CPU,)),))
        said = " ".join("\n".join(lines(facts)).split())
        assert f"{FAR} answers in 2.1 ms, 1 device: 24.0 of 32.0 GB free" in said
        assert gaps(facts) == ()

    @pytest.mark.parametrize(
        ("place", "command"),
        [
            (NEAR, "localspec worker --port 50052"),
            (FAR, "localspec worker --host 192.168.1.7 --port 50052 --i-trust-this-network"),
        ],
    )
    def test_one_that_does_not_is_a_gap_with_the_command_for_its_machine(self, place: str, command: str) -> None:
        (gap,) = gaps(replace(ABLE, workers=(Worker(place, REFUSED),)))
        assert gap.what == f"The worker {place} {REFUSED}." and gap.command == command

    def test_one_of_another_version_wants_the_same_build_on_both_sides(self) -> None:
        (gap,) = gaps(replace(ABLE, workers=(Worker(NEAR, BROKE_OFF),)))
        assert "same version" in gap.first and "-DGGML_RPC=on" in gap.command

    def test_a_build_that_can_use_none_is_the_gap_and_its_card_stays(self) -> None:
        (gap,) = gaps(replace(WELL, build=ON_GPU, workers=(Worker(NEAR, round_trip_s=0.001),)))
        assert gap.what == "This build of llama.cpp has no RPC backend."
        assert "-DGGML_CUDA=on -DGGML_RPC=on" in gap.command

    def test_it_fits_eighty_columns_and_stands_in_the_document(self) -> None:
        facts = replace(ABLE, workers=(Worker(FAR, REFUSED), Worker(NEAR, "", 0.1, (CPU,) * 5)))
        assert [line for line in lines(facts) if len(line) > WIDTH] == []
        (bad, good) = document(facts)["workers"]
        assert bad["trouble"] == REFUSED and good["devices"][4]["free"] == CPU.free

    def test_facts_survive_the_journey(self) -> None:
        worker = Worker(NEAR, "", 0.25, (CPU,))
        assert remote.restored(json.dumps(asdict(worker))) == worker


class TestAsked:
    def test_a_closed_port_a_silent_one_and_a_stranger_are_sentences(self) -> None:
        with closed_port() as shut, listening(None) as silent, listening(b"HTTP/1.1 400") as stranger:
            found = gather.ask_workers((shut, silent, stranger))()
        assert [worker.place for worker in found] == [shut, silent, stranger]
        assert "can't be reached" in found[0].trouble
        assert found[1].trouble == "does not answer, or works for somebody else"
        assert found[2].trouble == "is no worker of llama.cpp's"

    @pytest.mark.parametrize(
        ("code", "trouble"),
        [
            ("import os; os.abort()", BROKE_OFF),
            ("raise OSError('libx.so: no such file')", "can't be asked (libx.so: no such file)"),
            ("import time; time.sleep(60)", "fell silent for 0.5 seconds"),
        ],
    )
    def test_what_ends_or_holds_the_process_that_asks(
        self, code: str, trouble: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gather, "WORKER_LIMIT", 0.5 if "sleep" in code else 30)
        assert gather.ask_worker(NEAR, (sys.executable, "-c", code)) == Worker(NEAR, trouble)

    @pytest.mark.skipif(not workers.is_built_in(), reason="this build has no RPC backend")
    def test_a_real_one_offers_its_processor(self) -> None:
        with closed_port() as place:
            port = place.rpartition(":")[2]
        command = [*PROGRAM, "worker", "--port", port]
        process = subprocess.Popen(command, env=os.environ | {"LOCALSPEC_THREADS": "1"}, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + PATIENCE_S
            while workers.look(place) is not None:
                assert process.poll() is None and time.monotonic() < deadline
            worker = gather.ask_worker(place)
        finally:
            process.kill()
            process.communicate()
        assert worker.trouble == "" and worker.round_trip_s is not None
        assert worker.devices[0].backend == "RPC" and worker.devices[0].total > 0


def test_another_machine_is_not_asked_without_trust() -> None:
    command = [*PROGRAM, "doctor", "--rpc", FAR]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2 and "--i-trust-this-network" in done.stderr and not done.stdout
