"""What the papers' methods are compared with: length, clusters of sentences, prompted marks, pairs
of candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.judge.asking import Asker
from nfqa.kernels.parse import CHOICES, Verdict
from nfqa.metrics.coverage import measure_coverage, score_coverage, split_answer
from nfqa.metrics.judging import LanguageJudge, ask_planned, gather_verdicts, mark_answers, read_verdict, trim_text
from nfqa.metrics.references import list_candidates
from nfqa.models.chat import Request
from nfqa.models.embed import Embedder
from nfqa.models.reader import Reader

CLUSTER_DISTANCE = 0.5  # mean cosine distance up to which two groups of sentences are one


def score_baselines(answers: pd.DataFrame, views: pd.DataFrame, embedder: Embedder, reader: Reader) -> pd.DataFrame:
    """The baselines of every answer, higher is more: one row an answer and metric.

    Args: answers: dataset, question, text (NaN where a system gave none), and any columns that name
        the answer; views: dataset, question, view, text (`QuestionSet.views`).
    Returns: the columns of `answers` but text and grade; metric: `length` in words; `coverage` and
        `nearest_sentence`, the mean over the views of `score_coverage` by the reader and by the
        embedder; `sentence_clusters`; score, missing ("no_text" where there is no score) and
        signature.
    """
    texts = answers["text"].fillna("").tolist()
    numbered = answers.assign(row=range(len(answers)))
    by_reader, by_cosine = (score_coverage(numbered, views, model) for model in (reader, embedder))
    names = answers.drop(columns=["text", "grade"], errors="ignore").reset_index(drop=True)
    made = names.assign(
        length=[float(len(text.split())) or np.nan for text in texts],
        coverage=by_reader.groupby("row")["score"].mean().reindex(names.index),
        nearest_sentence=by_cosine.groupby("row")["score"].mean().reindex(names.index),
        sentence_clusters=[count_clusters(text, embedder) for text in texts],
    )
    in_clusters = f"linkage:average|cosine_distance:{CLUSTER_DISTANCE}"
    signatures = {
        "length": "words:split",
        "coverage": next(iter(by_reader.signature), ""),
        "nearest_sentence": next(iter(by_cosine.signature), ""),
        "sentence_clusters": f"{in_clusters}|split:sentencex|embedder:{embedder.spec.identity}",
    }
    scores = made.melt([*names.columns], var_name="metric", value_name="score")
    missing = np.where(scores.score.isna(), "no_text", "")
    return scores.assign(missing=missing, signature=scores.metric.map(signatures))


def measure_each(answers: Sequence[str], perspectives: Sequence[str], embedder: Embedder) -> NDArray[np.float64]:
    """The coverage of each perspective by the answer beside it, as `measure_coverage`; all are
    embedded at once.
    """
    sentences = [sentence for answer in answers for sentence in split_answer(answer)]
    embedder.prepare([*perspectives, *sentences], tokens=False)
    pairs = zip(answers, perspectives, strict=True)
    return np.array([measure_coverage(answer, [perspective], embedder)[0] for answer, perspective in pairs])


def count_clusters(answer: str, embedder: Embedder) -> float:
    """The number of clusters of an answer's sentences: two are merged while their mean cosine
    distance is small.

    Returns: the number of groups, from 1 to the number of sentences; NaN for an answer without a
        sentence. Two groups are one where 1 - cosine, averaged over their pairs, is below
        CLUSTER_DISTANCE.
    Source: average-linkage clustering of scikit-learn; an embedded proxy for counting points of
        view.
    """
    from sklearn.cluster import AgglomerativeClustering

    sentences = list(dict.fromkeys(split_answer(answer)))
    if len(sentences) < 2:
        return float(len(sentences)) or float("nan")
    vectors = embedder.embed_sentences(sentences)
    distances = np.clip(1 - vectors @ vectors.T, 0, 2)
    made = AgglomerativeClustering(
        n_clusters=None, metric="precomputed", linkage="average", distance_threshold=CLUSTER_DISTANCE
    ).fit(distances)
    return float(made.n_clusters_)


Baseline = Literal["direct_score", "g_eval", "count_povs", "delphi_comprehensiveness", "delphi_acknowledgement"]


BASELINES: tuple[Baseline, ...] = get_args(Baseline)


def judge_answers(
    answers: pd.DataFrame,
    questions: Mapping[str, str],
    judge: LanguageJudge | None,
    *,
    named: str = "judge",
    writer: Asker | None = None,
) -> pd.DataFrame:
    """A language model's marks of every answer: one row an answer and baseline, as `mark_baseline`
    has them.

    Args: answers: dataset, question, text (NaN where a system gave none), and any columns that name
        the answer; questions: their texts by the column `question`; judge: None where no language
        model fills the role, for an empty frame; named: what the column `judge` calls it; writer:
        as `mark_baseline`.
    Returns: the columns of `answers` but text and grade; metric (the baseline), judge, score,
        missing (why there is no score), verdicts (wanted), unreadable, mass and signature, as
        `judge_by_language_model`.
    """
    if judge is None or answers.empty:
        return pd.DataFrame()
    texts = answers["text"].fillna("")
    pairs = [(questions[name], text) for name, text in zip(answers["question"], texts, strict=True)]
    names = answers.drop(columns=["text", "grade"], errors="ignore").reset_index(drop=True)
    frames = [
        names.assign(metric=baseline, judge=named).join(mark_baseline(pairs, baseline, judge, writer=writer))
        for baseline in BASELINES
    ]
    return pd.concat(frames, ignore_index=True)


def mark_baseline(
    pairs: Sequence[tuple[str, str]], baseline: Baseline, judge: LanguageJudge, *, writer: Asker | None = None
) -> pd.DataFrame:
    """The judge's marks of answers by one prompted baseline.

    direct_score: a mark from 1 to 5. g_eval: a mark from 1 to 5, after steps of examination that
    the model wrote first, once for all answers; read from logits it is the expected mark, sum of
    p_i i, as G-Eval has it. count_povs: the number of points of view, 0 to 20.
    delphi_comprehensiveness and delphi_acknowledgement: 1 for an answer that shows opposing views,
    and for one that admits the dispute, else 0.

    Args: pairs: (question, answer); judge: whose prompts have templates of these names, as
        prompts/own; writer: who writes g_eval's steps, by default the judge, which can't where it
        is read from logits.
    Returns: as `mark_answers`.
    Raises: ValueError for g_eval from logits without a writer.
    Source: DebateQA, section B.1.2; Liu et al. (2023) for G-Eval; Sun et al. (2023) for DELPHI's
        two. Differs from: them, in the words of the prompts; G-Eval's weighting needs logits, and
        is a single mark where they are not read.
    """
    if baseline != "g_eval":
        return mark_answers(pairs, baseline, judge)
    writer = writer or judge.asker
    if writer.decoding.reading != "text":
        raise ValueError("g_eval needs a writer for its steps: one that is read from logits writes no text")
    (steps,) = writer.write([judge.prompts.get("g_eval_steps").text], seed=judge.seed)
    steps = steps or ("1. Give the mark." if writer.dry else "")  # a plan counts the marks that the steps lead to
    marks = mark_answers(pairs, baseline, judge, steps=steps)
    return marks.assign(signature=f"judge:{judge.asker.identity}|{judge.sign('g_eval_steps', baseline)}")


PAPER_ENCODER = "bert-base-uncased"  # whose [CLS] vectors LINKAGE's released code compares


def name_as_published(scores: pd.DataFrame, embedder: Embedder) -> pd.DataFrame:
    """Scores under the paper's names: with its own encoder, what it calls BERTScore is the cosine
    of [CLS] vectors.

    Args: scores: as `score_overlap` gives them, of bertscore and cls_cosine among others.
    Returns: as given where the embedder is another. With PAPER_ENCODER the rows of cls_cosine stand
        under bertscore as well, in the place of BERTScore proper, and the signature of both names
        the encoder.
    Source: LINKAGE's released code; `score_cls_cosine`.
    """
    if Path(embedder.spec.name).name != PAPER_ENCODER:
        return scores
    signature = scores.signature.mask(scores.metric == "cls_cosine", scores.signature + f"|encoder:{PAPER_ENCODER}")
    scores = scores.assign(signature=signature)[scores.metric != "bertscore"]
    return pd.concat([scores, scores[scores.metric == "cls_cosine"].assign(metric="bertscore")], ignore_index=True)


def judge_candidates(draws: pd.DataFrame, judge: LanguageJudge | None, *, named: str = "judge") -> pd.DataFrame:
    """A language model's comparisons of every two candidates of a draw, as each candidate's share
    of wins.

    Score = (1 + mean of f) / 2, from 0 to 1, over the comparisons with every other candidate, each
    asked for in both orders, so that n candidates take n (n - 1) requests; f is 1 for a win, -1 for
    a loss and 0 for a tie, or from logits what is expected of it. One that can't be read counts for
    neither candidate.

    Args, Returns: as `judge_by_language_model`, with the metric "pairwise_candidates". A verdict
        is counted at both of its candidates; an only candidate is missing as "fewer_than_two".
    Source: LINKAGE, equation 2. Differs from: it, in that the sum of f is put on a scale from 0 to
        1 by the number of comparisons read, and that both orders are asked for, where it names
        none.
    """
    if judge is None or draws.empty:
        return pd.DataFrame()
    rows = list_candidates(draws.assign(place=range(len(draws))), texts=True)
    rows = rows.loc[rows.missing == "", ["place", "answer", "text"]]
    pairs = rows.merge(rows, on="place", suffixes=("_a", "_b")).query("answer_a != answer_b").reset_index(drop=True)
    texts = {text: trim_text(text, judge) for text in pd.concat([pairs.text_a, pairs.text_b]).unique()}
    planned: list[Request | Verdict] = []
    for place, a, b in zip(pairs.place, pairs.text_a.map(texts), pairs.text_b.map(texts), strict=True):
        question = draws.draw.iloc[place].question
        prompt = judge.prompts.render("pairwise", question=trim_text(question.text, judge), answer_a=a, answer_b=b)
        request = Request(prompt, judge.seed, tuple(CHOICES), f"pairwise|{question.key}")
        planned.append(request if a.strip() and b.strip() else Verdict(None, "no_text"))
    read = partial(read_verdict, pick=judge.prompts.get("pairwise").pick)
    first = pairs[["place"]].assign(answer=pairs.answer_a).join(ask_planned(planned, judge, read))
    second = first.assign(answer=pairs.answer_b, value=-first.value)
    verdicts = pd.concat([first, second]).rename(columns={"place": "draw"})
    signature = f"judge:{judge.asker.identity}|method:pairwise_candidates|{judge.sign('pairwise')}|order:both"
    rows = gather_verdicts(draws, verdicts, signature, metric="pairwise_candidates", judge=named, shots=np.nan)
    return rows.assign(score=(1 + rows.score) / 2)
