"""What can be counted in a prompt's text, and what is odd in a released one.

The released texts are not ours to pass on: results and figures hold these facts of them and never the text.
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
    "lowest": "lowest score",
    "highest": "highest score",
}
_PLACEHOLDER = re.compile(r"#\w+|\{\{\w+\}\}")

# What is worth knowing of LINKAGE's released prompts, made only where the text supports it.
REMARKS = {
    "references_unfilled": "The released code leaves the placeholder for references unfilled, so the model reads the"
    " placeholder.",
    "objectivity_by_references": "It judges objectivity by references that it doesn't give.",
    "correctness_unnamed": "It defines correctness, which isn't among the criteria it names.",
    "accuracy_undefined": "It names accuracy among its criteria and doesn't define it.",
    "scale_from_0": "It asks for 0 to 10, where the paper's section 4.2.1 says 1 to 10.",
    "explanation_first": "It wants an explanation before the verdict; a reading from logits has none.",
    "assistants": "It speaks of assistants and their names, which no answer here has.",
    "four_references": "It speaks of four references whatever the list's length; ANTIQUE's has 8.",
    "three_then_five": "It asks for three answers and then speaks of five.",
    "stray_brace": "Its one solved example ends in a brace that was never opened.",
    "code_not_released": "The code that fills it in isn't released.",
}
# Of each prompt: remark -> pattern, and whether the text has it where the remark holds.
_EVIDENCE: dict[str, dict[str, tuple[str, bool]]] = {
    "pointwise": {
        "references_unfilled": (r"\{#ground\}", True),
        "objectivity_by_references": (r"\*Objectivity\*[^\n]*references", True),
        "accuracy_undefined": (r"\*(?:Accuracy|Correctness)\*", False),
        "scale_from_0": (r"0-10", True),
    },
    "pointwise_ref": {
        "correctness_unnamed": (r"\*Correctness\*", True),
        "accuracy_undefined": (r"\*Accuracy\*", False),
        "scale_from_0": (r"0-10", True),
    },
    "pairwise": {"explanation_first": (r"explanation", True), "assistants": (r"assistants", True)},
    "listwise": {"four_references": (r"four references", True)},
    "write_lower": {
        "three_then_five": (r"\bfive\b", True),
        "stray_brace": (r"Answer3:[^\n{]*\}", True),
        "code_not_released": (r"\{\s*#question\s*\}", True),
    },
}


def count_facts(template: Template) -> dict[str, float]:
    """What can be counted in a prompt's text, by the names in COUNTS; a score's range only where it has one."""
    text = template.text
    counts = {
        "words": len(text.split()),
        "characters": len(text),
        "lines": len(text.splitlines()),
        "placeholders": sum(text.count(mark) for mark in template.placeholders.values()),
        "unfilled": sum(mark not in template.placeholders.values() for mark in _PLACEHOLDER.findall(text)),
        "escaped_quotes": text.count('\\"'),
        "verdict_examples": len(re.findall(r"\[\[[\w{}]+\]\]", text)),
        "lowest": template.lowest,
        "highest": template.highest,
    }
    return {name: float(count) for name, count in counts.items() if count is not None}


def find_remarks(template: Template) -> dict[str, bool]:
    """Which of the known remarks on a released prompt its text supports, by id; none for a prompt without remarks."""
    known = _EVIDENCE.get(template.name, {})
    return {name: bool(re.search(pattern, template.text)) == has for name, (pattern, has) in known.items()}
