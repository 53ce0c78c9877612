"""The worked case: chosen by its rule, scored on one scale, drawn and told from numbers, its texts kept out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_listwise import StubEmbedder

from nfqa.data.records import Answer, Question, QuestionSet
from nfqa.lab.experiments import worked_case
from nfqa.lab.experiments.case_figures import account_for
from nfqa.lab.experiments.worked_case import Case, ask_case, choose_case, count_words, score_case, show_case
from nfqa.lab.results import Result, write_result
from nfqa.models.embed import TextVectors


class Embedder(StubEmbedder):
    """Token vectors as well: a text's own vector, twice."""

    def embed_tokens(self, texts: list[str]) -> list[TextVectors]:
        rows = self.embed_sentences(texts)
        return [TextVectors(row, np.stack([row, row, row]), np.array([True, False, True])) for row in rows]


def make_question(name: str, *extra: Answer) -> Question:
    """Four references' worth of answers with unlike words, one a grade, and further candidates."""
    base = [Answer(f"{name}{g}", f"{name} alpha{g} beta{g} gamma{g} delta{g}", g) for g in range(4)]
    return Question(f"{name}?", (*base, *extra))


def make_set() -> QuestionSet:
    """In the question `b`, the poor candidate repeats the best reference's words, and the good one has its own."""
    b = Question(
        "b?",
        (
            *(Answer(f"top{i}", f"the sea is salty since rivers bring salt number {i}", 3) for i in range(2)),
            Answer("two", "waters carry minerals", 2),
            Answer("one", "fish live there", 1),
            *(Answer(f"low{i}", f"the sea is salty since rivers bring pepper {i}", 0) for i in range(2)),
            Answer("own", "weathering dissolves rock", 3),
        ),
    )
    plain = [make_question(n, Answer(f"{n}x", f"{n} omega", 3), Answer(f"{n}y", f"{n} psi chi", 0)) for n in "acdefg"]
    return QuestionSet("sample_trec_dl_nf", (*plain, b), "sample", "0")


def make_lab(judge: object = None, **given: Any) -> Any:
    return SimpleNamespace(embedder=Embedder({}, 8), judge=judge, title=lambda name: name.replace("_", " "), **given)


@pytest.fixture(scope="module")
def case() -> Case:
    return choose_case(make_set(), Embedder({}, 8))


def test_the_case_is_the_pair_on_which_shared_words_mislead_most(case: Case) -> None:
    better, poorer = case.draw.candidates
    assert case.draw.question.text == "b?"
    assert (better.label, poorer.label) == (3, 0)
    assert poorer.id.startswith("low")
    assert case.draw.best.id in ("top0", "top1", "own")
    assert [answer.label for answer in case.draw.references] == [3, 2, 1, 0]
    # the six plain questions have one candidate of grade 3 and one of 0 left, `b` two of 3 and one of 0: 6 + 2
    assert case.n_pairs == 8
    lead = {a.id: score_case(case, Embedder({}, 8))["rouge1"] for a in case.draw.candidates}
    assert all(entry.values[1] > entry.values[0] for entry in lead.values())  # type: ignore[operator]


def test_the_order_of_questions_and_answers_does_not_choose_the_case(case: Case) -> None:
    turned = tuple(Question(q.text, q.answers[::-1]) for q in make_set().questions[::-1])
    again = choose_case(QuestionSet("sample_trec_dl_nf", turned, "sample", "0"), Embedder({}, 8))
    assert again.draw.candidates == case.draw.candidates
    assert again.mark == case.mark


def test_a_wider_gap_of_grades_goes_before_a_wider_lead() -> None:
    narrow = Question(
        "narrow?",
        (
            *(Answer(f"n{g}", f"word{g} other{g}", g) for g in range(4)),
            Answer("n1b", "word3 other3", 1),
            Answer("n0b", "word3 other3", 0),
        ),
    )  # candidates of grade 1 and 0 alone: a gap of 1
    dataset = QuestionSet("sample_trec_dl_nf", (narrow, *make_set().questions), "sample", "0")
    assert choose_case(dataset, Embedder({}, 8)).draw.question.text == "b?"


def test_a_set_without_such_a_pair_is_refused() -> None:
    lone = QuestionSet("sample_trec_dl_nf", (make_question("a"),), "sample", "0")
    with pytest.raises(ValueError, match="sample_trec_dl_nf: no question has a whole list r3210 and two candidates"):
        choose_case(lone, Embedder({}, 8))


