"""A user's own answers: scores, means and shares of wins by hand; every name a user gives; the notebook; the door."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT, Checkout, copy_project
from notebook_cells import run_notebook, use_rule
from test_worked_case import Embedder as TokenEmbedder
from tiny_models import make_tiny_model

import nfqa
from nfqa.files.own_answers import read_answers
from nfqa.metrics.systems import add_unscored, add_wins, leave_out_flagged, measure_systems
from nfqa.models.chat import Request
from nfqa.models.restated import TOO_LONG, TargetLoss
from reproduction.open import Lab
from reproduction.options import RunOptions
from reproduction.own_scores import bound_wins, label_systems, name_leader, write_scores
from reproduction.papers import read_papers
from reproduction.runner import hold_scratch
from reproduction.scoring import name_folder, pivot_views, tabulate_means
from reproduction.values import pick, read_values, tidy_values, write_values

ARTEFACT = "linkage/use_your_own_answers"
POINTS = ["Yes.", {"point_of_view": "No.", "explanation": "It harms."}, "Long."]
LINES = [
    {"question": "why?", "references": [{"text": "x y", "grade": 0}, {"text": "one b", "grade": 3}],
     "answers": [{"system": "llama-3", "text": "one", "label": 3}, {"system": "LLaMA", "text": "two", "label": 0},
                 {"system": "all", "text": "one b", "label": 2}, ""]},
    {"question": "bare?", "answers": [{"system": "llama-3", "text": "three"}]},
    {"question": "whether?", "partial_answers": POINTS,
     "answers": [{"system": "llama-3", "text": "xylo both"}, {"system": "LLaMA", "text": "xylo one"}, "neither"]},
]  # fmt: skip


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


# Frames, by hand

NAN = float("nan")
SCORES = pd.DataFrame(
    [("1", "A", 8.0, 8.0, ""), ("1", "B", 2.0, 2.0, ""), ("1", "", 9.0, 5.0, ""), ("2", "A", 4.0, 4.0, ""),
     ("2", "B", 4.0, 4.0, ""), ("3", "A", 6.0, 6.0, ""), ("3", "B", NAN, NAN, "unreadable")],
    columns=["question", "system", "score", "ten", "missing"],
).assign(metric="m", training=NAN)  # fmt: skip


def test_means_and_shares_of_wins_are_over_questions():
    everything = measure_systems(SCORES.assign(system=""), "ten", named="mean_ten", questions=["1", "2", "3", "4"])
    assert everything.measured.tolist() == pytest.approx([5, 4, 6, NAN], nan_ok=True)
    assert everything.missing.tolist() == ["", "", "", "no such answer"]
    named = SCORES[SCORES.system != ""]
    wins = measure_systems(add_wins(named), "wins", named="win_share", questions=["1", "2", "3"])
    assert {name: part.measured.tolist() for name, part in wins.groupby("system")} == {
        "A": pytest.approx([1, 0.5, NAN], nan_ok=True),  # won, tied, and no rival with a score in the third
        "B": pytest.approx([0, 0.5, NAN], nan_ok=True),
    }
    assert wins.missing.tolist()[-1] == "unreadable"
    assert add_wins(SCORES).wins[2] != add_wins(SCORES).wins[2], "an answer of no system neither wins nor loses"
    three = pd.DataFrame(
        {"metric": "m", "question": "1", "system": list("ABC"), "score": [3.0, 2.0, 2.0], "missing": ""}
    )
    assert add_wins(three).wins.tolist() == [1, 0.25, 0.25]
    unflagged = add_wins(leave_out_flagged(three.assign(ten=9.0, flags=["copies_reference; length", "", ""])))
    assert unflagged.ten.tolist() == pytest.approx([NAN, 9, 9], nan_ok=True), "out of means as out of wins"
    assert unflagged.wins.tolist() == pytest.approx([NAN, 0.5, 0.5], nan_ok=True)
    assert unflagged.missing.tolist() == ["flagged", "", ""]
    assert leave_out_flagged(three.assign(ten=9.0, flags="length")).missing.tolist() == ["", "", ""], "told alone"
    twice = pd.concat([three, three.tail(1).assign(score=4.0)], ignore_index=True)  # C: 2 and 4
    assert add_wins(twice).wins.tolist() == [0.75, 0.125, 0.25, 1], "of a system with two answers, half for each"
    assert add_wins(three.assign(score=[0.5, 1e-155, 2.6e-233])).wins.tolist() == [1, 0.25, 0.25], "both underflowed"


def test_every_answer_has_a_row_under_every_metric_and_a_reason_where_it_was_not_scored():
    answers = pd.DataFrame({"dataset": "d", "question": ["1", "2"], "answer": "a", "system": "", "text": "t"})
    scored = answers.head(1).assign(metric="m", score=1.0, missing="", signature="s")
    both = add_unscored(pd.concat([scored, scored.assign(metric="n")]), answers, missing="needs references")
    assert both.metric.tolist() == ["m", "m", "n", "n"]
    assert both.missing.tolist() == ["", "needs references"] * 2
    assert set(both.signature) == {"s"}
    assert "text" not in both


LEADS = [("m", "A", 1, 9), ("m", "B", 0, 9)]


@pytest.mark.parametrize(
    ("shares", "systems", "said"),
    [  # label, system, share, n
        (LEADS, "AB", "A leads, under 1 of 1 methods (m); no other does. 9"),
        ([("m", "A", 0.9, 99), ("m", "B", 0.6, 99), ("m", "C", 0, 99)], "ABC", "A leads,"),
        ([*LEADS, ("k", "A", 0.6, 9), ("k", "B", 0.4, 9)], "AB", "under 1 of 2 methods (m)"),
        (
            [(*row[:3], 5) for row in LEADS],
            "AB",
            "Undecided: the cosine to the question apart, no method scored over 5",
        ),
        ([("m", "A", 8 / 9, 9), ("m", "B", 1 / 9, 9)], "AB", "A leads, under 1 of 1"),  # 0.518 is above 0.482
        ([("m", "A", 7 / 9, 9), ("m", "B", 2 / 9, 9)], "AB", "nobody leads under any"),
        ([(k, s, abs(x - 1 / 9), 9) for k in "mk" for _, s, x, _ in LEADS], "AB", "of 2 methods nobody leads"),
        ([*LEADS, ("k", "B", 1, 9), ("k", "A", 0, 9)], "AB", "Undecided"),
        ([("cos_question", *row[1:]) for row in LEADS], "AB", "Undecided"),  # the topic alone
        ([], "A", "No comparison: the file names fewer than two systems."),
    ],
)
def test_who_leads_follows_from_intervals(shares, systems, said):
    table = pd.DataFrame(shares, columns=["label", "system", "value", "n"])
    assert said in name_leader(table.assign(metric=table.label), list(systems))


def test_of_two_equal_systems_one_leads_in_five_of_a_hundred_files_at_most():
    wins = np.random.default_rng(0).binomial(40, 0.5, (200, 12)) / 40  # files, methods
    pairs = (
        pd.DataFrame({"label": [*"abcdefghijkl"] * 2, "system": ["A"] * 12 + ["B"] * 12, "value": [*x, *(1 - x)]})
        for x in wins
    )
    said = [name_leader(table.assign(metric=table.label, n=40), ["A", "B"]) for table in pairs]
    assert sum("leads, under" in line for line in said) <= 10


def test_an_exact_interval_holds_for_all_methods_together():
    shares = pd.DataFrame({"value": [1.0, 0.0, 0.5], "n": [9, 9, 1]})
    found = bound_wins(shares, methods=2)
    assert found.low.tolist() == pytest.approx([0.0125 ** (1 / 9), 0, found.low[2]])
    assert found.high.tolist() == pytest.approx([1, 1 - 0.0125 ** (1 / 9), 1 - found.low[2]])


def test_names_of_systems_come_back_from_a_file_as_they_were(tmp_path):
    versions = pd.DataFrame({"metric": "m", "system": ["7", "3.1", "3.10", "07"], "statistic": "s", "value": 1.0})
    assert set(tidy_values(versions, origin="measured").system) == {"7", "3.1", "3.10", "07"}
    names = ["", "07", "7", "1e3", "nan", "all", "all answers", "llama", "LLaMA", "llama-3", 'a "b", c']
    values = pd.DataFrame({"metric": "bleu", "system": names, "statistic": "mean_ten", "value": 1.0})
    write_values(tmp_path / "v", tidy_values(values, origin="measured"), {})
    table = read_values(tmp_path / "v.csv")
    assert sorted(table.system) == sorted(names)
    assert pick(table, metric="bleu", system="7", statistic="mean_ten").value == 1
    shown = tabulate_means(read_papers(PROJECT)["linkage"], table, names[1:])
    assert shown.splitlines()[1].split() == ["BLEU", *["1.00"] * len(names)]


def test_a_mean_is_shown_with_its_questions_and_never_as_a_zero_that_it_is_not():
    means = [("", 1.234e-79, 3), ("a", 0.0, 3), ("b", 5.678, 1), ("c", NAN, 0)]
    values = pd.DataFrame(means, columns=["system", "value", "n"]).assign(metric="bleu", statistic="mean_ten")
    shown = tabulate_means(read_papers(PROJECT)["linkage"], tidy_values(values, origin="measured"), ["a", "b", "c"])
    assert shown.splitlines()[1].split() == ["BLEU", "<0.01", "(3)", "0.00", "(3)", "5.68", "(1)", "–"]

    # A method that tells no answer from another is no row; answers of no system have a column each.
    values = pd.DataFrame({"metric": ["bleu", "embedded_judge"], "system": "", "value": [1e-154, 3.0]})
    both = [values.assign(statistic="mean_ten"), values.assign(statistic="ten", question="q", answer="a1")]
    shown = tabulate_means(read_papers(PROJECT)["linkage"], tidy_values(pd.concat(both), origin="measured"), [])
    assert ("q a1" in shown, "BLEU" in shown, "Embedded judge †" in shown) == (True, False, True)
    assert "more than truth" in shown.splitlines()[-1]


def test_a_figure_can_draw_whatever_a_system_is_called():
    labels = label_systems(
        ["plain", *(name + end for name in ("$x_1$", "_hidden", "模型", "a" * 99) for end in ("", "b"))]
    )
    assert labels["plain"] == "plain"
    assert len(set(labels.values())) == 9
    for label in labels.values():
        assert len(label) <= 28
        assert label.removesuffix("…").isascii()
        assert "$" not in label
        assert not label.startswith("_")


def test_both_files_hold_every_answer_in_full_precision_and_no_formula_that_a_spreadsheet_runs(tmp_path):
    names = ["=HYPERLINK(1)", "+1+cmd", "-2+3", "@sum", "fair-play"]
    answers = [{"system": name, "text": "t"} for name in names]
    line = {"id": "=q()", "question": "q", "answers": [*answers, {"system": "empty", "text": ""}]}
    own = read_answers(write(tmp_path / "my.jsonl", line))
    scores = own.answers.assign(metric="pd", score=[-2.5, 1 / 3, 0, 1, NAN], missing=["", "", "", "", "why"])
    write_scores(tmp_path, own, scores, not_run={"P.D.": "needs partial answers"}, notes=["one", "two"])
    lines = pd.read_csv(tmp_path / "scores.csv", dtype=str, keep_default_na=False)
    assert lines.missing.tolist() == ["", "", "", "", "why", "excluded: empty answer"]
    assert lines.score.tolist() == ["-2.5", "0.3333333333333333", "0.0", "1.0", "", ""], "a number stays one"
    assert lines.system.tolist() == [*(f"'{name}" for name in names[:4]), "fair-play", ""]
    assert set(lines.question) == {"'=q()"}
    content = json.loads((tmp_path / "scores.json").read_text())
    assert [row.get("score") for row in content["scores"]] == [-2.5, 1 / 3, 0, 1, None, None]
    assert [row["system"] for row in content["scores"][:5]] == names
    assert content["not_run"] == {"P.D.": "needs partial answers"}
    assert content["irregularities"] == {"questions_without_references": 1, "empty_answers": 1}
    assert (tmp_path / "notes.md").read_text() == "- one\n- two\n"


# The notebook, in this process


class WholeEmbedder(TokenEmbedder):
    """All that a notebook asks of an embedder; nothing is cut."""

    spec = SimpleNamespace(identity="made:up")
    fingerprint = "made:up"

    def prepare(self, texts: Sequence[str], **_: bool) -> int:
        return len(texts)

    def find_cut(self, texts: Sequence[str]) -> set[str]:
        return set()

    def count_cut(self, texts: Sequence[str]) -> int:
        return 0


class StubEvaluator:
    """Each target costs 2 ln 10 nats over 2 of 10 tokens, twice that after "one"; "Long." fits no model."""

    identity = "stub"

    def adapt(self, settings: Any) -> Any:
        return settings

    def score(self, items: Sequence[Any], settings: Any) -> list[list[TargetLoss]]:
        assert settings.too_long == "cut_tail"
        nats = [2 * np.log(10) * (2 if "one" in item.context else 1) for item in items]
        return [
            [TOO_LONG if target == "Long." else TargetLoss(loss, 2, 10, cut=3) for target in item.targets]
            for item, loss in zip(items, nats, strict=True)
        ]


def use_stubs(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let stub models fill a notebook's roles."""
    patch.setattr(Lab, "evaluator", StubEvaluator())
    patch.setattr(Lab, "embedder", WholeEmbedder({}, 8))
    patch.setattr(Lab, "cache", folder / "cache")


