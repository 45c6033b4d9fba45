"""Chat templates out of hostile files: escapes from Jinja's sandbox that were published, and programs without an end."""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Iterator

from faults.attack import Case, Trial, attack
from faults.program import localspec
from localspec.llama.jinja import TemplateError, render
from tests import ggufs

_DOOR = "Chat templates"
_BOUND_S, _GROWTH = 10.0, 200 << 20
_TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
_INSIDE = re.compile(r"<(?:class|function|module|built-in|bound|frame|code)|0x[0-9a-f]{6}|root:|__builtins__|uid=")

ESCAPES = (
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ [].__class__.__base__ }}",
    "{{ ''['__class__'] }}",
    "{{ '' | attr('__class__') }}",
    "{{ messages | map(attribute='__class__') | list }}",
    "{{ messages | map('attr', '__class__') | list }}",
    "{{ messages | selectattr('__class__') | list }}",
    "{{ messages | groupby('__class__') }}",
    "{{ messages | sum(attribute='__class__') }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum.__globals__['os'].system('id') }}",
    "{{ joiner.__call__.__func__.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ raise_exception.__globals__ }}",
    "{{ strftime_now.__code__ }}",
    "{{ strftime_now.__self__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context.environment.loader }}",
    "{{ messages.append({'role': 'user', 'content': '<class'}) }}{{ messages }}",
    "{{ messages[0].update({'content': '<class'}) }}{{ messages[0].content }}",
    "{{ messages[0].setdefault('a', '<class') }}",
    "{{ messages.sort() }}{{ messages.__class__ }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(cycler) }}",
    "{{ '{a.__class__}'.format_map({'a': cycler}) }}",
    "{% set f = '{0.__class__.__mro__}'.format %}{{ f(messages) }}",
    "{% set f = '{a.__class__}'.format_map %}{{ f({'a': messages}) }}",
    "{{ ('{0.__class__.__init__.__globals__}' | attr('format'))(cycler) }}",
    "{{ (['{0.__class__}'] | map(attribute='format') | first)(cycler) }}",
    "{{ '%(a)s' | format(a=cycler.__init__.__globals__) }}",
    "{{ ('a' | safe).__html_format__('{0.__class__}') }}",
    "{{ ('{0.__class__}' | safe).format(cycler) }}",
    "{{ (messages | map('upper')).gi_frame.f_globals }}",
    "{{ (messages | batch(1)).gi_frame.f_back }}",
    "{% include '/etc/passwd' %}",
    "{% include ['/etc/passwd', '../../etc/passwd'] ignore missing %}",
    "{% import 'os' as os %}{{ os.system('id') }}",
    "{% from 'os' import system %}{{ system('id') }}",
    "{% extends '/etc/passwd' %}",
    "{% set x = cycler %}{{ x.__init__ }}",
    "{% do cycler.__init__.__globals__ %}",
    "{{ caller.__globals__ }}",
    "{% macro m() %}{% endmacro %}{{ m.__init__.__globals__ }}",
    "{% macro m() %}{{ caller.__class__ }}{% endmacro %}{% call m() %}{% endcall %}",
    "{{ loop.__class__ }}{% for a in [1] %}{{ loop.__init__.__globals__ }}{% endfor %}",
    "{{ url_for.__globals__ }}{{ request.application.__globals__ }}{{ config.items() }}",
    "{{ dict.__base__.__subclasses__() }}{{ range.__class__ }}",
    "{{ dict.fromkeys.__self__.__mro__ }}",
    "{{ 'a'.encode().__class__ }}{{ (1).__class__ }}{{ none.__class__ }}",
    "{{ environment }}{{ context.environment }}{{ get_flashed_messages.__globals__ }}",
    "{{ ''.join.__self__.__class__ }}",
)

