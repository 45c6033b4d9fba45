#!/usr/bin/env python3
"""localspec beside llama-server on the same file, prompts and settings, interleaved in one run.

Four prompts at temperatures 0 and 0.8, 160 new tokens each, end tokens banned. Rows: llama-server without speculation
and with its n-gram drafters; localspec off, lookup, suffix and auto at the server's settings (flash attention off, F16
cache), and off at its own default. Both start fresh for each repeat. Prints tokens per second of the decode phase,
then the claims with their targets.

Usage: python scripts/bench_peer.py LLAMA_SERVER [--json FILE] [--repeat N]
A llama-server of the same version: cmake target `llama-server` in the sources inside llama-cpp-python's sdist.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import urllib.request
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from quantise import quantise

import localspec
from localspec import catalog, config
from localspec.chat.figures import tokens_per_second
from localspec.chat.template import ChatTemplate
from localspec.spec.settings import Sampling

TOKENS = 160
CODE = """def load(path):
    with open(path) as file:
        return [line.strip() for line in file if line.strip()]


def count(lines):
    totals = {}
    for line in lines:
        for word in line.lower().split():
            totals[word] = totals.get(word, 0) + 1
    return totals
"""
TEXT = """The harbour of Valtis was built where the river meets the sea. For two hundred years it shipped salt, wood and
wool. When the river silted up, the ships moved to the deeper bay in the north, and the town turned to fishing. In the
last war the old quays were destroyed. Today the rebuilt harbour serves ferries, and the salt houses are museums."""
PROMPTS = {
    "copy code": f"Repeat this code exactly, twice:\n\n{CODE}",
    "essay": "Write an essay about the history of glass making.",
    "summarise": f"Summarise this text in three sentences, then repeat the text:\n\n{TEXT}",
    "write code": "Write a Python class for a bank account with deposit, withdraw and a history of both.",
}
WARM_UP = "Name three rivers, and a town on each of them."
SERVERS = {
    "server off": (),
    "server ngram-simple": (
        "--spec-type",
        "ngram-simple",
        "--spec-ngram-simple-size-n",
        "3",
        "--spec-ngram-simple-size-m",
        "8",
    ),
    "server ngram-mod": ("--spec-type", "ngram-mod"),
    "server ngram-cache": ("--spec-type", "ngram-cache"),
}
OURS = {"off": "off", "lookup": "lookup", "suffix": "suffix", "auto": "auto"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    folder = config.cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    source = catalog.resolve(catalog.find(catalog.DEFAULT)).target
    model = quantise(source, folder / "demo-Q8_0.gguf", "Q8_0")
    warnings.simplefilter("ignore")
    speeds: dict[str, dict[str, list[float]]] = {}
    for repeat in range(options.repeat):
        print(f"repeat {repeat + 1} of {options.repeat}", file=sys.stderr, flush=True)
        measure(options.server, model, speeds)
    medians = {
        name: {cell: statistics.median(found) for cell, found in row.items()} for name, row in speeds.items()
    }
    report(medians)
    if options.json:
        options.json.write_text(
            json.dumps({"tokens": TOKENS, "speeds": speeds, "medians": medians}, indent=1) + "\n"
        )


def measure(program: Path, model: Path, speeds: dict[str, dict[str, list[float]]]) -> None:
    """One pass over all cells, from fresh processes: both sides draw on earlier answers (`ngram-mod`, `ngram-cache`,
    `suffix`), and a prompt that was answered before would be a copy of itself."""
    with ExitStack() as stack:
        ports = {
            name: stack.enter_context(Server(program, model, flags, 18080 + i))
            for i, (name, flags) in enumerate(SERVERS.items())
        }
        # A corpus each: what one method answered must not be another's to copy.
        folders = {name: stack.enter_context(TemporaryDirectory()) for name in OURS}
        equal = {
            name: stack.enter_context(
                localspec.Model(
                    str(model), corpus=folder, n_ctx=2048, flash_attn="off", cache_type_k="f16", cache_type_v="f16"
                )
            )
            for name, folder in folders.items()
        }
        default = stack.enter_context(localspec.Model(str(model), n_ctx=2048))
        for cell, prompt, temperature in [("warm-up", WARM_UP, 0.0), *cells()]:
            for name, server in ports.items():
                note(speeds, name, cell, server.speed(text_of(default, prompt), temperature))
            for name, method in OURS.items():
                note(speeds, f"localspec {name}", cell, ours(equal[name], prompt, temperature, method))
            note(speeds, "localspec off, own default", cell, ours(default, prompt, temperature, "off"))


def cells() -> list[tuple[str, str, float]]:
    return [(f"{name} T={t:g}", prompt, t) for name, prompt in PROMPTS.items() for t in (0.0, 0.8)]


def note(speeds: dict[str, dict[str, list[float]]], name: str, cell: str, speed: float) -> None:
    speeds.setdefault(name, {}).setdefault(cell, []).append(speed)


def vocabulary(model: localspec.Model) -> Any:
    return model._engine._loaded.target.vocab


def text_of(model: localspec.Model, prompt: str) -> str:
    vocab = vocabulary(model)
    template = ChatTemplate(vocab.chat_template, bos=vocab.bos_text, eos=vocab.eos_text)
    return template.render((localspec.Message("user", prompt),)).text


def ours(model: localspec.Model, prompt: str, temperature: float, method: str) -> float:
    sampling = replace(Sampling(seed=1), temperature=temperature, banned=tuple(vocabulary(model).eog))
    answer = model.ask(prompt, method=method, sampling=sampling, max_tokens=TOKENS)
    return tokens_per_second(answer) or 0.0


class Server:
    def __init__(self, program: Path, model: Path, flags: tuple[str, ...], port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        fixed = (
            "-c",
            "2048",
            "-t",
            "2",
            "-fa",
            "off",
            "-np",
            "1",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--no-webui",
        )
        self._process = subprocess.Popen(
            [program, "-m", model, *fixed, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> Server:
        for _ in range(300):
            if self._process.poll() is not None:
                raise SystemExit(f"llama-server ended with {self._process.returncode}: {self._process.args}")
            try:
                with urllib.request.urlopen(f"{self._url}/health", timeout=2):
                    return self
            except OSError:
                time.sleep(0.2)
        raise SystemExit("llama-server did not start")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def speed(self, prompt: str, temperature: float) -> float:
        body = {"prompt": prompt, "n_predict": TOKENS, "temperature": temperature, "ignore_eos": True, "seed": 1}
        request = urllib.request.Request(
            f"{self._url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return float(json.load(answer)["timings"]["predicted_per_second"])


def mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def report(medians: dict[str, dict[str, float]]) -> None:
    names = [cell for cell, _, _ in cells()]
    print(f"{'tokens per second':28}" + "".join(f"{name:>17}" for name in names))
    for name, row in medians.items():
        print(f"{name:28}" + "".join(f"{row[cell]:17.1f}" for cell in names))
    best = max((n for n in SERVERS if n != "server off"), key=lambda n: mean([medians[n][cell] for cell in names]))

    def claim(what: str, value: float, target: float) -> None:
        print(f"{what:66}{value:6.2f}x  target {target:.2f}x  {'PASS' if value >= target else 'FALLS SHORT'}")

    def ratio(a: str, b: str) -> list[float]:
        return [medians[a][cell] / medians[b][cell] for cell in names]

    print()
    claim(
        "off against llama-server off, equal settings, geometric mean",
        mean(ratio("localspec off", "server off")),
        1.0,
    )
    claim(
        "off at our default against llama-server off", mean(ratio("localspec off, own default", "server off")), 1.0
    )
    for method in ("lookup", "suffix"):
        claim(
            f"{method} against the best n-gram of llama-server ({best})",
            mean(ratio(f"localspec {method}", best)),
            1.15,
        )
    claim("auto against plain decoding, worst cell", min(ratio("localspec auto", "localspec off")), 0.98)
    top = [max(medians[f"localspec {m}"][cell] for m in ("off", "lookup", "suffix")) for cell in names]
    claim(
        "auto against the best single method per cell",
        mean([medians["localspec auto"][c] / t for c, t in zip(names, top, strict=True)]),
        0.95,
    )


if __name__ == "__main__":
    main()
