"""A short part of the fault campaign; `make faults` runs all of it."""

from __future__ import annotations

import pytest

from faults.attack import Attack, carry_out
from faults.campaign import ALL


@pytest.mark.parametrize(
    "attack", [each for each in ALL if each.brief], ids=lambda each: f"{each.door}, {each.name}"
)
def test_attack(attack: Attack, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path_factory.mktemp("home")
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(home))
    tally = carry_out(attack, short=True)
    assert tally.tried and tally.faults == []
