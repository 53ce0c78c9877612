"""The embedded listwise judge: features, scores and ranks by hand over made-up vectors, and what fitting may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tiny_models import VectorEmbedder

from nfqa.files.records import Answer, Question, QuestionSet
from nfqa.metrics.listwise import (
    FEATURES,
    Scorer,
    describe_draw,
    judge_by_vectors,
    judge_draw,
    make_zero_shot,
    read_trained,
)
from nfqa.metrics.references import Draw
from reproduction.studies.drawing import draw_references
from reproduction.studies.listwise_training import (
    find_fold,
    fit_apart,
    make_training_rows,
    open_scorers,
)

LIST = (3, 2, 1, 0)


# In the plane, with the 3-4-5 triangle for exact cosines. The question points along (1, 0).
VECTORS = {"q": (1, 0), "A": (0.8, 0.6), "B b": (1, 0), "C": (0.6, 0.8), "D d d": (0, 1), "X one two": (0.6, 0.8)}
REFERENCES = (Answer("A", "A", 3), Answer("B", "B b", 2), Answer("C", "C", 1), Answer("D", "D d d", 0))
X = Answer("X", "X one two", 1)


def make_draw(references: Sequence[Answer] = REFERENCES, candidates: Sequence[Answer] = (X,)) -> Draw:
    return Draw(Question("q", (*references, *candidates)), tuple(references), tuple(candidates))


def make_questions(count: int, answers: int = 10) -> list[Question]:
    rng = np.random.default_rng(0)
    return [
        Question(
            f"q{i}", tuple(Answer(f"{j}", f"answer {j} to {i}", int(rng.integers(4))) for j in range(answers))
        )
        for i in range(count)
    ]  # fmt: skip


def test_a_reference_is_described_against_the_rest_of_its_list():
    #    to q  good                      poor                       beaten of the other three   words
    # A: 0.8   B: 0.8                    C 0.96, D 0.6: 0.78        C, D: 2/3                   1
    # B: 1     A: 0.8                    C 0.6, D 0: 0.3            A, C, D: 1                  2
    # C: 0.6   A 0.96, B 0.6: 0.78       D: 0.8                     D: 1/3                      1
    # D: 0     A 0.6, B 0: 0.3           C: 0.8                     none: 0                     3
    references, _ = describe_draw(make_draw(), VectorEmbedder(VECTORS))
    expected = [
        [0.8, 0.8, 0.78, 2 / 3, np.log(2)],
        [1.0, 0.8, 0.3, 1.0, np.log(3)],
        [0.6, 0.78, 0.8, 1 / 3, np.log(2)],
        [0.0, 0.3, 0.8, 0.0, np.log(4)],
    ]
    np.testing.assert_allclose(references, expected, atol=1e-6)


def test_features_score_and_rank_of_a_candidate_equal_hand_arithmetic():
    # X = (0.6, 0.8): cosine to q 0.6; to A 0.48 + 0.48 = 0.96, to B 0.6, to C 1, to D 0.8
    # good (grade 2 or more): A, B: (0.96 + 0.6) / 2 = 0.78;  poor: C, D: (1 + 0.8) / 2 = 0.9
    # cosines of references to q: 0.8, 1, 0.6, 0; strictly below 0.6: D alone: 1/4;  3 words: log(1 + 3)
    _, candidates = describe_draw(make_draw(), VectorEmbedder(VECTORS))
    np.testing.assert_allclose(candidates, [[0.6, 0.78, 0.9, 0.25, np.log(4)]], atol=1e-6)
    # cos_question + 2 mean_good - mean_poor
    # X 0.6 + 1.56 - 0.9 = 1.26;  A 0.8 + 1.6 - 0.78 = 1.62;  B 1 + 1.6 - 0.3 = 2.3;  C 0.6 + 1.56 - 0.8 = 1.36;
    # D 0 + 0.6 - 0.8 = -0.2: A, B and C are higher than X, which is fourth
    scores, ranks = judge_draw(make_draw(), make_zero_shot(), VectorEmbedder(VECTORS))
    assert (scores.tolist(), ranks.tolist()) == ([pytest.approx(1.26)], [4])


def test_rank_is_one_more_than_the_references_above_and_ties_go_to_the_candidate():
    # by cosine to the question alone, references 0.8, 1, 0.6, 0: "B b" ties with the highest, "low" is below all
    texts = {"B b": (1, 1), "A": (0.8, 2), "C": (0.6, 3), "low": (-1, 5)}
    candidates = tuple(Answer(text, text, 0) for text in texts)
    embedder = VectorEmbedder({**VECTORS, "low": (-1, 0)})
    scores, ranks = judge_draw(make_draw(candidates=candidates), Scorer("cosine", np.eye(5)[0], 0), embedder)
    assert list(zip(scores, ranks, strict=True)) == [pytest.approx(pair) for pair in texts.values()]


def test_a_list_without_poor_or_without_good_references_uses_all_of_them_instead():
    # good only (A, B): poor stands for both as well: (0.96 + 0.6) / 2; A's rest is B alone: 0.8 in both places
    references, candidates = describe_draw(make_draw(REFERENCES[:2]), VectorEmbedder(VECTORS))
    np.testing.assert_allclose(candidates[0, 1:3], [0.78, 0.78], atol=1e-6)
    np.testing.assert_allclose(references[0, 1:3], [0.8, 0.8], atol=1e-6)
    # poor only (C, D): good stands for both: (1 + 0.8) / 2
    _, candidates = describe_draw(make_draw(REFERENCES[2:]), VectorEmbedder(VECTORS))
    np.testing.assert_allclose(candidates[0, 1:3], [0.9, 0.9], atol=1e-6)
    # A, C, D: A is the only good one, so A itself is told apart from the rest of its list: C 0.96, D 0.6
    references, _ = describe_draw(make_draw((REFERENCES[0], *REFERENCES[2:])), VectorEmbedder(VECTORS))
    np.testing.assert_allclose(references[0, 1:3], [0.78, 0.78], atol=1e-6)


@pytest.mark.parametrize("size", [6, 384])
def test_equal_texts_get_equal_scores_and_ranks(size):
    answers = make_questions(1, answers=30)[0].answers
    for count, copies in product((1, 2, 7), (2, 5, 11)):
        twins = [Answer(str(i), "twin", i % 4) for i in range(copies)]
        scores, ranks = judge_draw(make_draw(answers[:count], twins), make_zero_shot(), VectorEmbedder({}, size))
        assert len(set(scores.tolist())) == len(set(ranks.tolist())) == 1


def test_a_draw_without_candidates_gives_no_verdicts_and_one_without_references_is_refused():
    scores, ranks = judge_draw(make_draw(candidates=()), make_zero_shot(), VectorEmbedder(VECTORS))
    assert scores.shape == ranks.shape == (0,)
    with pytest.raises(ValueError, match="question 'q' has no references to rank among"):
        judge_draw(make_draw(references=()), make_zero_shot(), VectorEmbedder(VECTORS))


def make_set(name: str, questions: Sequence[Question]) -> QuestionSet:
    return QuestionSet(name, tuple(questions), "sample", "0")


def train(training: QuestionSet, dataset: QuestionSet, composition: Sequence[int]) -> dict:
    rows = [(question, make_training_rows(question, composition, VectorEmbedder())) for question in training.questions]
    return fit_apart(rows, dataset)


def test_a_question_s_scorer_never_saw_its_fold():
    questions = make_questions(25)
    before = train(make_set("antique", questions), make_set("antique", questions), LIST)
    changed = 7
    answers = tuple(replace(answer, label=3 - answer.label) for answer in questions[changed].answers)
    others = [*questions[:changed], replace(questions[changed], answers=answers), *questions[changed + 1 :]]
    after = train(make_set("antique", others), make_set("antique", questions), LIST)
    for question in questions:
        old, new = before["antique", question.text], after["antique", question.text]
        same_fold = find_fold(question) == find_fold(questions[changed])
        assert (old.weights == new.weights).all() == same_fold
        assert old.trained_on == sum(find_fold(other) != find_fold(question) for other in questions)


OTHERS = make_set("trec_dl_nf", [replace(q, text=f"other {q.text}") for q in make_questions(5)])


def test_the_reference_that_is_near_gives_the_grade_of_a_candidate():
    # X = (0.6, 0.8): cosine to A .96, B .6, C 1, D .8, of grades 3, 2, 1, 0
    _, candidates = describe_draw(make_draw(), VectorEmbedder(VECTORS), kernel=True)
    for column, temperature in zip(candidates[0, len(FEATURES) :], (0.05, 0.1, 0.2), strict=True):
        weights = np.exp(np.array([0.96, 0.6, 1.0, 0.8]) / temperature)
        assert column == pytest.approx(weights @ [3, 2, 1, 0] / weights.sum(), rel=1e-6)


def test_a_trained_scorer_reads_vectors_of_the_adapter_that_has_not_seen_its_fold():
    class Tuning(VectorEmbedder):
        can_tune = True
        used: list[str] = []  # noqa: RUF012

        def prepare(self, texts: Sequence[str], *, tokens: bool) -> None:
            assert texts
            assert not tokens

        def tune(self, adapter: str) -> VectorEmbedder:
            self.used.append(adapter)
            return self

    antique, embedder = make_set("antique", make_questions(20)), Tuning()
    zero_shot, scorers = open_scorers([antique, OTHERS], embedder)
    assert zero_shot.name == "zero_shot"
    for question in antique.questions:
        scorer = scorers[antique.name, question.text]
        assert scorer.adapter == f"without_fold_{find_fold(question)}"
        np.testing.assert_array_equal(scorer.weights, read_trained(embedder, find_fold(question)).weights)
    assert {scorers[OTHERS.name, question.text].adapter for question in OTHERS.questions} == {"all"}
    assert {len(scorer.weights) for scorer in scorers.values()} == {8}
    judged = judge_by_vectors(draw_references([antique], seeds=[0]), scorers, embedder)
    assert {*embedder.used} - {""} == {scorers[antique.name, question.text].adapter for question in antique.questions}
    assert set(judged.training) == {"trained"}
    plain = read_trained(VectorEmbedder())  # another embedder than the packaged one
    assert (plain.adapter, plain.trained_on) == ("", read_trained(embedder).trained_on)
    judged = judge_by_vectors(draw_references([OTHERS], seeds=[0]), plain, VectorEmbedder())
    assert judged.signature.str.contains(r"\|adapters:none\|").all()
