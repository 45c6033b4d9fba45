"""Downloads from a Hub that lies, sends elsewhere, or names files after other people's folders."""

from __future__ import annotations

import gzip
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from faults.attack import Case, Trial, attack
from faults.program import localspec
from localspec import hub as client
from localspec.catalog import FileRef, Pair
from localspec.errors import LocalspecError
from tests import ggufs
from tests.hub.server import Hub

_DOOR = "Downloads"
_REPO, _SECRET = "owner/Model-GGUF", "hf_the_secret_of_this_attack"
_QUICK = client.Patience(connect_s=2, stall_s=0.5, retries=1, first_wait_s=0)


@contextmanager
def _asked(hub: Hub, folder: Path) -> Iterator[None]:
    """This process asks that Hub, with a token."""
    fixed = {"HF_ENDPOINT": hub.url, "HF_TOKEN": _SECRET, "HF_HOME": str(folder / "hf"), "NO_PROXY": "*"}
    with patch.dict(os.environ, fixed), patch("huggingface_hub.constants.HF_TOKEN_PATH", "nowhere"):
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            os.environ.pop(name, None)
        yield


def _fetched(cache: Path, name: str, revision: str | None = None) -> str:
    """The path that was fetched, or the sentence that refused it."""
    ref = FileRef(repo=_REPO, file=name, **({"revision": revision} if revision else {}))
    try:
        plan = client.plan(Pair("model", "Model", ref), cache=cache)
        return str(client.fetch(plan, lambda _: None, lambda: False, patience=_QUICK)[0])
    except LocalspecError as error:
        return f"{error.message} {error.hint}"


def _outside(folder: Path, cache: Path) -> list[str]:
    """Files that were made beside the cache."""
    found = (Path(base, name) for base, _, names in os.walk(folder) for name in names)
    return [str(path) for path in found if cache not in path.parents and "/hf/" not in str(path)]


_NAMES = (
    *("../m.gguf", "../../m.gguf", "a/../../m.gguf", "/m.gguf", "//m.gguf", "./m.gguf", "a//m.gguf", "..\\m.gguf"),
    *(
        "C:\\m.gguf",
        "C:m.gguf",
        "~/m.gguf.gguf/../m.gguf",
        "a\0b.gguf",
        "a\nb.gguf",
        "\x1b[2Jm.gguf",
        "\u202em.gguf",
    ),
    *(
        "..%2f..%2fm.gguf",
        "a/./m.gguf",
        "a" * 300 + ".gguf",
        "a/" * 200 + "m.gguf",
        "-.gguf",
        "con.gguf",
        "a:b.gguf",
    ),
    *("m-00001-of-00002.gguf", "../m-00001-of-00002.gguf", "m|id.gguf", "$(id).gguf", ".gguf", " .gguf", "m.gguf "),
)


@attack(_DOOR, "names and revisions that lead elsewhere", brief=6)
def names(trial: Trial) -> Iterator[Case]:
    model = ggufs.noise(trial.folder / "sound.gguf").read_bytes()
    for number, name in enumerate(_NAMES):
        folder = trial.folder / f"n{number}"
        cache = folder / "a" / "b" / "cache"
        with Hub() as hub, _asked(hub, folder):
            hub.add(_REPO, name, model)
            said = _sentence(lambda name=name, cache=cache: _fetched(cache, name))  # type: ignore[misc]
        yield f"file {name[:40]!r}", _wrong(said, _outside(folder, cache))
    for number, revision in enumerate(
        ("../../x", "/x", "a/../../../x", "\0", "refs/pr/1", "main\n", "x" * 300, "-")
    ):
        folder = trial.folder / f"r{number}"
        cache = folder / "a" / "b" / "cache"
        with Hub() as hub, _asked(hub, folder):
            hub.add(_REPO, "m.gguf", model)
            commit = hub.repositories[_REPO].commit
            hub.repositories[_REPO].commits |= {revision, commit}
            said = _sentence(lambda r=revision, cache=cache: _fetched(cache, "m.gguf", r))  # type: ignore[misc]
        yield f"revision {revision[:40]!r}", _wrong(said, _outside(folder, cache))


def _sentence(act) -> str:  # type: ignore[no-untyped-def]
    try:
        return str(act())
    except Exception as error:
        return f"Traceback {error!r}"


def _wrong(said: str, outside: list[str]) -> str | None:
    if outside:
        return f"it wrote {outside[:3]}"
    return said[:300] if said.startswith("Traceback") or len(said) < 20 or _SECRET in said else None


_LOCATIONS = (
    *("file:///etc/passwd", "ftp://127.0.0.1/x", "data:application/octet-stream,x", "gopher://127.0.0.1/x", "//["),
    *(
        "unix:/var/run/x",
        "javascript:x",
        "jar:file:///x",
        "http://",
        "http://[::1",
        "\\\\host\\share",
        "about:blank",
    ),
)


