"""The themes of localspec: one accent; success marks accepted drafts, warning the target's own tokens."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="localspec-dark",
    dark=True,
    primary="#6cb6c9",
    secondary="#8a94a8",
    accent="#6cb6c9",
    success="#8fc07a",
    warning="#e2b15b",
    error="#e8707a",
    foreground="#d6dae1",
    background="#12151b",
    surface="#191d25",
    panel="#222833",
    variables={"border": "#6cb6c9", "border-blurred": "#333b49"},
)
LIGHT = Theme(
    name="localspec-light",
    dark=False,
    primary="#13707f",
    secondary="#5b6577",
    accent="#13707f",
    success="#3d7a2a",
    warning="#8f5b00",
    error="#b3261e",
    foreground="#22262e",
    background="#fbfaf8",
    surface="#f1efeb",
    panel="#e5e2dc",
    variables={"border": "#13707f", "border-blurred": "#c9c5bd"},
)
CONTRAST = Theme(
    name="localspec-contrast",
    dark=True,
    primary="#ffffff",
    secondary="#ffffff",
    accent="#ffff00",
    success="#00ff66",
    warning="#ffff00",
    error="#ff8080",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#202020",
    text_alpha=1.0,
    variables={
        "border": "#ffffff",
        "border-blurred": "#ffffff",
        "foreground-muted": "#d8d8d8",
        "text-muted": "#d8d8d8",
    },
)
THEMES = (DARK, LIGHT, CONTRAST)
