"""Templates of somebody else's: rendered, or refused with one kind of error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from localspec.llama import jinja
from localspec.llama.jinja import TemplateError, render
from tests.ggufs import CHATML, TEMPLATES

TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|> {{ bos_token }}"}]


def test_a_conversation_is_rendered() -> None:
    assert render(CHATML, TALK, bos="<s>", eos="</s>") == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi <|im_end|> {{ bos_token }}<|im_end|>\n<|im_start|>assistant\n"
    )


def test_without_an_invitation_to_answer() -> None:
    assert render(CHATML, TALK[1:], bos="", eos="", add_generation_prompt=False).endswith("<|im_end|>\n")


def test_the_begin_and_end_texts_are_the_vocabularys() -> None:
    assert render("{{ bos_token }}|{{ eos_token }}", [], bos="<s>", eos="</s>") == "<s>|</s>"


def test_further_arguments_reach_the_template() -> None:
    assert render("{{ enable_thinking }}", [], bos="", eos="", enable_thinking=False) == "False"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("syntax_error", "unexpected '}'"),
        ("unknown_filter", "no_such_filter"),
        ("rejects_system", "System role not supported"),
        ("huge_loop", "Range too big"),
    ],
)
def test_every_failure_is_a_template_error(name: str, words: str) -> None:
    with pytest.raises(TemplateError, match=words):
        render(TEMPLATES[name], TALK, bos="", eos="")


@pytest.mark.parametrize(
    "template",
    ["{{ messages[5].content }}", "{{ 1 / 0 }}", "{{ messages + 1 }}", "{{ ''.__class__.__mro__ }}"],
)
def test_also_what_jinja_does_not_call_its_own(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, TALK, bos="", eos="")


BOMBS = {
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}": "longer than 2 seconds",
    "{{ 9 ** (9 ** 9) }}": "longer than 2 seconds",
    "{{ 'x' * 10000000000 }}": "too much memory",
    "{% for a in range(99999) %}{% for b in range(999) %}x{% endfor %}{% endfor %}": "writes more than",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "calls itself without an end",
    "{{ " + "(" * 100_000: "longer than 2 seconds|nested|itself|memory|expected token",
}


@pytest.mark.parametrize("template", BOMBS, ids=lambda template: template[:40])
def test_a_template_that_never_ends_is_given_up_and_the_next_one_is_rendered(template: str) -> None:
    with pytest.raises(TemplateError, match=BOMBS[template]):
        render(template, TALK, bos="", eos="")
    assert render("{{ messages | length }}", TALK, bos="", eos="") == "2"


def test_a_template_that_used_its_time_up_is_not_tried_again() -> None:
    template = "{% for a in range(88888) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(TemplateError):
        render(template, TALK, bos="", eos="")
    jinja._renderer.close()
    with pytest.raises(TemplateError, match="longer"):
        render(template, TALK, bos="", eos="")
    assert jinja._renderer._process is None


def test_the_process_that_renders_can_open_nothing() -> None:
    """Seen from inside: by what a template would reach if Jinja's sandbox had a hole."""
    probe = (
        "import json, os, socket, sys; sys.path.insert(0, sys.argv[1])\n"
        "import rendering\n"
        "def tried(act):\n"
        "    try: act(); return None\n"
        "    except OSError as error: return error.strerror\n"
        "before = open(os.devnull).close()\n"
        "rendering._confine()\n"
        "print(json.dumps([tried(lambda: open(rendering.__file__)), tried(socket.socket)]))\n"
    )
    folder = str(Path(jinja.__file__).parent)
    done = subprocess.run([sys.executable, "-I", "-c", probe, folder], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["Too many open files"] * 2


def test_the_process_that_renders_knows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    jinja._renderer.close()
    render("", [], bos="", eos="")
    process = jinja._renderer._process
    assert process is not None
    assert b"hf_secret" not in Path(f"/proc/{process.pid}/environ").read_bytes()


def test_it_ends_with_the_program() -> None:
    program = (
        "from localspec.llama import jinja\n"
        "jinja.render('', [], bos='', eos=''); print(jinja._renderer._process.pid, flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as parent:  # type: ignore[call-overload]
        pid = int(parent.stdout.readline())
        parent.kill()
    while _lives(pid):
        pass


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
