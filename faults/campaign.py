"""Every attack, in the order of what is worth most."""

from __future__ import annotations

from faults import downloads, environment, files, load, process, store, templates, text

ALL = (
    *(files.inspecting, files.loading, files.reading, files.running),
    *(templates.escapes, templates.bombs, templates.through_the_program),
    *(text.made_visible, text.on_screen, text.on_lines, text.tables),
    *(process.killed, process.stopped, process.starved, process.nonsense, process.restarts, process.orphaned),
    *(environment.settings, environment.places, environment.variables, environment.names, environment.bare),
    environment.clock,
    *(store.killed, store.damaged, store.refused, store.together),
    *(downloads.names, downloads.redirects, downloads.bodies, downloads.traces),
    *(load.turns, load.store, load.conversation, load.switches, load.screen),
)
