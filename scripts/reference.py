"""Write the tables of bindings and commands in docs/ anew, from what the program has: python scripts/reference.py."""

from __future__ import annotations

import re
from pathlib import Path

from localspec.commands import COMMANDS
from localspec.tui.keymap import bindings

DOCS = Path(__file__).parent.parent / "docs"


def keys() -> str:
    rows = (f"| `{name}` | `{each.key}` | {each.description} |" for name, each in sorted(bindings().items()))
    return "\n".join(["| id | keys | what it does |", "|---|---|---|", *rows])


def commands() -> str:
    rows = []
    for each in COMMANDS:
        call = f"/{each.name} {each.argument}".strip().replace("|", "\\|")
        also = ", ".join(f"`/{alias}`" for alias in each.aliases)
        rows.append(f"| `{call}` | {also} | {each.help}{' (screen only)' if each.screen_only else ''} |")
    return "\n".join(["| command | also | what it does |", "|---|---|---|", *rows])


def with_table(text: str, table: str) -> str:
    """`text` with the table that has the same head replaced."""
    head = table.partition("\n")[0]
    return re.sub(rf"^{re.escape(head)}\n(?:\|.*(?:\n|\Z))*", lambda _: table + "\n", text, flags=re.MULTILINE)


TABLES = {"configuration.md": keys, "chat.md": commands}

if __name__ == "__main__":
    for page, table in TABLES.items():
        path = DOCS / page
        path.write_text(with_table(path.read_text("utf-8"), table()), "utf-8")
