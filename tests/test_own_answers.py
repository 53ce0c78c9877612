"""A user's own file: what is refused and where, what is counted; scores, means and shares of wins by hand; the door."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PROJECT, Checkout, copy_project
from test_judging import make_judge
from test_listwise import StubEmbedder
from tiny_models import make_tiny_model

from nfqa.data.own_answers import EXAMPLE, read_own_answers
from nfqa.data.records import QuestionSet
from nfqa.data.registry import UnreachableError
from nfqa.lab.experiments import own_answers as experiment
from nfqa.lab.experiments import own_findings, own_shown
from nfqa.lab.experiments.own_answers import Scores, measure_labels, measure_means, name_systems
from nfqa.lab.results import Row
from nfqa.models.chat import Decoding

EXAMPLE_FILE = PROJECT / "data" / "sample" / EXAMPLE
LINE = {"question": "why?", "references": ["best", "worst"], "answers": ["one", "two"]}
ARTEFACT = "linkage/use_your_own_answers"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A file of lines, each bytes, a text, or an object that becomes JSON."""

    def write_lines(*lines: Any, end: bytes = b"\n") -> Path:
        path = tmp_path / "my.jsonl"
        parts = [part if isinstance(part, bytes) else _dump(part).encode() for part in lines]
        path.write_bytes(b"".join(part + end for part in parts))
        return path

    return write_lines


def _dump(part: Any) -> str:
    return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)


def change(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in (LINE | fields).items() if value is not ...}


def test_the_files_irregularities_are_said(write: Callable[..., Path]) -> None:
    own = read_own_answers(
        write(
            {"question": "what?", "references": [{"text": "poor", "grade": 1}, {"text": "good", "grade": 3}],
             "answers": ["one", "", " "]},
            end=b"\r\n",
        )
    )  # fmt: skip
    said = own_findings.describe_file(own)
    for count, words in ((2, "empty answers, excluded"), (1, "not in order of grade, sorted"), (1, "carriage return")):
        assert f": {count}" in said.partition(words)[2][:20]
    graded = [{"text": "good", "grade": 3}, {"text": "poor", "grade": 0}]
    assert (
        own_findings.describe_file(read_own_answers(write(change(references=graded))))
        == "Read: 2 answers to 1 questions."
    )


def read_two_systems(write: Callable[..., Path]) -> QuestionSet:
    """Three questions by A, B and an answer of no system; the last lacks B; the first two are labelled."""
    a, b = {"system": "A", "text": "a"}, {"system": "B", "text": "b"}
    return read_own_answers(
        write(
            change(question="1", answers=[a | {"label": 3}, b | {"label": 0}, {"text": "c", "label": 1}]),
            change(question="2", answers=[a | {"label": 0}, b | {"label": 3}]),
            change(question="3", answers=[a, "c"]),
        )
    )


def make_scores(*values: list[float], **fields: Any) -> Scores:
    arrays = tuple(np.array(row, dtype=float) for row in values)
    return Scores("rouge1", "s", "nfqa.kernels.rouge:score_rouge_sets", arrays, arrays, **fields)


def test_means_and_shares_of_wins_are_over_questions(write: Callable[..., Path]) -> None:
    own = read_two_systems(write)
    scores = make_scores([8, 2, 5], [4, 4], [6, np.nan], notes=("", "", "no verdict: unreadable"))
    rows = {row.metric: row for row in measure_means(own, [scores], resamples=50)}
    assert rows["mean_ten"].value == pytest.approx((5 + 4 + 6) / 3)  # a question's mean is over what it has
    assert rows["mean_ten_a"].value == pytest.approx((8 + 4 + 6) / 3)
    assert rows["mean_ten_b"].value == pytest.approx((2 + 4) / 2)
    assert (rows["mean_ten_b"].n, rows["mean_ten_b"].n_dropped) == (2, 1)
    assert rows["win_share_a"].value == pytest.approx((1 + 0.5) / 2)  # won, tied, and no rival in the third
    assert rows["win_share_b"].value == pytest.approx((0 + 0.5) / 2)
    assert {row.dataset for row in rows.values()} == {"own_answers"}
    assert {row.origin for row in rows.values()} == {"measured"}


