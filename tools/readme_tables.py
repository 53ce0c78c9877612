"""The README's results tables, generated from committed results: `python -m tools.readme_tables` rewrites them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pandas as pd

from nfqa.data.paths import find_root, write_atomically
from nfqa.lab.artefacts import list_leaves, read_papers
from nfqa.lab.open import show_name
from nfqa.lab.values import match_rows, pick, read_values

EMBEDDED = {"metric": "embedded_judge", "output": "score"}
LINKAGE = {  # a row of the table: its title and its columns in results
    "ROUGE-1": {"metric": "rouge1"},
    "ROUGE-2": {"metric": "rouge2"},
    "ROUGE-L": {"metric": "rougel"},
    "BERTScore": {"metric": "bertscore"},
    "BLEU": {"metric": "bleu"},
    "BERTScore, the judge's candidates": {"metric": "bertscore", "candidates": "the judge's"},
    "LINKAGE, few-shot (Mistral)": {"metric": "listwise", "judge": "mistral", "shots": 3},
    "LINKAGE, few-shot (ChatGPT)": {"metric": "listwise", "judge": "chatgpt", "shots": 3},
    "Embedded judge, zero-shot": EMBEDDED | {"training": "zero-shot"},
    "Embedded judge, trained": EMBEDDED | {"training": "trained"},
    "Embedded judge, trained, rank": EMBEDDED | {"training": "trained", "output": "rank"},
}
PD = {"metric": "pd", "variant": "paper", "evaluator": "small"}
DEBATEQA = {
    "P.D., as the paper, embedded small": PD,
    "P.D., as the paper, embedded small, no cache": PD | {"cache": "no"},
    "P.D., as released, embedded small": PD | {"variant": "released"},
    "P.D., as the paper, embedded tiny": PD | {"evaluator": "tiny"},
    "P.D., as the paper, embedded medium": PD | {"evaluator": "medium"},
}


def say_value(table: pd.DataFrame, key: dict, absent: str) -> str:
    """The value of the row with these columns and its 95 % interval."""
    for row in table[match_rows(table, key)].itertuples():
        return f"**{row.value:.3f}** [{row.low:.3f}, {row.high:.3f}]"
    return absent


def make_table(root: Path) -> str:
    """Kendall and Spearman of LINKAGE's Table 2, published beside ours with the 95 % interval, as Markdown."""
    paper, table = read_papers(root)["linkage"], read_values(root / "results" / "linkage" / "table_02.csv")
    printed = {frozenset(leaf.columns.items()): leaf.text for leaf in list_leaves(paper, "table_02")}
    rows = {title: {} for title in LINKAGE}
    for title, dataset, statistic in product(LINKAGE, ("antique", "trec_dl_nf"), ("kendall", "spearman")):
        key = LINKAGE[title] | {"dataset": dataset, "statistic": statistic}
        head = f"{show_name(paper, dataset)}, {show_name(paper, statistic)}"
        ours = say_value(table, key, "not run: needs a judge")
        rows[title][head] = f"{printed.get(frozenset(key.items()), '–')} / {ours}"
    return pd.DataFrame(rows).T.to_markdown()


def make_debate_table(root: Path) -> str:
    """What P.D. does on composed answers, and how far it agrees with people's ratings, as Markdown."""
    folder = root / "results" / "debateqa"
    sensitivity, people = (read_values(folder / f"{name}.csv") for name in ("sensitivity", "human_alignment"))
    columns = {
        "falls at every step, exact text": (sensitivity, {"statistic": "falls_at_every_step", "form": "exact"}),
        "the same, paraphrased": (sensitivity, {"statistic": "falls_at_every_step", "form": "paraphrased"}),
        "unrelated text lowers it": (sensitivity, {"statistic": "padding_lowers"}),
        "Spearman with people's ratings": (people, {"statistic": "spearman", "level": "item", "over": "annotators"}),
    }
    rows = {}
    for title, key in DEBATEQA.items():
        claims = pick(sensitivity, **key, dataset="debatewise", statistic="falls_at_every_step", form="exact")
        rows[title] = {"claims": str(claims.n)}
        for head, (table, columns_of) in columns.items():
            rows[title][head] = say_value(table, key | columns_of | {"dataset": table.dataset.mode()[0]}, "–")
    return pd.DataFrame(rows).T.to_markdown()


TABLES = {
    "results of linkage/table_02": make_table,
    "results of debateqa/sensitivity and human_alignment": make_debate_table,
}


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
    with write_atomically(readme) as scratch:
        scratch.write_text(fill_tables(find_root(), readme.read_text(encoding="utf-8")), encoding="utf-8")
