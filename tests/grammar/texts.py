"""Whether a text follows a grammar."""

from __future__ import annotations

from localspec.grammar.automaton import Grammar


def follows(grammar: str, text: str) -> bool:
    state = Grammar(grammar).start.after_all(text.encode())
    return state is not None and state.ends