@attack(_DOOR, "redirects", brief=3)
def redirects(trial: Trial) -> Iterator[Case]:
    model = ggufs.noise(trial.folder / "sound.gguf").read_bytes()
    for number, location in enumerate(_LOCATIONS):
        with Hub() as hub, _asked(hub, trial.folder):
            hub.add(_REPO, "m.gguf", model)
            hub.answer_next("/resolve/", 302, headers={"Location": location}, times=9)
            cache = trial.folder / f"l{number}"
            said = _sentence(lambda cache=cache: _fetched(cache, "m.gguf"))  # type: ignore[misc]
            whole = list(cache.rglob("snapshots/*/*.gguf"))
        yield f"to {location!r}", "it was followed" if whole else _wrong(said, [])
    with Hub() as hub, Hub() as other, _asked(hub, trial.folder):
        blob = hub.add(_REPO, "m.gguf", model)
        other.add(_REPO, "m.gguf", model)
        hub.cdn = other
        said = _fetched(trial.folder / "cdn", "m.gguf")
        sent = [request.token for request in other.requests]
        yield (
            "the token to another host",
            f"{sent}" if not sent or any(sent) or blob not in os.path.realpath(said) else None,
        )
        asked = [request.token for request in hub.requests]
        yield "the token to the Hub", None if all(asked) else f"{asked}"
    with Hub() as hub, Hub() as other, _asked(hub, trial.folder):
        hub.add(_REPO, "m.gguf", model)
        hub.answer_next("/resolve/", 302, headers={"Location": f"{other.url}/internal/delete"}, times=9)
        said = _sentence(lambda: _fetched(trial.folder / "local", "m.gguf"))
        yield (
            "to a local service",
            _wrong(said, []) or ("with the token" if any(r.token for r in other.requests) else None),
        )


@attack(_DOOR, "bodies that are not what was promised", brief=2)
def bodies(trial: Trial) -> Iterator[Case]:
    model = ggufs.noise(trial.folder / "sound.gguf").read_bytes()
    other = model[:-1] + b"x"
    answers: dict[str, tuple[int, dict[str, str], bytes]] = {
        "other bytes": (200, {}, other),
        "too few": (200, {}, model[:-10]),
        "too many": (200, {}, model + b"more"),
        "a length that lies": (200, {"Content-Length": str(len(model) * 2)}, model),
        "a negative length": (200, {"Content-Length": "-5"}, model),
        "a length of letters": (200, {"Content-Length": "many"}, model),
        "compressed": (200, {"Content-Encoding": "gzip"}, gzip.compress(model)),
        "a bomb": (200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(200 << 20))),
        "a page": (200, {"Content-Type": "text/html"}, b"<html>log in</html>"),
        "nothing": (200, {}, b""),
        "a part of another": (206, {"Content-Range": f"bytes 5-9/{len(model)}"}, b"12345"),
        "a part of a longer one": (206, {"Content-Range": f"bytes 0-9/{len(model) * 9}"}, b"1234567890"),
        "a part without a range": (206, {}, model),
        "a range of letters": (206, {"Content-Range": "bytes a-b/c"}, model),
        "a tag with line feeds": (200, {"ETag": '"../../x"'}, model),
        "no content": (204, {}, b""),
        "a teapot": (418, {"X-Error-Message": "\x1b[2J" + "x" * 1000}, b"\x1b[31m" * 1000),
        "a wait of a year": (429, {"Retry-After": "31536000"}, b""),
    }
    for number, (name, (status, headers, body)) in enumerate(answers.items()):
        cache = trial.folder / f"b{number}"
        with Hub() as hub, _asked(hub, trial.folder):
            hub.add(_REPO, "m.gguf", model)
            if status != 429:
                hub.answer_next("/resolve/", status, body, headers, times=9)
            said = _sentence(lambda cache=cache: _fetched(cache, "m.gguf"))  # type: ignore[misc]
            whole = [path for path in cache.rglob("snapshots/*/*.gguf") if path.read_bytes() != model]
        wrong = _wrong(said, [])
        yield name, "wrong bytes got the file's name" if whole else wrong


@attack(_DOOR, "permissions, links and tokens", brief=1)
def traces(trial: Trial) -> Iterator[Case]:
    model = ggufs.noise(trial.folder / "sound.gguf").read_bytes()
    cache, victim = trial.folder / "cache", trial.folder / "victim"
    victim.write_text("precious")
    with Hub() as hub, _asked(hub, trial.folder):
        blob = hub.add(_REPO, "m.gguf", model)
        blobs = cache / "models--owner--Model-GGUF" / "blobs"
        blobs.mkdir(parents=True)
        (blobs / f"{blob}.localspec.part").symlink_to(victim)
        said = _sentence(lambda: _fetched(cache, "m.gguf"))
        kept = victim.read_bytes()
        yield (
            "a link in the place of a part",
            None if kept == b"precious" and not said.startswith("Traceback") else f"{said} {kept[:20]!r}",
        )
        cache = trial.folder / "cache2"
        path = Path(_fetched(cache, "m.gguf"))
        loose = [
            p
            for p in cache.rglob("*")
            if not p.is_symlink() and stat.S_IMODE(p.stat().st_mode) & 0o022 and ".lock" not in p.name
        ]
        yield "nobody else may write to what was fetched", f"{loose[:3]}" if loose or not path.exists() else None
        executable = [p for p in cache.rglob("*") if p.is_file() and p.stat().st_mode & 0o111]
        yield "nothing that was fetched can be executed", f"{executable[:3]}" if executable else None
        for case in ("not there", "forbidden", "broken"):
            if case == "forbidden":
                hub.repositories[_REPO].gated = True
            if case == "broken":
                hub.answer_next("/api/", 200, b"{", times=3)
            wanted = f"hf:{_REPO}/{'m' if case != 'not there' else 'n'}.gguf"
            env = {"HF_ENDPOINT": hub.url, "HF_TOKEN": _SECRET, "HF_DEBUG": "1"}
            done, _ = localspec(trial.folder, "pull", wanted, **env)
            printed = done.stdout + done.stderr
            wrong = (
                "the token is printed" if _SECRET in printed else "a traceback" if "Traceback" in printed else None
            )
            yield f"what is printed where it is {case}", wrong
    left = [str(p) for p in trial.folder.rglob("*") if p.is_file() and _SECRET.encode() in p.read_bytes()]
    yield "the token in files", f"{left}" if left else None