def answer_by_rule(request: Request) -> str:
    if request.labels == ("0", "1"):
        return "[[1]]" if "xylo both" in request.prompt else "no idea"
    return "[[C]]" if "A" in request.labels else "[[2]]"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the notebook leaves behind, of LINES, with a rule as the judge."""
    folder = tmp_path_factory.mktemp("own")
    given = {"answers": str(write(folder / "my.jsonl", *LINES)), "judge": "openai:any", "prompts": "own"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NFQA_JOURNAL", str(folder / "journal.sqlite"))
        use_rule(patch, answer_by_rule)
        use_stubs(patch, folder)
        patch.setenv("NFQA_DRY", "1")
        planned = run_notebook(ARTEFACT, out=folder / "dry", tags=["parameters", "setup", "ask"], **given)["lab"].tally
        patch.delenv("NFQA_DRY")
        yield run_notebook(ARTEFACT, out=folder, **given) | {"planned": planned}


def take(found: dict[str, Any], question: str, column: str, **conditions: str) -> list[Any]:
    scores = found["scores"]
    for name, value in ({"question": question} | conditions).items():
        scores = scores[scores[name] == value]
    return list(scores[column])


def test_overlap_is_with_the_best_reference_and_a_rank_is_put_on_the_scale(found):
    # "one" and "one b" share 1 word: precision 1, recall 1/2, F = 2/3; "two" shares none
    assert take(found, "line1", "score", metric="rouge1") == pytest.approx([2 / 3, 0, 1], abs=1e-6)
    assert take(found, "line1", "ten", metric="rouge1") == pytest.approx([20 / 3, 0, 10], abs=1e-5)
    assert take(found, "line1", "flags", metric="rouge1") == ["", "", "copies_reference"]
    assert take(found, "line3", "missing", metric="rouge1") == ["needs references"] * 3
    assert not np.isnan(take(found, "line2", "ten", metric="cos_question")).any()
    ranks, tens = (take(found, "line1", name, training="trained") for name in ("rank", "ten"))
    assert tens == pytest.approx([10 * (2 + 1 - rank) / 2 for rank in ranks])


def test_diversity_leaves_out_a_partial_answer_that_fits_no_model_and_counts_it(found):
    # two targets left, each exp(2 ln 10 / 2) = 10: a sum of 20; with twice the loss each 100: 200
    assert take(found, "line3", "score", variant="paper") == pytest.approx([-20, -200, -20])
    assert take(found, "line3", "ten", variant="paper") == pytest.approx([7.5, 5, 7.5])  # one and two of four decades
    released = [-(100 ** (1 / 9)), -(100 ** (2 / 9)), -(100 ** (1 / 9))]  # mean of exp(2 ln 10 / (10 - 1))
    assert take(found, "line3", "score", variant="released") == pytest.approx(released)
    (note,) = set(take(found, "line3", "note", variant="paper"))
    assert "1 partial answers left out: too long" in note
    assert "cut" in note
    assert take(found, "line1", "missing", variant="paper") == ["needs partial answers"] * 3
    assert any("1 partial answers left out: too long" in line and "3 answers" in line for line in found["notes"])


def test_each_point_of_view_has_its_own_place_beside_that_of_the_question_alone(found):
    table = found["table"].query("metric == 'pd_view' and variant == 'paper'")
    places = {key: rows.sort_values("view").value.tolist() for key, rows in table.groupby("answer")}
    # perplexities of 10, or 100 after "one"; "Long." fits no model; a blank answer is the question alone
    assert set(places) == {"", "llama-3", "LLaMA", "a3"}
    for answer, place in places.items():
        ten = 5 if answer == "LLaMA" else 7.5
        assert place == pytest.approx([ten, ten, NAN], nan_ok=True)
    lines = pd.read_csv(found["lab"].out / "scores.csv", keep_default_na=False)
    lines = lines[(lines.metric == "pd_view") & (lines.variant == "paper") & (lines.answer == "LLaMA")]
    assert lines.point_of_view.tolist() == ["Yes.", "No.", "Long."]
    assert lines["view"].astype(str).tolist() == ["1", "2", "3"]
    assert lines.missing.tolist() == ["", "", "too_long"]
    assert lines.score[:2].astype(float).tolist() == pytest.approx([-100, -100])
    labels = {label.get_text() for label in found["figure"].axes[1].get_yticklabels()}
    assert [label.get_text() for label in found["figure"].axes[1].get_xticklabels()][::3] == ["coverage\n1", "P.D.\n1"]
    assert labels == {"line3: the question alone", "line3: llama-3", "line3: LLaMA", "line3: a3"}


def test_a_language_model_judges_in_five_ways_which_the_plan_counts(found):
    # 7 answers alone; 3 with references in view; 3 x 2 pairs; 3 in a list; 3 on whether they see the dispute
    assert found["planned"].wanted == 7 + 3 + 6 + 3 + 3
    assert (found["planned"].kept, found["planned"].asked) == (0, 22)
    assert take(found, "line2", "ten", metric="pointwise") == [2]
    for metric, ten in {"pointwise_ref": 2, "pairwise": 5, "listwise": 5}.items():  # a tie is 0 of -1 to 1; rank 2 of 3
        assert take(found, "line1", "ten", metric=metric) == [ten] * 3
        assert take(found, "line2", "missing", metric=metric) == ["needs references"]
    assert take(found, "line1", "rank", metric="listwise") == [2, 2, 2]
    assert take(found, "line3", "ten", metric="da", method="judge") == pytest.approx([10, NAN, NAN], nan_ok=True)
    assert take(found, "line3", "missing", metric="da", method="judge") == ["", "unreadable", "unreadable"]
    detected = take(found, "line3", "score", metric="da", method="detector")
    assert all(0 <= score <= 1 for score in detected)
    assert found["not_run"] == {}


def test_the_table_has_all_answers_apart_from_a_system_of_any_name(found):
    table = found["table"]
    means, wins = (
        table[table.statistic == name].set_index(["metric", "variant", "system"]) for name in ("mean_ten", "win_share")
    )
    of_pd = means.value["pd", "paper"].dropna().to_dict()
    assert of_pd == pytest.approx({"": 20 / 3, "llama-3": 7.5, "LLaMA": 5})
    of_rouge = {"": 10 / 3, "llama-3": 20 / 3, "LLaMA": 0}  # the third, a copy, is flagged
    assert means.value["rouge1", ""].dropna().to_dict() == pytest.approx(of_rouge, abs=1e-6)
    assert means.dropped_because["rouge1", "", "all"] == "flagged 1; no such answer 2"
    assert wins.value["pd", "paper"].dropna().to_dict() == {"llama-3": 1, "LLaMA": 0}
    assert wins.value["rouge1", ""].dropna().to_dict() == {"llama-3": 1, "LLaMA": 0}
    assert "flagged 1" in wins.dropped_because["rouge1", "", "all"]
    spearman = pick(table, dataset="own_answers", metric="rouge1", statistic="spearman")
    assert (spearman.value, spearman.n, np.isnan(spearman.low)) == (0.5, 1, True), "labels 3 0 2, scores 2/3 0 1"
    assert (table.statistic == "ten").sum() == 7 * 16 + 3 * 4 * 3, "and, by 3 methods, 3 views after 4 texts"
    assert set(table.origin) == {"sample"}, "what the judge learned from is"


def test_what_is_flagged_and_what_the_evaluator_cannot_see_is_in_every_output(found):
    flags = found["table"].query("statistic == 'flagged'")
    assert set(flags[flags.flag == "copies_reference"].answer) == {"all"}
    assert "empty" not in set(flags.flag), "a word is an answer"
    content = json.loads((found["lab"].out / "scores.json").read_text())
    assert content["notes"] == found["notes"]
    for fact in ("copies a reference: line1: all", "bundled evaluator"):
        assert sum(fact in note for note in content["notes"]) == 1, fact
    assert {row.get("flags") for row in content["scores"] if row.get("answer") == "all"} == {"copies_reference"}
    assert "flagged" in found["figure"].axes[0].get_legend_handles_labels()[1]
    assert found["findings"][1].startswith(
        "Flagged: 1 of 7 answers (copies reference 1); left out of means and wins: 1."
    )
    assert [line.partition(":")[0] for line in found["findings"]][::2] == ["Undecided", "Not seen"]
    assert not any("not to be in English" in note for note in content["notes"]), "texts too short to tell"


def test_another_evaluator_a_flat_method_and_another_language_have_notes_of_their_own(tmp_path, monkeypatch):
    use_stubs(monkeypatch, tmp_path)
    german = "Der Himmel ist blau, weil die Luft das kurzwellige Licht stärker streut als das langwellige."
    lines = [{"question": "why?", "references": ["x", "y"], "answers": [{"system": "s", "text": german}]}, LINES[2]]
    given = {"answers": str(write(tmp_path / "my.jsonl", *lines)), "evaluator": "hf:gpt2"}
    notes = "\n".join(run_notebook(ARTEFACT, out=tmp_path, **given)["notes"])
    assert "bundled evaluator" not in notes
    assert "1 of 11 texts seem not to be in English" in notes
    assert "as no score reaches 0.005 of 10: BLEU, ROUGE-1, ROUGE-2, ROUGE-L." in notes


def test_nothing_is_run_that_a_file_has_nothing_for(tmp_path, monkeypatch):
    use_stubs(monkeypatch, tmp_path)
    lines = [{"question": "how?", "answers": [{"system": "模型", "text": "thus"}, {"system": "_$x$", "text": "so"}]}]
    found = run_notebook(ARTEFACT, out=tmp_path, answers=str(write(tmp_path / "my.jsonl", *lines)))
    assert set(found["scores"].metric) == {"cos_question"}
    assert {why.partition(",")[0] for why in found["not_run"].values()} == {
        "needs references", "needs partial answers", "needs JUDGE",
    }  # fmt: skip
    assert {"mean_ten", "win_share", "ten"} == set(found["table"].statistic)
    assert (tmp_path / "use_your_own_answers.png").is_file()


# The door


def test_no_two_files_share_a_folder_and_none_is_above_it():
    options = [RunOptions(), RunOptions(parameters={"limit": 10}), RunOptions(data="sample")]
    paths = ["/b/my.jsonl", "/a/...jsonl", "/a/..jsonl", "/a/..", f"/a/{'模' * 200}"]
    names = [name_folder(each, "/a/my.jsonl") for each in options] + [name_folder(options[0], path) for path in paths]
    names.append(name_folder(options[0], "/a/my.jsonl", questions="/a/test.jsonl"))
    assert len(set(names)) == len(names)
    assert names[0].startswith("my-")
    for name in names:
        assert Path("x", name).resolve().parent == Path("x").resolve()
        assert len(name.encode()) < 255


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    root = tmp_path_factory.mktemp("own") / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts", "models", "results", "figures")
    made = Checkout(root)
    made.environment |= {"DATA": "sample", "PROFILE": "quick", "PYTHONWARNINGS": "ignore"}
    return made


@pytest.mark.slow
def test_a_file_is_scored_from_the_door_with_a_judge_and_ones_own_evaluator(scored: Checkout, tmp_path: Path) -> None:
    judge, evaluator = (make_tiny_model(tmp_path / name, context=4096) for name in ("judge", "evaluator"))
    variables = {"JUDGE": f"path:{judge}", "PROMPTS": "own", "READING": "logits", "EVALUATOR": f"path:{evaluator}"}
    mine = tmp_path / "mine.jsonl"
    mine.write_bytes(nfqa.SAMPLE.read_bytes())
    done = scored.run("score", str(mine), **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    # 17 alone; 10 with references; 3 x 4, 4 x 4 and 3 x 3 pairs; 10 in a list; 4 on whether they see the dispute
    assert "78 verdicts wanted, 0 in the journal" in done.stdout
    (folder,) = (scored.root / "build" / "scores").glob("mine-*-evaluator-*-judge-*")
    made = [f"use_your_own_answers.{suffix}" for suffix in ("csv", "ipynb", "json", "pdf", "png")]
    assert {file.name for file in folder.iterdir()} == {"notes.md", "scores.csv", "scores.json", "views.csv", *made}
    content = json.loads((folder / "scores.json").read_text())
    assert len(content["scores"]) == 17 * 16 + 3 * 6 * 3  # answers by methods; 3 methods of 3 views after 6 texts
    assert all(-1e-9 <= line["ten"] <= 10 + 1e-9 for line in content["scores"] if "ten" in line)
    before = (folder / "scores.json").read_bytes()
    assert "all in the journal" in scored.run("score", str(mine), **variables).stdout
    assert (folder / "scores.json").read_bytes() == before


@pytest.mark.slow
def test_as_an_artefact_it_shows_the_example_as_a_sample(scored: Checkout) -> None:
    done = scored.run("run", ARTEFACT)
    assert done.returncode == 0, done.stdout + done.stderr
    made = scored.root / "build" / "quick" / "sample" / "results" / ARTEFACT
    assert set(read_values(made.with_suffix(".csv")).origin) == {"sample"}
    assert "sample_own_answers" in json.loads(made.with_suffix(".json").read_text())["inputs"]

    # Where measured results stand, the example's page says that it is of a sample all the same.
    place = scored.root / "results" / ARTEFACT
    for suffix in (".csv", ".json"):
        place.with_suffix(suffix).write_bytes(made.with_suffix(suffix).read_bytes())
    done = scored.run("report", DATA="full", PROFILE="full")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SAMPLE" in (scored.root / "build" / "site" / f"{ARTEFACT}.html").read_text().partition("</title>")[0]

    example = scored.root / "src" / "nfqa" / "sample" / "answers.jsonl"
    example.write_text(example.read_text().replace("dead", "stale"))
    done = scored.run("status", ARTEFACT)
    assert "file src/nfqa/sample/answers.jsonl changed" in done.stdout


def test_what_a_killed_run_left_is_cleared_and_a_live_one_is_left_alone(tmp_path):
    scratch, lock = tmp_path / "scratch", tmp_path / "lock"
    (scratch / "left").mkdir(parents=True)
    with hold_scratch(scratch, lock, "another run"):
        assert not scratch.exists()
        (scratch / "mine").mkdir(parents=True)
        with pytest.raises(ValueError, match="another run"), hold_scratch(scratch, lock, "another run"):
            pass
        assert (scratch / "mine").is_dir()
    assert not scratch.exists()


def test_each_answer_s_views_are_printed_with_coverage_first_beside_the_question_alone():
    rows = [("a", "view_coverage", "", 1, 8.04), ("a", "pd_view", "paper", 1, 3), ("a", "pd_view", "released", 1, 9)]
    rows += [("", "view_coverage", "", 1, 2.5), ("", "pd_view", "paper", 1, 2.6), ("a", "pd", "paper", "", 5)]
    scores = pd.DataFrame(rows, columns=["answer", "metric", "variant", "view", "ten"], dtype=str).assign(question="q")
    views = pivot_views(scores)
    assert views.columns.tolist() == [("coverage", "1"), ("P.D.", "1")]
    assert views.loc["q"].T.to_dict("list") == {"a": [8.04, 3], "the question alone": [2.5, 2.6]}
