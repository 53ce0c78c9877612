"""The README's results table, generated from committed results: `python -m nfqa.lab.readme` rewrites it."""

from __future__ import annotations

import sys
from pathlib import Path

from nfqa.lab.artefacts import list_leaves, read_papers
from nfqa.lab.paths import find_root, write_atomically
from nfqa.lab.results import read_result

START, END = "<!-- results: generated from results/linkage/table_02.json -->", "<!-- end of results -->"
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


def main() -> int:
    """Rewrite the table in README.md."""
    root = find_root()
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, found, rest = text.partition(START)
    if not found or END not in rest:
        raise ValueError(f"{readme}: the markers of the results table are missing")
    with write_atomically(readme) as scratch:
        scratch.write_text(before + make_table(root) + rest.partition(END)[2], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
