"""A process that runs `localspec inspect` on one file after another, as the program would, and reports by JSON lines.

Started by files.py under a limit of memory: importing once makes hundreds of files a matter of seconds.
"""

from __future__ import annotations

import io
import json
import resource
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout

from localspec.cli.program import main


def once(path: str) -> dict[str, object]:
    out, sys.argv = io.StringIO(), ["localspec", "inspect", path]
    code, crash = 0, None
    with redirect_stdout(out), redirect_stderr(out):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            crash = traceback.format_exc()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"code": code, "crash": crash, "said": out.getvalue(), "peak": peak}


if __name__ == "__main__":
    from importlib import import_module

    for module in ("localspec.cli", "localspec.shelf.inspecting"):  # before the limit is set
        import_module(module)

    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for line in sys.stdin:
        print(json.dumps(once(json.loads(line))), flush=True)