def test_agreement_is_with_labelled_answers_alone(write: Callable[..., Path]) -> None:
    own = read_two_systems(write)
    rows = {row.metric: row for row in measure_labels(own, [make_scores([9, 1, 2], [8, 3], [1, 2])], resamples=50)}
    # labels 3 0 1 and scores 9 1 2 agree fully; labels 0 3 and scores 8 3 disagree fully; the third has no labels
    assert rows["spearman"].value == pytest.approx(0)
    assert (rows["kendall"].n, rows["kendall"].dropped_because) == (2, {"fewer_than_two": 1})


def test_without_labels_there_is_no_agreement_and_one_question_has_no_interval(write: Callable[..., Path]) -> None:
    own = read_own_answers(write(LINE))
    assert measure_labels(own, [make_scores([1, 2], notes=("",))], resamples=50) == []
    (row,) = measure_means(own, [make_scores([1, 2], notes=("",))], resamples=50)
    assert (row.value, row.ci_low, row.ci_high) == (1.5, None, None)


def test_systems_that_would_share_an_identifier_get_their_own(write: Callable[..., Path]) -> None:
    names = ["GPT-4", "gpt 4", "模型", "$"]
    own = read_own_answers(write(change(answers=[{"system": name, "text": "t"} for name in names])))
    assert list(name_systems(own).values()) == ["gpt_4", "gpt_4_2", "system", "system_2"]


class FakeLab:
    """What scoring asks of a lab."""

    def __init__(self, judge: Any = None, training: Any = None) -> None:
        self.judge, self.embedder, self.training = judge, StubEmbedder(), training

    def load(self, name: str) -> Any:
        if isinstance(self.training, Exception):
            raise self.training
        return self.training

    def title(self, system: str) -> str:
        return system


def test_overlap_compares_with_the_best_reference_and_needs_one(write: Callable[..., Path]) -> None:
    graded = [{"text": "x y", "grade": 0}, {"text": "one b", "grade": 3}]
    own = read_own_answers(write(change(references=graded), {"question": "bare?", "answers": ["one"]}))
    metric = experiment.overlap.METRICS["rouge1"]
    scores = experiment._score_metric(own, metric, StubEmbedder())
    # "one" and "one b" share 1 word: precision 1, recall 1/2, F = 2/3; "two" shares none
    assert scores.scores[0] == pytest.approx([2 / 3, 0], abs=1e-6)
    assert scores.tens[0] == pytest.approx([20 / 3, 0], abs=1e-5)
    assert np.isnan(scores.scores[1]).all()
    assert scores.notes == ("", "needs references")


def test_the_embedded_judges_rank_stands_on_the_scale(write: Callable[..., Path]) -> None:
    own = read_own_answers(write(change(references=["best", "fair", "poor", "worst"])))
    (zero_shot, trained) = experiment.score_embedded(FakeLab(training=UnreachableError("antique: gone")), own)
    assert zero_shot.tens[0] == pytest.approx([10 * (4 + 1 - rank) / 4 for rank in zero_shot.ranks[0]])
    assert trained.left_out == "needs antique to be trained on: antique: gone"


def test_the_trained_judge_learns_from_no_question_that_it_scores(write: Callable[..., Path]) -> None:
    from nfqa.data.load import load

    training = load("antique", data="sample", root=PROJECT)
    own = read_own_answers(write(change(question=training.questions[0].text), change(question="new?")))
    lab = FakeLab(training=training)
    trained = experiment.score_embedded(lab, own)[1]
    assert f"trained_on:{len(training.questions) - 1}|" in trained.signature
    own = read_own_answers(write(change(question="new?")))
    assert f"trained_on:{len(training.questions)}|" in experiment.score_embedded(lab, own)[1].signature


def test_without_any_references_what_needs_them_is_left_out(write: Callable[..., Path]) -> None:
    own = read_own_answers(write(change(references=[])))
    left = {s.method: s.left_out for s in (*experiment.score_overlap(own, StubEmbedder()),
                                           *experiment.score_embedded(FakeLab(), own))}  # fmt: skip
    assert set(left.values()) == {"needs references"}
    assert experiment.score_question_cosine(own, StubEmbedder()).left_out == ""


