"""What `localspec verify` asks: ordinary requests, some of which repeat what they quote, so that every kind of drafter
has something to propose. The texts are part of the proof: a changed prompt is another proof."""

from __future__ import annotations

PROMPTS = (
    "Rewrite this list with every number doubled, one item per line:\n"
    "apples: 3\npears: 5\nplums: 8\nfigs: 2\nquinces: 11\ncherries: 40",
    "Add a docstring to this function and return the whole function.\n\n"
    "def average(values):\n    total = 0\n    for value in values:\n        total += value\n"
    "    return total / len(values)",
    "Correct the spelling and repeat the text: The harbor master wroted down the name of every boat, the naem of every "
    "captain and the hour at wich every boat left the harbor.",
    "Why is the sky blue in the middle of the day and red in the evening?",
    "Write a short story about a lighthouse keeper who finds a letter in a bottle.",
    'Continue this JSON list with three more entries of the same shape: [{"id": 1, "name": "north", "open": true}, '
    '{"id": 2, "name": "east", "open": false}]',
    "Count from twenty down to one, then say why counting backwards is harder than counting forwards.",
    "Summarise in two sentences: A ferry crosses the lake four times a day. In winter it crosses twice a day. When the "
    "lake freezes it does not cross at all, and the village sends its letters by sledge.",
)
