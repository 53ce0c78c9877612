"""What can be counted in a prompt's text.

The released texts may not be redistributed: results and figures hold these facts of them and never
the text.
"""

from __future__ import annotations

import re

from nfqa.judge.prompts import Template

COUNTS = {  # what is counted -> how it is shown
    "words": "words",
    "characters": "characters",
    "lines": "lines",
    "placeholders": "placeholders filled in",
    "unfilled": "placeholders left unfilled",
    "escaped_quotes": "escaped quotation marks",
    "verdict_examples": "verdicts shown in [[ ]]",
    "solved": "solved examples",
    "lowest": "lowest score",
    "highest": "highest score",
}
_PLACEHOLDER = re.compile(r"#\w+|\{\{\w+\}\}")


def count_facts(template: Template) -> dict[str, float]:
    """What can be counted in a prompt, by the names in COUNTS; a range and solved examples only
    where it has them.
    """
    text = template.text
    counts = {
        "words": len(text.split()),
        "characters": len(text),
        "lines": len(text.splitlines()),
        "placeholders": sum(text.count(mark) for mark in template.placeholders.values()),
        "unfilled": sum(mark not in template.placeholders.values() for mark in _PLACEHOLDER.findall(text)),
        "escaped_quotes": text.count('\\"'),
        "verdict_examples": len(re.findall(r"\[\[[\w{}]+\]\]", text)),
        "solved": template.solved or None,
        "lowest": template.lowest,
        "highest": template.highest,
    }
    return {name: float(count) for name, count in counts.items() if count is not None}