def test_a_language_model_judges_in_four_ways_and_without_references_in_one(write: Callable[..., Path]) -> None:
    own = read_own_answers(write(LINE, {"question": "bare?", "answers": ["three"]}))
    asked = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return "[[2]]" if "[[A]]" not in prompt else "[[C]]"

    lab = FakeLab(make_judge(answer, decoding=Decoding(temperature=0.0)))
    alone, beside, pairs, listed = experiment.score_language(lab, own)
    # 3 answers alone; 2 with references in view; 2 x 2 pairs; 2 in a list
    assert len(asked) == 3 + 2 + 4 + 2
    assert [list(part) for part in alone.tens] == [[2, 2], [2]]
    assert list(beside.tens[0]) == [2, 2]
    assert list(pairs.tens[0]) == [5, 5]  # ties: 0 of -1 to 1
    assert list(listed.ranks[0]) == [2, 2]
    assert list(listed.tens[0]) == [5, 5]  # 10 (2 + 1 - 2) / 2
    for method in (beside, pairs, listed):
        assert np.isnan(method.tens[1]).all()
        assert method.notes[1] == "needs references"


def test_a_verdict_that_could_not_be_had_is_missing_with_its_reason(write: Callable[..., Path]) -> None:
    own = read_own_answers(write(LINE))
    lab = FakeLab(make_judge(lambda prompt: "no idea", decoding=Decoding(temperature=0.0)))
    alone = experiment.score_language(lab, own)[0]
    assert np.isnan(alone.scores[0]).all()
    lines = own_shown.list_scores(own, [alone])
    assert [(line.score, line.ten, line.note) for line in lines] == [(None, None, "no verdict: unreadable")] * 2
    (row,) = measure_means(own, [alone], resamples=50)
    assert (row.value, row.dropped_because) == (None, {"no_verdict:_unreadable": 1})


def test_without_a_judge_its_methods_say_so(write: Callable[..., Path]) -> None:
    own = read_own_answers(write(LINE))
    left = experiment.score_language(FakeLab(), own)
    assert [s.left_out for s in left] == ["needs JUDGE, a language model"] * 4
    assert own_findings._describe_methods(FakeLab(), own, left) == [
        "Not run: pointwise_judge, pointwise_ref_judge, pairwise_judge, linkage_judge_0_shot"
        " (needs JUDGE, a language model)."
    ]


def test_both_files_hold_every_answer_in_full_precision(write: Callable[..., Path], tmp_path: Path) -> None:
    own = read_own_answers(write(change(answers=["one", "best", ""])))
    own_shown.write_scores(tmp_path, own, [make_scores([1 / 3, np.nan], notes=("why",)), Scores("bleu", left_out="x")])
    with (tmp_path / "scores.csv").open(newline="") as handle:
        lines = list(csv.DictReader(handle))
    assert [line["note"] for line in lines] == ["", "why", "excluded: empty answer"]
    assert lines[0] == {
        "question": "line1", "answer": "a1", "system": "", "method": "rouge1", "score": "0.3333333333333333",
        "rank": "", "ten": "0.3333333333333333", "note": "",
    }  # fmt: skip
    content = json.loads((tmp_path / "scores.json").read_text())
    assert content["scores"][0]["score"] == 1 / 3
    assert content["methods"] == {"rouge1": {"signature": "s"}, "bleu": {"left_out": "x"}}
    assert content["irregularities"]["empty_answers"] == 1


def test_a_copy_of_a_reference_is_scored_and_marked(write: Callable[..., Path]) -> None:
    own = read_own_answers(write(change(answers=["best"])))
    assert [line.note for line in own_shown.list_scores(own, [make_scores([1.0])])] == ["copy of a reference"]


def make_share(system: str, share: float, low: float) -> Row:
    return Row(
        system=system, dataset="own_answers", metric="win_share_a", value=share, ci_low=low, ci_high=1.0, n=3,
        signature="s", kernels=("k:k",), origin="measured",
    )  # fmt: skip


def test_the_findings_say_who_wins_and_how_sure_that_is(write: Callable[..., Path]) -> None:
    own = read_two_systems(write)
    rows = [make_share("rouge1", 0.8, 0.6), make_share("bleu", 0.6, 0.4), make_share("bertscore", 0.3, 0.1)]
    said = own_findings._describe_systems(FakeLab(), own, rows)
    assert said == [
        "A wins more than half of its pairs against B under 2 of 3 methods; under 1 the 95 % interval lies above one"
        " half. Its share of wins runs from 0.30 (bertscore) to 0.80 (rouge1).",
        "With 3 questions, intervals over questions come out too narrow to be relied on; have 30 or more.",
    ]