BOMBS = {
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops that write": "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "a range too large": "{% for a in range(100000000000) %}x{% endfor %}",
    "a macro that calls itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "two macros": "{% macro f(n) %}{{ g(n) }}{{ g(n) }}{% endmacro %}{% macro g(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "macros that branch": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(90) }}",
    "a loop that recurses": "{% for a in [[1]] recursive %}{{ loop([[1], [1]]) }}{% endfor %}",
    "a text times 10**10": "{{ 'x' * 10000000000 }}",
    "a text times 10**9, kept": "{% set a = 'x' * 1000000000 %}{{ a | length }}",
    "a list times 10**9": "{% set a = [0] * 1000000000 %}{{ a | length }}",
    "a number to a power": "{{ 9 ** (9 ** 9) }}",
    "a large number in digits": "{{ (10 ** 30000000) | string | length }}",
    "a shifted number": "{{ (7 ** 20000000) % 3 }}",
    "centred": "{{ 'x' | center(10000000000) }}",
    "justified": "{{ 'x'.ljust(10000000000) }}",
    "indented": "{{ 'x\n' | indent(10000000000, true) }}",
    "formatted": "{{ '%10000000000d' | format(1) }}",
    "formatted by a method": "{{ '{:>10000000000}'.format(1) }}",
    "with decimals": "{{ '%.1000000000f' | format(1.5) }}",
    "doubled": "{% set n = namespace(a='x') %}{% for i in range(64) %}{% set n.a = n.a ~ n.a %}{% endfor %}{{ n.a }}",
    "lists doubled": "{% set n = namespace(a=[1]) %}{% for i in range(64) %}{% set n.a = n.a + n.a %}{% endfor %}",
    "nested lists": "{% set n = namespace(a=[]) %}{% for i in range(99999) %}{% set n.a = [n.a] %}{% endfor %}{{ n.a }}",
    "nested lists as JSON": "{% set n = namespace(a=[]) %}{% for i in range(9999) %}{% set n.a = [n.a] %}{% endfor %}{{ n.a | tojson }}",
    "much lorem ipsum": "{{ lipsum(n=100000, min=1000, max=10000) }}",
    "replaced": "{{ ('x' * 100000).replace('x', 'x' * 100000) }}",
    "joined": "{{ ('x' * 100000) | list | join('x' * 100000) }}",
    "tabs": "{{ ('\t' * 1000000).expandtabs(1000000) }}",
    "batches": "{{ [1] | batch(10000000000, 0) | list | length }}",
    "slices": "{{ [1] | slice(1000000000) | list | length }}",
    "tags stripped": "{{ ('<' * 3000000) | striptags | length }}",
    "links made": "{{ ('a.a@' * 300000) | urlize | length }}",
    "words wrapped": "{{ ('x ' * 3000000) | wordwrap(1) | length }}",
    "a permutation": "{% set n = namespace(a=['x']) %}{% for i in range(40) %}{% set n.a = n.a * 2 %}{{ n.a | sort | unique | list }}{% endfor %}",
    "a long literal": "x" * (20 << 20),
    "many brackets": "{{ " + "(" * 100_000 + "1" + ")" * 100_000 + " }}",
    "many sums": "{{ 1" + " + 1" * 200_000 + " }}",
    "many nots": "{{ " + "not " * 100_000 + "1 }}",
    "many ifs": "{% if 1 %}" * 5_000 + "{% endif %}" * 5_000,
    "many loops": "{% for a in [1] %}" * 500 + "x" + "{% endfor %}" * 500,
    "many filters": "{{ 1" + " | string" * 50_000 + " }}",
    "many lists": "{{ " + "[" * 50_000 + "]" * 50_000 + " }}",
    "many variables": "".join(f"{{% set a{i} = {i} %}}" for i in range(30_000)),
    "no end of a comment": "{#" * 100_000,
    "half a character": "{{ '\ud800' }}{{ messages }}",
    "an error of 10 MB": "{{ raise_exception('x' * 10000000) }}",
    "a date of 10 MB": "{{ strftime_now('%A' * 3000000) }}",
}


@attack(_DOOR, "escapes from the sandbox", brief=50)
def escapes(trial: Trial) -> Iterator[Case]:
    for template in ESCAPES:
        try:
            text = render(template, _TALK, bos="<s>", eos="</s>")
        except TemplateError as error:
            text = str(error)
            inside = _INSIDE.search(text) if "unsafe" not in text and "safely" not in text else None
        else:
            inside = _INSIDE.search(text)
        yield template, f"it says {text[:100]!r}" if inside else None


@attack(_DOOR, "programs without an end", brief=3)
def bombs(trial: Trial) -> Iterator[Case]:
    render("warm", _TALK, bos="", eos="")
    before, slowest = _peak(), 0.0
    for name, template in BOMBS.items():
        began = time.monotonic()
        wrong = None
        try:
            text = render(template, _TALK, bos="", eos="")
            if len(text) > 25 << 20:
                wrong = f"it wrote {len(text):,} characters"
        except TemplateError as error:
            wrong = None if str(error).strip() and len(str(error)) < 10_000 else "no reason was given"
        seconds = time.monotonic() - began
        slowest = max(slowest, seconds)
        if seconds > _BOUND_S:
            wrong = f"it took {seconds:.0f} s"
        if render("{{ messages[1].content }}", _TALK, bos="", eos="") != "Hello":
            wrong = "the next template is not rendered"
        yield name, wrong
    trial.say(f"the slowest took {slowest:.1f} s")
    grown = _peak() - before
    yield "memory of the process that asks", f"it grew by {grown >> 20} MB" if grown > _GROWTH else None


@attack(_DOOR, "templates through inspect and run", brief=1)
def through_the_program(trial: Trial) -> Iterator[Case]:
    for name in ("a text times 10**10", "loops in loops", "many brackets")[: trial.few(3, 1)]:
        model = ggufs.noise(trial.folder / "m.gguf", template=BOMBS[name])
        for command in (("inspect", str(model)), ("run", "hi", "--target", str(model), "--max-tokens", "2")):
            done, seconds = localspec(trial.folder, *command)
            said = done.stdout + done.stderr
            wrong = None
            if seconds > 4 * _BOUND_S:
                wrong = f"it took {seconds:.0f} s"
            elif "chat template can't be used" not in " ".join(said.split()) or "Traceback" in said:
                wrong = f"it says {said[:200]!r}"
            yield f"{command[0]}: {name}", wrong


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
