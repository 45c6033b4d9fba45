"""What stands around the program: its settings, folders, variables, locale, clock, and the names of files."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

from faults.attack import Case, Trial, attack
from faults.program import PROGRAM, localspec
from tests import ggufs

_DOOR = "Settings and environment"
_BOUND_S = 30.0

SETTINGS = {
    "no value": b"temperature = ",
    "a text for a number": b'temperature = "hot"',
    "a number for a text": b"pair = 3",
    "an unknown key": b"tempature = 1",
    "an unknown table": b"[a.b]\nc = 1",
    "keys that is no table": b"keys = 1",
    "keys of numbers": b'[keys]\n"chat.stop" = 3',
    "keys that are not there": b'[keys]\n"chat.nothing" = "ctrl+x"',
    "no UTF-8": b"\xff\xfe\0",
    "zeros": bytes(1000),
    "markup and escapes": b'pair = "[/x]\\u001b[31m"',
    "a pair that is not there": b'pair = "nothing"',
    "a method that is not there": b'method = "nothing"',
    "a list for a text": b"model_dirs = []",
    "no number": b"temperature = nan",
    "infinite": b"temperature = inf",
    "a number of 30 digits": b"n_ctx = " + b"9" * 30,
    "a number of 5000 digits": b"seed = " + b"9" * 5000,
    "below nothing": b"n_ctx = -1",
    "a date": b"seed = 2026-01-01",
    "true for a number": b"top_k = true",
    "the same key twice": b"top_k = 1\ntop_k = 2",
    "nested deeply": b"a = " + b"[" * 5000 + b"]" * 5000,
    "5 MB": b"# " + b"x" * 5_000_000,
    "a folder that is not there": b'export_dir = "/nowhere/at/all"\nmodel_dirs = "/nowhere:/dev/null:relative"',
    "a home of nobody": b'export_dir = "~nobodyatall/x"\nmodel_dirs = "~nobodyatall/x"',
    "a zero in a name": b'model_dirs = "a\\u0000b"\nexport_dir = "a\\u0000b"',
}


def complaint(done: CompletedProcess[str], seconds: float, codes: tuple[int, ...] = (0, 1, 2)) -> str | None:
    if seconds > _BOUND_S:
        return f"it took {seconds:.0f} s"
    if done.returncode not in codes or "Traceback" in done.stderr or "Internal error" in done.stderr:
        return f"code {done.returncode}: {done.stderr[-400:]!r}"
    if "\x1b" in done.stdout + done.stderr:
        return f"it prints what a terminal obeys: {(done.stdout + done.stderr)[:300]!r}"
    if done.returncode and len(done.stderr + done.stdout) < 20:
        return "no reason is given"
    return None


@attack(_DOOR, "damaged settings", brief=1)
def settings(trial: Trial) -> Iterator[Case]:
    model = ggufs.noise(trial.folder / "m.gguf")
    folder = trial.folder / ".config" / "localspec"
    folder.mkdir(parents=True)
    chat = ("chat", "--plain", "--target", str(model), "--threads", "1", "--max-tokens", "2")
    for name, content in SETTINGS.items():
        (folder / "config.toml").write_bytes(content)
        yield f"config show: {name}", complaint(*localspec(trial.folder, "config", "show"))
        yield f"chat: {name}", complaint(*localspec(trial.folder, *chat, stdin="hi\n/export\n"))


def _file_for(name: str) -> Callable[[Path], None]:
    def make(home: Path) -> None:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a file")

    return make


def _folder_for(name: str) -> Callable[[Path], None]:
    return lambda home: (home / name).mkdir(parents=True)


def _pipe_for(name: str) -> Callable[[Path], None]:
    def make(home: Path) -> None:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(home / name)

    return make


def _loop_for(name: str) -> Callable[[Path], None]:
    def make(home: Path) -> None:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(home / name)

    return make


_DATA, _CONFIG, _STATE = ".local/share/localspec", ".config/localspec", ".local/state/localspec"
_PLACES: dict[str, Callable[[Path], None]] = {
    f"{what} for {name}": make(name)
    for what, make in (("a file", _file_for), ("a loop", _loop_for))
    for name in (".config", ".local", ".cache", _DATA, _CONFIG, _STATE)
} | {
    f"{what} for {name}": make(name)
    for what, make in (("a folder", _folder_for), ("a pipe", _pipe_for), ("a loop", _loop_for))
    for name in (
        f"{_DATA}/sessions.db",
        f"{_DATA}/sessions.db.lock",
        f"{_CONFIG}/config.toml",
        f"{_CONFIG}/models.toml",
    )
}


@attack(_DOOR, "files where folders should be, and the other way round", brief=1)
def places(trial: Trial) -> Iterator[Case]:
    model = ggufs.noise(trial.folder / "m.gguf")
    chat = (
        "chat",
        "--plain",
        "--target",
        str(model),
        "--threads",
        "1",
        "--max-tokens",
        "6",
        "--seed",
        "3",
        "--ban-token",
        "0",
        "--ban-token",
        "2",
    )
    for number, (name, make) in enumerate(_PLACES.items()):
        home = trial.folder / f"home{number}"
        home.mkdir()
        make(home)
        done, seconds = localspec(home, *chat, stdin="hi\n/sessions\n")
        wrong = complaint(done, seconds)
        if not wrong and done.returncode == 0 and not done.stdout.strip():
            wrong = f"no answer came: {done.stderr[-300:]!r}"
        yield f"chat: {name}", wrong
        if "models.toml" in name:
            yield f"models: {name}", complaint(*localspec(home, "models"))


@attack(_DOOR, "variables, locales and limits", brief=1)
def variables(trial: Trial) -> Iterator[Case]:
    model = ggufs.noise(
        trial.folder / "m.gguf", extra={"general.name": "naïve ☃ \udc80".encode("utf-8", "replace").decode()}
    )
    run = ("run", "é ☃", "--target", str(model), "--threads", "1", "--max-tokens", "20", "--json")
    commands = (run, ("inspect", str(model)), ("models",))
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environments: dict[str, dict[str, str]] = {
        "no HOME": {"HOME": ""},
        "a HOME that is not there": {"HOME": "/nowhere/at/all"},
        "a HOME that is a file": {"HOME": str(model)},
        "an ASCII locale": ascii_only,
        "Latin-1 output": {"PYTHONIOENCODING": "latin-1"},
        "no PATH": {"PATH": ""},
        "TERM is empty": {"TERM": ""},
        "TERM is nonsense": {"TERM": "\x1b[31m"},
        "an unknown variable": {"LOCALSPEC_TEMPATURE": "1"},
        "a variable of another kind": {"LOCALSPEC_TOP_K": "many"},
        "folders that are not there": {
            "XDG_DATA_HOME": "/dev/null/x",
            "XDG_CACHE_HOME": "/proc/x",
            "XDG_STATE_HOME": "/sys/x",
        },
        "relative folders": {"XDG_DATA_HOME": "a", "XDG_CONFIG_HOME": "b", "XDG_CACHE_HOME": "c"},
        "a nonsensical time zone": {"TZ": "Nowhere/At_All"},
        "a huge variable": {"LOCALSPEC_SYSTEM": "x" * 100_000},
        "columns of nothing": {"COLUMNS": "0", "LINES": "-1"},
    }
    for name, environment in environments.items():
        for command in commands:
            yield f"{command[0]}: {name}", complaint(*localspec(trial.folder, *command, **environment))


@attack(_DOOR, "the names of files", brief=1)
def names(trial: Trial) -> Iterator[Case]:
    """Names that a file system takes: each is loaded, inspected and listed."""
    odd = (
        "with space",
        "quo'te",
        'quo"te',
        "line\nfeed",
        "\x1b[31mred",
        "\x1b]0;title\x07",
        "-h",
        "--help",
        "ünï☃",
        "[red]",
    )
    odd += ("$(id)", "%s%n", "\u202egpj", "a" * 240, "\udcff\udcfe", ";id", "*", "~", "#", "{0}", "&amp;", "\t")
    plain = ggufs.noise(trial.folder / "plain.gguf")
    for number, name in enumerate(odd[:: trial.few(2, 1)]):
        folder = trial.folder / f"{number}" / name
        folder.mkdir(parents=True)
        model = os.fsencode(str(folder / f"{name}.gguf"))
        os.link(plain, model)
        path = os.fsdecode(model)
        for command in (
            ("run", "hi", "--target", path, "--threads", "1", "--max-tokens", "2", "--json"),
            ("inspect", path, "--draft", path),
        ):
            done, seconds = localspec(trial.folder, *command)
            yield f"{command[0]}: {name!r}", complaint(done, seconds, codes=(0,))
        variable = {"LOCALSPEC_MODEL_DIRS": str(folder)}
        yield f"models: {name!r}", complaint(*localspec(trial.folder, "models", **variable), codes=(0, 2))


@attack(_DOOR, "starting without what a program expects", brief=1)
def bare(trial: Trial) -> Iterator[Case]:
    model = ggufs.noise(trial.folder / "m.gguf")
    asked = ("run", "hi", "--target", str(model), "--threads", "1", "--max-tokens", "2", "--json")
    env = {"HOME": str(trial.folder), "PATH": "/usr/bin:/bin"}
    closed = "import os, sys; os.close(int(sys.argv[1])); os.execv(sys.executable, [sys.executable, '-c', sys.argv[2], *sys.argv[3:]])"
    for descriptor in ("0", "1", "2"):
        command = [sys.executable, "-c", closed, descriptor, PROGRAM[2], *asked]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        yield f"descriptor {descriptor} is closed", complaint(done, 0)

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    for limit in (few_files, small_files):
        done = subprocess.run(
            [*PROGRAM, *asked], env=env, capture_output=True, text=True, timeout=60, check=False, preexec_fn=limit
        )
        yield f"a limit: {limit.__name__}", complaint(done, 0)

    gone = trial.folder / "gone"
    gone.mkdir()
    code = "import os, sys; os.chdir(sys.argv[1]); os.rmdir(sys.argv[1]); os.execv(sys.executable, [sys.executable, '-c', sys.argv[2], *sys.argv[3:]])"
    command = [sys.executable, "-c", code, str(gone), PROGRAM[2], *asked]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    yield "the current folder is gone", complaint(done, 0)


@attack(_DOOR, "a clock that jumps", brief=4)
def clock(trial: Trial) -> Iterator[Case]:
    from localspec.chat.keeper import Keeper
    from localspec.chat.session import Session
    from localspec.chat.store import Store

    for name, times in {
        "back": (1e9, 1e9 - 1e6, 1e9 - 2e6, 5.0),
        "ahead": (1.0, 1e12, 1e12, 1e13),
        "below nothing": (0.0, -1.0, -1e9, -1e12),
        "to infinity": (1.0, float("inf"), 2.0, 3.0),
    }.items():
        moments = iter(times * 50)
        store = Store(trial.folder / f"{name}.db")
        keeper = Keeper(store, lambda moments=moments: next(moments))  # type: ignore[misc]
        session = Session()
        wrong = None
        try:
            for number in range(4):
                keeper.changed(session, session.say(f"message {number}"))
                keeper.keep(session)
                keeper.save(session)
            kept = Store(trial.folder / f"{name}.db")
            texts = [node.message.text for node in kept.read(session.id).nodes() if node.message]
            if len(texts) != 4:
                wrong = f"{len(texts)} of 4 messages are kept"
            kept.sessions()
        except Exception as error:
            wrong = repr(error)
        yield name, wrong
