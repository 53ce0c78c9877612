"""The README's results tables, generated from committed results: `python -m nfqa.lab.readme` rewrites them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pandas as pd

from nfqa.data.paths import find_root, write_atomically
from nfqa.lab.artefacts import list_leaves, read_papers
from nfqa.lab.open import show_name
from nfqa.lab.values import match_rows, pick, read_values

_EMBEDDED: dict[str, object] = {"metric": "embedded_judge", "output": "score"}
_LINKAGE: dict[str, dict[str, object]] = {  # a row of the table: its title and its columns in results
    "ROUGE-1": {"metric": "rouge1"},
    "ROUGE-2": {"metric": "rouge2"},
    "ROUGE-L": {"metric": "rougel"},
    "BERTScore": {"metric": "bertscore"},
    "BLEU": {"metric": "bleu"},
    "BERTScore, the judge's candidates": {"metric": "bertscore", "candidates": "the judge's"},
    "LINKAGE, few-shot (Mistral)": {"metric": "listwise", "judge": "mistral", "shots": 3},
    "LINKAGE, few-shot (ChatGPT)": {"metric": "listwise", "judge": "chatgpt", "shots": 3},
    "Embedded judge, zero-shot": _EMBEDDED | {"training": "zero-shot"},
    "Embedded judge, trained": _EMBEDDED | {"training": "trained"},
    "Embedded judge, trained, rank": _EMBEDDED | {"training": "trained", "output": "rank"},
}


_PD: dict[str, object] = {"metric": "pd", "variant": "paper", "evaluator": "small"}
_DEBATEQA: dict[str, dict[str, object]] = {
    "P.D., as the paper, embedded small": _PD,
    "P.D., as the paper, embedded small, no cache": _PD | {"cache": "no"},
    "P.D., as released, embedded small": _PD | {"variant": "released"},
    "P.D., as the paper, embedded tiny": _PD | {"evaluator": "tiny"},
    "P.D., as the paper, embedded medium": _PD | {"evaluator": "medium"},
}


def make_table(root: Path) -> str:
    """Kendall and Spearman of LINKAGE's Table 2, published beside ours with the 95 % interval, as Markdown."""
    paper = read_papers(root)["linkage"]
    printed: dict[frozenset[tuple[str, object]], str] = {
        frozenset(leaf.columns.items()): leaf.text for leaf in list_leaves(paper, "table_02")
    }
    table = read_values(root / "results" / "linkage" / "table_02.csv")
    rows: dict[str, dict[str, str]] = {}
    for title, columns in _LINKAGE.items():
        for dataset in ("antique", "trec_dl_nf"):
            for statistic in ("kendall", "spearman"):
                key = columns | {"dataset": dataset, "statistic": statistic}
                cell = f"{printed.get(frozenset(key.items()), '–')} / {_say(table, key, 'not run: needs a judge')}"
                head = f"{show_name(paper, dataset)}, {show_name(paper, statistic)}"
                rows.setdefault(title, {})[head] = cell
    return pd.DataFrame(rows).T.to_markdown()


def _say(table: pd.DataFrame, key: dict[str, object], absent: str) -> str:
    found = table[match_rows(table, key)]
    if found.empty:
        return absent
    row = found.iloc[0]
    return f"**{row.value:.3f}** [{row.low:.3f}, {row.high:.3f}]"


def make_debate_table(root: Path) -> str:
    """What P.D. does on composed answers, and how far it agrees with people's ratings, as Markdown."""
    folder = root / "results" / "debateqa"
    sensitivity, people = (read_values(folder / f"{name}.csv") for name in ("sensitivity", "human_alignment"))
    columns: dict[str, tuple[pd.DataFrame, dict[str, object]]] = {
        "falls at every step, exact text": (sensitivity, {"statistic": "falls_at_every_step", "form": "exact"}),
        "the same, paraphrased": (sensitivity, {"statistic": "falls_at_every_step", "form": "paraphrased"}),
        "unrelated text lowers it": (sensitivity, {"statistic": "padding_lowers"}),
        "Spearman with people's ratings": (people, {"statistic": "spearman", "level": "item", "over": "annotators"}),
    }
    rows: dict[str, dict[str, str]] = {}
    for title, key in _DEBATEQA.items():
        claims = pick(sensitivity, **key, dataset="debatewise", statistic="falls_at_every_step", form="exact")
        rows[title] = {"claims": str(claims.n)}
        for head, (table, columns_of) in columns.items():
            rows[title][head] = _say(table, key | columns_of | {"dataset": table.dataset.mode()[0]}, "–")
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
        pattern = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"README.md: the marks of the table {name!r} are missing")
        made = make(root)
        text = pattern.sub(lambda match: match[1] + made + match[2], text)  # noqa: B023 (used at once)
    return text


if __name__ == "__main__":
    readme = find_root() / "README.md"
    with write_atomically(readme) as scratch:
        scratch.write_text(fill_tables(find_root(), readme.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
