"""Every attack, or those whose door or name holds one of the words; the totals; exit code 1 where a case failed."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile

from faults.attack import Attack, Tally, carry_out
from faults.campaign import ALL


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m faults", description=__doc__)
    parser.add_argument("words", nargs="*", type=str.lower)
    parser.add_argument("--short", action="store_true", help="only what the tests run")
    options = parser.parse_args(arguments)
    chosen = [
        each
        for each in ALL
        if not options.words or any(word in f"{each.door} {each.name}".lower() for word in options.words)
    ]
    logging.disable(logging.CRITICAL)  # the writer of files warns of what is meant
    with tempfile.TemporaryDirectory(prefix="localspec-faults-") as home:
        os.environ |= {"HOME": home, "XDG_CACHE_HOME": f"{home}/cache", "XDG_DATA_HOME": f"{home}/data"}
        tallies = [_shown(each, short=options.short) for each in chosen if each.brief or not options.short]
    tried, passed = sum(tally.tried for tally in tallies), sum(tally.passed for tally in tallies)
    print(f"\n{passed:,} of {tried:,} cases passed in {sum(tally.seconds for tally in tallies):.0f} s.")
    return 0 if tallies and passed == tried else 1


def _shown(each: Attack, *, short: bool) -> Tally:
    tally = carry_out(each, short=short)
    verdict = "ok" if tally.passed == tally.tried else "FAILED"
    figures = "".join(f"; {figure}" for figure in tally.figures)
    print(
        f"{verdict:<7}{each.door}: {each.name}: {tally.passed:,} of {tally.tried:,}, {tally.seconds:.0f} s{figures}"
    )
    for case, wrong in tally.faults[:20]:
        print(f"       {case[:100]!r}: {wrong[:400]!r}")
    sys.stdout.flush()
    return tally


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