def test_every_score_lies_between_0_and_10(case: Case) -> None:
    scores = score_case(case, Embedder({}, 8))
    values = [value for entry in scores.values() for value in entry.values]
    assert all(value is not None and 0 <= value <= 10 for value in values)
    assert scores["human_grade"].values == (10.0, 0.0)  # grades 3 and 0 of 3
    # four references: place 1 is 10 (4 + 1 - 1) / 4 = 10, place 5 is 0, and each place 2.5
    for form in ("zero_shot", "trained"):
        assert set(scores[f"linkage_embedded_{form}_rank"].values) <= {0.0, 2.5, 5.0, 7.5, 10.0}
        # of three candidates in all, each other one put lower is 5, one level with it 2.5
        assert set(scores[f"linkage_embedded_{form}"].values) <= {0.0, 2.5, 5.0, 7.5, 10.0}


def test_the_sketch_counts_what_each_way_reads(case: Case) -> None:
    length = count_words(case)
    references = sum(length[f"reference_{n}"] for n in range(1, 5))
    rows = {(row.system, row.metric): row.value for row in worked_case.make_sketch_rows(case)}
    both = length["question"] + length["candidate_a"]
    assert rows["judging_pointwise", "words_read"] == both
    assert rows["judging_listwise", "words_read"] == both + references
    assert rows["judging_pairwise", "words_read"] == 4 * both + references  # question and candidate again each time
    assert rows["judging_pairwise", "requests"] == 4


@pytest.mark.parametrize("shown", ["sketch", "scores", "details"])
def test_what_is_kept_holds_no_text_of_the_data(shown: Any, case: Case, tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    account = account_for(make_lab(), case, shown)
    result = Result(artefact="linkage/x", rows=tuple(account.rows), findings=tuple(account.findings), provenance={})
    write_result(tmp_path / "x.json", result)  # no two rows of one name
    drawn = [text.get_text() for axes in account.figure.axes for text in axes.texts]
    plt.close(account.figure)
    kept = (tmp_path / "x.json").read_text() + " ".join(drawn)
    texts = [case.draw.question.text, *(a.text for a in case.draw.question.answers)]
    assert not [text for text in texts if text in kept]
    assert {row["origin"] for row in json.loads((tmp_path / "x.json").read_text())["rows"]} == {"sample"}
    shown_texts = show_case(case).to_html()
    assert all(answer.text in shown_texts for answer in case.draw.candidates)


def test_a_texts_markup_is_shown_not_obeyed(case: Case) -> None:
    odd = Answer("odd", "<script>x</script>", 3)
    shown = show_case(replace(case, draw=replace(case.draw, candidates=(odd, odd)))).to_html()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_without_a_language_model_its_methods_are_said_to_be_missing(case: Case) -> None:
    import matplotlib.pyplot as plt

    lab = make_lab()
    assert ask_case(lab, case) == {}
    account = account_for(lab, case, "scores")
    drawn = [text.get_text() for text in account.figure.axes[0].texts]
    plt.close(account.figure)
    assert drawn.count("not run: needs a judge") == 4
    assert not [row for row in account.rows if "judge_" in row.system or row.system.startswith("pairwise")]


def test_a_language_models_verdicts_come_to_the_scale(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib.pyplot as plt

    answers = {"pointwise": [7, 3], "pointwise_ref": [8, np.nan], "pairwise": [0, 0], "listwise": [-2, -5]}
    monkeypatch.setattr(
        worked_case, "judge_draws", lambda draws, method, judge: [SimpleNamespace(scores=np.array(answers[method]))]
    )
    monkeypatch.setattr(worked_case, "find_family", lambda lab: "judge")
    asker = SimpleNamespace(identity="path:tiny@0")
    lab = make_lab(SimpleNamespace(asker=asker, sign=lambda method: f"prompt:own:{method}@0"))
    scores = ask_case(lab, case)
    assert scores["pointwise_judge"].values == (7.0, 3.0)
    assert scores["pointwise_ref_judge"].values == (8.0, None)  # no verdict stays none
    assert scores["pairwise_judge"].values == (5.0, 5.0)  # from [-1, 1]: 5 (0 + 1)
    assert scores["linkage_judge_0_shot"].values == (7.5, 0.0)  # places 2 and 5 of 4 references: 10 (5 - k) / 4
    assert "path:tiny@0" in scores["pairwise_judge"].signature
    told = account_for(lab, case, "scores")
    assert any("As people do" in line and "linkage judge 0 shot (A 7.5, B 0.0)" in line for line in told.findings)
    assert any(line.startswith("Without a verdict: pointwise ref judge (A 8.0, B none)") for line in told.findings)
    assert any(line.startswith("Level") and "pairwise judge (A 5.0, B 5.0)" in line for line in told.findings)
    sketch = account_for(lab, case, "sketch")
    drawn = [text.get_text() for axes in sketch.figure.axes for text in axes.texts]
    assert "A 7.0, B 3.0, of 10" in drawn
    assert "place 2 for A, 5 for B\n(judge role)" in drawn
    plt.close("all")


def test_an_unknown_figure_is_refused(case: Case) -> None:
    with pytest.raises(ValueError, match="figure is 'table'; expected one of sketch, scores, details"):
        account_for(make_lab(), case, "table")  # type: ignore[arg-type]
