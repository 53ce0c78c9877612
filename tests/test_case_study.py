"""Case studies: sentences taken out in turn, and which of them carries a point of view."""

from __future__ import annotations

import pandas as pd

from nfqa.metrics.case_study import find_carriers, remove_sentences
from nfqa.models.evaluator import Evaluator
from nfqa.models.roles import parse_role

ANSWER = "Cats sleep for most of the day. The tram to the harbour is cheap. Rain is likely in autumn."


ANSWERS = pd.DataFrame([{"dataset": "d", "question": "q", "answer": "a", "text": ANSWER}])


def test_the_sentence_that_says_it_carries_a_point_of_view():
    views = pd.DataFrame({"dataset": "d", "question": "q", "view": [1, 2], "text": ANSWER.split(". ")[:2]})
    evaluator = Evaluator(parse_role("evaluator", "embedded:tiny"))
    without = remove_sentences(ANSWERS)
    assert without.text[1] == "Cats sleep for most of the day. Rain is likely in autumn."
    found = find_carriers(ANSWERS, views, evaluator)
    assert found.set_index("view").place.to_dict() == {1: 1, 2: 2}
    assert (found.loss > 0).all()
