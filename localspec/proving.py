"""`localspec verify`: runs the proof on the loaded models, and prints its table or one JSON object.

Standard output is the result, standard error what is being done.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from localspec.engine.environment import described
from localspec.engine.identity import NONE, Difference
from localspec.engine.loaded import Loaded
from localspec.engine.messages import Load
from localspec.engine.proof import FULL, QUICK, MethodProof, Proof, prove
from localspec.model import ModelInfo

SCHEMA = "localspec.verify/1"


def verify(
    load: Load,
    title: str,
    *,
    methods: Sequence[str] | None,
    draft_tokens: int | None,
    verifier: str,
    quick: bool,
    as_json: bool,
) -> int:
    """Load, prove, print; the exit code."""
    loaded = Loaded.load(load, lambda role, fraction: True)
    try:
        for problem in loaded.problems:
            _tell(problem)
        proof = prove(
            loaded,
            QUICK if quick else FULL,
            methods=methods,
            draft_tokens=draft_tokens,
            verifier=verifier,
            tell=_tell,
        )
        if as_json:
            json.dump(document(proof, loaded), sys.stdout, ensure_ascii=False, indent=2)
            print()
        else:
            print("\n".join(report(proof, loaded, title)))
    finally:
        loaded.close()
    return 0 if proof.passed else 1


def _tell(text: str) -> None:
    print(f"localspec: {text}", file=sys.stderr)


def report(proof: Proof, loaded: Loaded, title: str) -> Iterator[str]:
    yield f"{title}: {_settings(loaded.info)}"
    yield f"Numerics: {proof.numerics or 'not measured'}" + ("; strict" if proof.strict else "")
    yield ""
    yield _row("method", "greedy text", "drafts", "draws", "")
    for method in proof.methods:
        passed = method.passed(proof.limit, strict=proof.strict)
        verdict = "LOSSY" if proof.lossy else "PASS" if passed else "FAIL"
        yield _row(method.method, _texts(method), _drafts(method), _draws(method), verdict)
        if not proof.lossy:
            yield from _reasons(method, proof, loaded.pieces)
    yield ""
    for name, reason in proof.unavailable:
        yield f"{name} was not tried: {reason}."
    verdict = "LOSSY" if proof.lossy else "PASS" if proof.passed else "FAIL"
    yield f"{verdict}: {_sentence(proof)} ({proof.seconds:.0f} s)"


def _reasons(method: MethodProof, proof: Proof, pieces: Sequence[bytes]) -> Iterator[str]:
    for difference in method.differences:
        yield f"    {_difference(difference, pieces)}"
    for trial in method.failed_trials(proof.limit):
        yield f"    {trial.setting}, {trial.what}: p {trial.p:.1e}, limit {proof.limit:.1e}, {trial.draws:,} draws"


def _settings(info: ModelInfo) -> str:
    flash = "on" if info.flash_attn else "off"
    return (
        f"flash attention {flash}, cache {info.cache_type_k}/{info.cache_type_v}, "
        f"{info.gpu_layers} layers on the GPU, {info.threads} threads"
    )


def _row(method: str, texts: str, drafts: str, draws: str, verdict: str) -> str:
    return f"{method:<11}{texts:<26}{drafts:<20}{draws:<30}{verdict}".rstrip()


def _texts(method: MethodProof) -> str:
    equal = method.answers - len(method.differences)
    ties = sum(difference.verdict == "near tie" for difference in method.differences)
    plural = "s" if ties > 1 else ""
    return f"{equal} of {method.answers} equal" + (f", {ties} near tie{plural}" if ties else "")


def _drafts(method: MethodProof) -> str:
    return f"{method.accepted} of {method.drafted} kept" if method.drafted else "none"


def _draws(method: MethodProof) -> str:
    if not method.trials:
        return "none"
    return f"{len(method.trials)} tests, smallest p {min(trial.p for trial in method.trials):.2g}"


def _difference(found: Difference, pieces: Sequence[bytes]) -> str:
    wrote, wanted = (
        "the end" if token == NONE else repr(pieces[token].decode(errors="replace"))
        for token in (found.other, found.plain)
    )
    weighed = f"; gap of the logits {found.gap:.2g}, noise {found.noise:.2g} at {found.rows} rows" * (
        found.rows > 0
    )
    return (
        f"prompt {found.prompt}, token {found.position + 1}: {wrote} instead of {wanted}{weighed}: {found.verdict}"
    )


def _sentence(proof: Proof) -> str:
    if proof.lossy:
        texts = sum(len(method.differences) for method in proof.methods)
        asked = sum(method.answers for method in proof.methods)
        found = sum(len(method.failed_trials(proof.limit)) for method in proof.methods)
        tried = sum(len(method.trials) for method in proof.methods)
        return (
            f"{proof.verifier} changes what the target says: {texts} of {asked} greedy texts, and {found} of {tried} "
            "distributions."
        )
    if not proof.passed:
        return "speculation changes what the target says. This is a bug; please report it with --json."
    if all(method.method == "off" for method in proof.methods):
        return "plain decoding repeats itself; no method of speculation was tried."
    if any(method.differences for method in proof.methods):
        return "every method follows the target's distribution; greedy texts part at near ties only."
    return "every method writes the target's greedy text and follows its distribution."


def document(proof: Proof, loaded: Loaded) -> dict[str, Any]:
    """The JSON of `verify --json` (docs/json.md)."""
    return {
        "schema": SCHEMA,
        "passed": proof.passed,
        "seconds": proof.seconds,
        "strict": proof.strict,
        "verifier": proof.verifier,
        "lossy": proof.lossy,
        "numerics": asdict(proof.numerics) if proof.numerics else None,
        "limit": proof.limit,
        "methods": [_method(method, proof) for method in proof.methods],
        "unavailable": dict(proof.unavailable),
        "environment": described(loaded.environment),
    }


def _method(method: MethodProof, proof: Proof) -> dict[str, Any]:
    return asdict(method) | {
        "passed": method.passed(proof.limit, strict=proof.strict),
        "differences": [
            asdict(found) | {"verdict": found.verdict, "gap": found.gap if found.rows else None}
            for found in method.differences
        ],
    }