@pytest.mark.parametrize("name", ["$x_1$", "_hidden", "模型", "a" * 99])
def test_the_figure_draws_whatever_a_system_is_called(write: Callable[..., Path], name: str, tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    own = read_own_answers(write(change(answers=[{"system": name, "text": "t"}, "u"])))
    scores = make_scores([1, 2], notes=("",))
    rows = measure_means(own, [scores], resamples=50)
    figure = own_shown.draw_scores(FakeLab(), own, [scores], rows)
    figure.savefig(tmp_path / "f.png")  # a warning of a missing glyph, or a formula that can't be read, would fail
    plt.close(figure)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "my.jsonl: holds no question"),
        (json.dumps(LINE).encode()[:-5], "may have been cut short"),
        (json.dumps(change(answers=[])).encode(), "line 1: answers is empty"),
    ],
)
def test_wrong_input_at_the_door_is_one_line_and_exit_code_2(checkout: Checkout, content: bytes, words: str) -> None:
    (checkout.root / "my.jsonl").write_bytes(content)
    checkout.environment["NFQA_MIRROR"] = "/nowhere"
    done = checkout.run("score", "my.jsonl")
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (checkout.root / "build" / "scores").exists()


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    root = tmp_path_factory.mktemp("own") / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts", "models")
    made = Checkout(root)
    made.environment |= {"DATA": "sample", "PROFILE": "quick", "PYTHONWARNINGS": "ignore"}
    return made


@pytest.mark.slow
def test_a_file_is_scored_from_the_door_with_a_judge(scored: Checkout, tmp_path: Path) -> None:
    judge = make_tiny_model(tmp_path / "tiny", context=4096)
    variables = {"JUDGE": f"path:{judge}", "PROMPTS": "own", "READING": "logits"}
    mine = tmp_path / "mine.jsonl"
    mine.write_bytes(EXAMPLE_FILE.read_bytes())
    done = scored.run("score", str(mine), **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    # 17 alone; 10 with references; 3 x 4, 4 x 4 and 3 x 3 pairs; 10 in a list; 4 on whether they see the dispute
    assert "78 verdicts wanted, 0 in the journal" in done.stdout
    (folder,) = (scored.root / "build" / "scores").iterdir()
    assert folder.name.startswith("mine-judge-")
    assert {file.name for file in folder.iterdir()} == {
        "scores.csv", "scores.json", "use_your_own_answers.ipynb", "use_your_own_answers.json",
        "use_your_own_answers.pdf", "use_your_own_answers.png",
    }  # fmt: skip
    content = json.loads((folder / "scores.json").read_text())
    assert len(content["scores"]) == 17 * 16  # answers by methods
    assert all(line["ten"] is None or -1e-9 <= line["ten"] <= 10 + 1e-9 for line in content["scores"])
    before = (folder / "scores.json").read_bytes()
    assert "all in the journal" in scored.run("score", str(mine), **variables).stdout
    assert (folder / "scores.json").read_bytes() == before


@pytest.mark.slow
def test_as_an_artefact_it_shows_the_example_as_a_sample(scored: Checkout) -> None:
    done = scored.run("run", ARTEFACT)
    assert done.returncode == 0, done.stdout + done.stderr
    result = scored.read(f"build/quick/sample/results/{ARTEFACT}.json")
    assert {row["origin"] for row in result["rows"]} == {"sample"}
    assert "EXAMPLE, which says nothing of any system" in result["findings"][0]
    assert "sample_own_answers" in result["provenance"]["inputs"]

    # Where measured results stand, the example's page is with the samples all the same.
    place = scored.root / "results" / f"{ARTEFACT}.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(result))
    done = scored.run("report", DATA="full", PROFILE="full")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (scored.root / "build" / "site" / "sample" / "pages" / f"{ARTEFACT}.html").is_file()
    assert "<strong>0</strong> numbers measured here" in (scored.root / "build" / "site" / "index.html").read_text()

    example = scored.root / "data" / "sample" / EXAMPLE
    example.write_text(example.read_text().replace("dead", "stale"))
    done = scored.run("status", ARTEFACT)
    assert f"bundled {EXAMPLE} changed" in done.stdout
