"""The README's results tables, generated from committed results: `python -m nfqa.lab.readme` rewrites them."""

from __future__ import annotations

import sys
from pathlib import Path

from nfqa.data.paths import find_root, write_atomically
from nfqa.lab.artefacts import list_leaves, read_papers
from nfqa.lab.results import Row, read_result

START, END = "<!-- results: generated from results/linkage/table_02.json -->", "<!-- end of results -->"
DEBATE_START = "<!-- debateqa: generated from results/debateqa/sensitivity.json and human_alignment.json -->"
DEBATE_END = "<!-- end of debateqa -->"
_DEBATE_SYSTEMS = ("pd_paper_small", "pd_paper_small_no_cache", "pd_released_small", "pd_paper_tiny", "pd_paper_medium")
_DEBATE_COLUMNS = {
    "exact_falls": "falls at every step, exact text",
    "paraphrased_falls": "the same, paraphrased",
    "padding_lowers": "unrelated text lowers it",
    "item_spearman": "Spearman with people's ratings",
}
_SYSTEMS = (
    "rouge1",
    "rouge2",
    "rougel",
    "bertscore",
    "bleu",
    "bertscore_judge_candidates",
    "linkage_mistral_few_shot",
    "linkage_chatgpt_few_shot",
    "linkage_embedded_zero_shot",
    "linkage_embedded_trained",
    "linkage_embedded_trained_rank",
)


def make_table(root: Path) -> str:
    """Spearman and Kendall of Table 2, published beside ours with the 95 % interval, as Markdown."""
    paper = read_papers(root)["linkage"]
    leaves = {leaf.key: leaf.text for leaf in list_leaves(paper, "table_02")}
    rows = {row.key: row for row in read_result(root / "results" / "linkage" / "table_02.json").rows}
    columns = [(d, m) for d in ("antique", "trec_dl_nf") for m in ("kendall", "spearman")]
    lines = ["| | " + " | ".join(f"{dataset}, {metric}" for dataset, metric in columns) + " |", "|---|" + "---|" * 4]
    for system in _SYSTEMS:
        cells = []
        for dataset, metric in columns:
            row, published = rows.get((system, dataset, metric)), leaves.get((system, dataset, metric), "")
            ours = f"**{row.value:.3f}** [{row.ci_low:.3f}, {row.ci_high:.3f}]" if row else "not run: needs a judge"
            cells.append(f"{published or '–'} / {ours}")
        lines.append(f"| {paper.systems[system].title} | " + " | ".join(cells) + " |")
    return "\n".join([START, *lines, END])


def make_debate_table(root: Path) -> str:
    """What P.D. does on composed answers, and how far it follows people's ratings, as Markdown."""
    paper = read_papers(root)["debateqa"]
    rows: dict[tuple[str, str], Row] = {}
    for name in ("sensitivity", "human_alignment"):
        found = read_result(root / "results" / "debateqa" / f"{name}.json").rows
        rows |= {(row.system, row.metric): row for row in found}
    heads = ("", "claims", *_DEBATE_COLUMNS.values())
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for system in _DEBATE_SYSTEMS:
        claims = rows.get((system, "exact_falls"))
        cells = [str(claims.n) if claims else "–"]
        for metric in _DEBATE_COLUMNS:
            row = rows.get((system, metric))
            cells.append(f"**{row.value:.3f}** [{row.ci_low:.3f}, {row.ci_high:.3f}]" if row else "–")
        lines.append(f"| {paper.systems[system].title} | " + " | ".join(cells) + " |")
    return "\n".join([DEBATE_START, *lines, DEBATE_END])


def main() -> int:
    """Rewrite the tables in README.md."""
    root = find_root()
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    for start, end, make in ((START, END, make_table), (DEBATE_START, DEBATE_END, make_debate_table)):
        before, found, rest = text.partition(start)
        if not found or end not in rest:
            raise ValueError(f"{readme}: the markers of a results table are missing: {start}")
        text = before + make(root) + rest.partition(end)[2]
    with write_atomically(readme) as scratch:
        scratch.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
