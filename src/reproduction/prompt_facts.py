"""What can be counted in a prompt's text, and what is odd in a released one.

The released texts may not be redistributed: results and figures hold these facts of them and never the text.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field

from nfqa.files.json_lines import Item, Text, check, read_yaml
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


class Remark(Item):
    """A sentence on released prompts. holds, lacks: prompt -> a pattern that its text has, or has not, if it is so."""

    says: Text
    holds: dict[str, Text] = Field(default_factory=dict)
    lacks: dict[str, Text] = Field(default_factory=dict)


def read_remarks(root: Path) -> dict[str, Remark]:
    """What is worth knowing of released prompts, by id. Raises: ValueError naming file and field."""
    path = root / "prompts" / "upstream" / "remarks.yml"
    return check(dict[str, Remark], read_yaml(path), str(path))


def count_facts(template: Template) -> dict[str, float]:
    """What can be counted in a prompt, by the names in COUNTS; a range and solved examples only where it has them."""
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


def find_remarks(template: Template, remarks: dict[str, Remark]) -> dict[str, bool]:
    """Which of the remarks on a released prompt its text supports, by id; none for a prompt without remarks."""
    supported = {}
    for name, remark in remarks.items():
        for patterns, wanted in ((remark.holds, True), (remark.lacks, False)):
            if template.name in patterns:
                supported[name] = bool(re.search(patterns[template.name], template.text)) == wanted
    return supported
