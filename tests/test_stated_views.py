"""AUROC of measures of whether a passage states a point of view: inside of strata, and pairs of wordings."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd

from reproduction.studies.decisions import resample_auroc
from reproduction.studies.stated_views import draw_wordings, keep_apart, pair_wordings

RANDOM = np.random.default_rng(3)


def test_inside_of_strata_what_differs_between_them_does_not_count():
    labels, groups = [1, 0, 1, 0], list("aabb")
    scores = [2, 1, 102, 101]  # each stratum in order, but b's negative is above a's positive
    assert resample_auroc(labels, scores, groups, resamples=1)[0] == 0.75
    assert resample_auroc(labels, scores, groups, strata=groups, resamples=1)[0] == 1


def test_measures_are_resampled_alike_so_that_equal_ones_differ_by_nothing():
    questions, labels, scores = np.repeat(list("abcde"), 6), np.tile([1, 0, 0], 10), RANDOM.normal(size=30)
    for strata in (questions, None):
        one, other = (resample_auroc(labels, x, questions, strata=strata, resamples=30) for x in (scores, 2 * scores))
        assert (one == other).all()


WORDINGS = pd.DataFrame({"wording": range(1, 8), "text": ["a1", "a2", "a3", "b1", "a1", "c1", "c2"]})


def make_claims(*views: list) -> pd.DataFrame:
    return pd.DataFrame({"dataset": "set", "question": [f"Q{n}" for n in range(len(views))], "views": list(views)})


def test_a_claim_gives_an_answer_a_view_in_other_words_and_another_view():
    claims = make_claims([("SUPPORT", [1, 2, 3]), ("UNDERMINE", [4])], [("SUPPORT", [1, 5]), ("SUPPORT", [4])])
    for seed in range(9):
        stated, other_view, other_answer = pair_wordings(claims, WORDINGS, seed=seed).itertuples(index=False)
        assert {stated.text, stated.point_of_view} < {"a1", "a2", "a3"}
        assert stated.text != stated.point_of_view
        assert (other_view.text, other_view.point_of_view) == (stated.text, "b1")
        assert (other_answer.text, other_answer.point_of_view) == ("b1", stated.point_of_view)
        rows = (stated, other_view, other_answer)
        assert [(row.question, row.stance, row.stated, row.changed) for row in rows] == [
            ("Q0", "opposite", True, ""), ("Q0", "opposite", False, "view"), ("Q0", "opposite", False, "answer"),
        ]  # fmt: skip


def test_draws_depend_on_the_claim_and_the_seed_alone():
    views = [("SUPPORT", [1, 2, 3]), ("UNDERMINE", [6, 7]), ("SUPPORT", [4])]
    claims = make_claims(*[views] * 8)
    pairs = pair_wordings(claims, WORDINGS, seed=1)
    pd.testing.assert_frame_equal(pairs, pair_wordings(claims[::-1], WORDINGS[::-1], seed=1))
    alone = pair_wordings(claims[3:4], WORDINGS, seed=1)
    pd.testing.assert_frame_equal(alone, pairs[pairs.question == "Q3"].reset_index(drop=True))
    assert set(pairs.stance) == {"same", "opposite"}
    assert not pairs.equals(pair_wordings(claims, WORDINGS, seed=2))


def make_debates(count: int = 6) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Claims of two topics in turn, each with a view in two wordings and one more of each stance."""
    texts = [f"{'word ' * (1 + (n + place) % 4)}{n}-{place}" for n in range(count) for place in range(4)]
    ids = [range(4 * n + 1, 4 * n + 5) for n in range(count)]
    views = [[("SUPPORT", [a, b]), ("SUPPORT", [c]), ("UNDERMINE", [d])] for a, b, c, d in ids]
    claims = make_claims(*views).assign(topics=["law", "law sport", "art"] * (count // 3))
    return claims, pd.DataFrame({"wording": range(1, len(texts) + 1), "text": texts})


def test_each_text_on_a_claim_gets_an_unrelated_one_of_its_length_from_another_topic():
    claims, wordings = make_debates()
    draws = draw_wordings(claims, wordings)
    assert set(draws.question) == set(claims.question)
    for question, draw in zip(draws.question, draws.draw, strict=True):
        number = int(question[1:])
        texts = {one.id: one.text for one in (*draw.references, *draw.candidates)}
        assert [one.label for one in draw.references] == [3, 0]
        assert [one.id for one in draw.candidates[:3]] == ["paraphrase", "opposite_stance", "same_stance"]
        assert {texts["reference"], texts["paraphrase"]} == {*wordings.text[4 * number : 4 * number + 2]}
        assert (texts["same_stance"], texts["opposite_stance"]) == (*wordings.text[4 * number + 2 : 4 * number + 4],)
        for name in ("reference", "paraphrase", "same_stance", "opposite_stance"):
            unrelated = texts[f"{name}_unrelated"]
            assert len(unrelated.split()) == len(texts[name].split())
            topics = [claims.topics[int(q)].split() for q in {unrelated.split()[-1].partition("-")[0], str(number)}]
            assert len(topics) == 2
            assert not {*topics[0]} & {*topics[1]}


def test_claims_that_stay_share_no_wording_whatever_their_order():
    wordings = pd.DataFrame({"wording": [1, 2, 3, 4], "text": ["one", "two", "three", "three"]})  # 3 and 4 are alike
    views = [[("s", [1, 2])], [("s", [2]), ("o", [3])], [("o", [4])], [("s", [3])]]
    for names in permutations("abcd"):  # whose hashes are the order
        claims = pd.DataFrame({"question": names, "views": views})
        assert set(keep_apart(claims, wordings).index) in ({0, 2}, {0, 3}, {1})
    assert len(keep_apart(claims.iloc[[0, 2]], wordings)) == 2
