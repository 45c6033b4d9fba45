"""`localspec doctor`: what this installation can do, and for each gap the command that closes it.

facts.py says what is looked at, gather.py and hub.py look, native.py asks llama.cpp in a process of its own and
remote.py each worker in another, examine.py finds the gaps and report.py prints. Nothing here loads llama.cpp into
the program itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence


def doctor(*, as_json: bool, rpc: Sequence[str] = ()) -> int:
    """Print, of these workers as well; returns the exit code: 1 when llama.cpp can't be used at all."""
    from localspec.doctor.gather import gather
    from localspec.doctor.report import document, lines

    facts = gather(rpc)
    if as_json:
        print(json.dumps(document(facts), ensure_ascii=False, indent=2))
    else:
        print("\n".join(line.rstrip() for line in lines(facts)))
    return 0 if facts.build is not None else 1
