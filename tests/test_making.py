"""Making partial answers: every step keeps or counts, a killed run goes on, and `make score` reads what comes out."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT
from tiny_models import LetterEmbedder

from nfqa.files.answers import read_answers
from nfqa.files.readers import read_questions
from reproduction.cli import main
from reproduction.data.own_debates import LARGEST, hash_folder, read_folder
from reproduction.data.page_text import PageReader
from reproduction.debates import pipeline
from reproduction.debates.checking import check_views, read_labels, remove_rejected
from reproduction.making import make_debates
from reproduction.options import RunOptions

SAMPLE = PROJECT / "data" / "sample"


EMBEDDER: Any = LetterEmbedder()
WORDS = "A sentence of some length that says what the page is about, with words enough to be its main text. " * 4
ATTRIBUTES = f"<p {' '.join(f'a{n}=1' for n in range(300_000))}>{WORDS}</p>"  # parsers need the square of their number


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


def write(folder: Path, **files: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_questions_have_an_id_by_line(tmp_path: Path) -> None:
    path = write(tmp_path, q='{"question": "Should  a?"}\n\n{"id": 7, "question": "b?", "partial_answers": []}\n') / "q"
    assert read_questions(path).to_numpy().tolist() == [["q1", "Should a?"], ["7", "b?"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"question": "a?"}\n{"question": "a?"}', "line 2: question is that of line 1"),
        ('{"question": " "}', "line 1: question"),
        ("", "holds no question"),
        ('{"prompt": "a?"}', r"'prompt'; did you mean question\?"),
    ],
)
def test_wrong_questions_are_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_questions(write(tmp_path, q=content) / "q")


def test_each_file_of_a_folder_is_a_document_or_left_out_with_its_reason(tmp_path: Path) -> None:
    page = (
        '<html><head><link rel="canonical" href="https://a.example.org/x"><title>t</title></head><body><article>'
        "<p>A page says in its body that this matters to everybody who lives here and to nobody else at all.</p>"
        "</article></body></html>"
    )
    folder = write(
        tmp_path / "d", a__txt="one", b__txt="", c__txt="one", d__txt="caf\xe9".encode("latin-1"), e__pdf="%PDF",
        f__html=page, g__html="<html><body></body></html>", h__html=b"x" * (LARGEST + 1), i__html=ATTRIBUTES,
        j__jsonl='{"text": "two", "address": "http://10.0.0.1/x", "other": 1}\n{"text": ""}\n'
        + json.dumps({"text": "x" * 1_000_001}),
    )  # fmt: skip
    write(folder / ".git", config="hidden", n__txt="hidden")
    (folder / ".hidden.txt").write_text("hidden")
    (folder / "k").symlink_to(write(tmp_path / "elsewhere", a__txt="elsewhere"))
    (folder / "l.txt").symlink_to(tmp_path / "nothing")
    os.mkfifo(folder / "m.txt")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_text("three")  # a name in another encoding
    documents, left = read_folder(folder, seconds=4.0)
    assert documents.document.tolist() == ["a.txt", "caf\\xe9.txt", "f.html", "j.jsonl#1"]
    assert documents.address.tolist() == ["", "", "https://a.example.org/x", "http://10.0.0.1/x"]
    assert "matters to everybody" in documents.text[2]
    assert dict(zip(left["item"], left.reason, strict=True)) == {
        "b.txt": "no text", "c.txt": "a copy of another's text", "d.txt": "not UTF-8", "e.pdf": "of another kind",
        "g.html": "no text", "h.html": "too large", "i.html": "too slow", "j.jsonl#2": "no text",
        "j.jsonl#3": "too large", "k": "no file", "l.txt": "no file", "m.txt": "no file",
    }  # fmt: skip
    assert len(hash_folder(folder)) == 64


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a__txt", " ", "no text 1"),
        ("j__jsonl", '{"body": "x"}', r"j\.jsonl, line 1"),
        ("j__jsonl", '{"text": "x", "url": "http://a"}', "'url'; did you mean address"),
    ],
)
def test_a_folder_without_documents_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_folder(write(tmp_path, **{name: content}))


def test_a_page_is_read_in_its_encoding_and_a_reader_whose_process_ended_begins_another() -> None:
    reader = PageReader()
    for encoding, charset in (("utf-8", "windows-1252"), ("utf-8", ""), ("windows-1252", "no-such")):
        page = f'<html><head><meta charset="{encoding}"></head><body><article><p>Größe. {WORDS}</p></article></body>'
        assert reader.read(page.encode(encoding), charset)[1] == f"Größe. {WORDS}".strip()
    os.kill(next(iter(reader._pool._processes)), signal.SIGKILL)
    with pytest.raises(ValueError, match="the parser ended"):
        reader.read(b"<p>one</p>")
    assert reader.read(b"two", is_html=False)[1] == "two"
    reader.close()


def test_queries_by_rule_look_for_both_sides() -> None:
    queries = pipeline.expand_questions(frame(id=["a", "b"], question=["Should the zoos close?", "Why?"]))
    assert queries[queries.id == "a"]["query"].tolist() == [
        "Should the zoos close?", "arguments for the zoos close", "arguments against the zoos close",
    ]  # fmt: skip
    assert queries[queries.id == "b"]["query"].str.contains("Why").all()


def test_untrusted_domains_go_and_a_user_s_own_texts_stay() -> None:
    result = frame(id="q", document=["d0", "d1", "d2"], address=["", "https://a.org/x", "https://a.com/x.org"])
    left, dropped = pipeline.keep_trusted(result)
    assert (left.document.tolist(), dropped["item"].tolist()) == (["d0", "d1"], ["q: d2"])
    assert len(pipeline.keep_trusted(result, every=True)[0]) == 3


def test_the_nearest_five_are_kept_and_three_are_needed() -> None:
    scores = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6, "e": 0.5, "f": 0.4, "g": 0.1}
    many = frame(id="q", question="?", document=list(scores), text=list(scores), rank=1)
    few = frame(id="r", question="!", document=["a", "g"], text=["a", "g"], rank=1)
    questions = frame(id=["q", "r", "s"], question=["?", "!", "."])
    nearest, dropped = pipeline.keep_nearest(
        questions, pd.concat([many, few]), lambda pairs: np.array([scores[text] for _, text in pairs])
    )
    assert nearest.document.tolist() == ["a", "b", "c", "d", "e"]
    assert nearest["rank"].tolist() == [1, 2, 3, 4, 5]
    assert dropped.groupby(["unit", "reason"]).size().to_dict() == {
        ("document", "far from the question"): 2,
        ("document", "not among the 5 nearest"): 1,
        ("question", "fewer than 3 documents"): 2,
    }


def test_splits_follow_the_seed_and_have_the_paper_s_share() -> None:
    names = [str(n) for n in range(2941)]
    split = pipeline.split_questions(names)
    assert (split.split == "test").sum() == 1000
    pd.testing.assert_frame_equal(split, pipeline.split_questions(names))


def test_two_labels_against_a_view_remove_it_and_no_name_stays(tmp_path: Path) -> None:
    rows = ["q.1,ann,1", "q.1,bob,1", "q.1,eve,0", "q.2,ann,0", "q.2,bob,0", "q.2,eve,1", "q.3,ann,1"]
    labels = read_labels(write(tmp_path, l="\n".join(["item,annotator,label", *rows])) / "l")
    assert set(labels.annotator) == {1, 2, 3}
    assert "eve" not in labels.to_csv()
    left, dropped = remove_rejected(frame(view=["q.1", "q.2", "q.3"]), labels)
    assert left["view"].tolist() == ["q.1", "q.3"]
    assert dropped.detail.tolist() == ["2 labels against it; 2 remove it"]
    with pytest.raises(ValueError, match="none of 7 labels"):
        remove_rejected(frame(view=["z.1"]), labels)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("item,label\nq.1,1", "line 2: annotator is missing"),
        ("item,annotator,label\nq.1,a,2", "line 2: label is 2; input should be 0 or 1"),
        ("item,annotator,label\nq.1,a,1\nq.1,a,0", "line 3: .* is that of line 2, 'q.1'"),
        ("item,annotator,task,label\nq.1,a,t,1\nq.1,a,t,0", "line 3: .*labels for t is that of line 2, 'q.1'"),
        ("item,annotator,task,label\nq.1,a,t,1\nq.1,a,,0", "line 3: task is ''"),
        ("", "holds no label"),
        (b"item,annotator,label\nq.1,caf\xe9,1", "line 2: byte 0xe9"),
        ("item,annotator,label\nq.1,a,1,1,1,1\n1", "line 2: a cell has no named column"),
    ],
)
def test_wrong_labels_are_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = write(tmp_path, l=content) / "l"
    with pytest.raises(ValueError, match=f"{path}.*{message}"):
        read_labels(path)


def test_labels_of_different_tasks_do_not_add_up() -> None:
    first = frame(item="q.1", annotator=[1, 2, 3], task="addresses", label=[0, 0, 1])
    apart = frame(item="q.2", annotator=[1, 2, 1, 2], task=["addresses"] * 2 + ["supports"] * 2, label=[0, 1, 1, 0])
    left, _ = remove_rejected(frame(view=["q.1", "q.2"]), pd.concat([first, apart]))
    assert left["view"].tolist() == ["q.2"]


def test_what_a_search_does_not_bring_has_a_reason_for_each_document_and_question() -> None:
    def search(queries: Sequence[str]) -> pd.DataFrame:
        if "bad" in queries[0]:
            raise OSError
        missing = ["robots", "", None] if "good" in queries[0] else []
        return frame(
            query=queries[0], document=[f"d{n}" for n, _ in enumerate(missing)], address="http://x.org", rank=1,
            missing=missing, text=[" "] * len(missing),
        ).astype(object)  # fmt: skip

    questions = frame(id=["a", "b", "c"], question=["bad", "good", "else"])
    _, lost = pipeline.search_web(questions, pipeline.expand_questions(questions), search)
    assert lost[["item", "reason", "detail"]].to_numpy().tolist() == [
        ["a", "search failed", "OSError"],
        ["b: d0", "robots", "it came without a text"],
        ["b: d1", "no text", "it came without a text"],
        ["b: d2", "no text", "it came without a text"],
        ["b", "no document found", "3 found, none with a text"],
        ["c", "no document found", "0 found, none with a text"],
    ]


def test_a_point_of_view_is_checked_for_its_likeness_to_others_question_and_explanation() -> None:
    views = frame(
        id="q", question="aaaa", view=[f"q.{n}" for n in range(1, 6)],
        point_of_view=["aaab", "aaab ", "zzzz", "aacc", "aadd"],
        explanation=["aaab.", "aaab.", "zzzz.", "", "zzzz yyyy."],
    )  # fmt: skip
    right, dropped = check_views(views, EMBEDDER)
    assert right[["view", "explanation"]].to_numpy().tolist() == [["q.1", "aaab."], ["q.4", ""], ["q.5", ""]]
    assert dropped[["unit", "item", "reason"]].to_numpy().tolist() == [  # of each the first reason
        ["point of view", "q.2", "duplicate"],
        ["point of view", "q.3", "far from the question"],
        ["explanation", "q.5", "explanation far from it"],
    ]


@pytest.fixture
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of its own: what runs leave under build/ stays apart."""
    for name in ("data", "prompts", "papers", "notebooks"):
        (tmp_path / name).symlink_to(PROJECT / name)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "cache").symlink_to(PROJECT / "build" / "cache")
    (PROJECT / "build" / "cache").mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("NFQA_ROOT", str(tmp_path))
    return tmp_path


ASKED = SAMPLE / "debate_questions.jsonl"
TEXTS = SAMPLE / "debate_documents"


def make(root: Path, **options: Any) -> tuple[int, pd.DataFrame]:
    """A run's exit code and what it removed, nothing of it without a reason."""
    code = make_debates(root, RunOptions(), ASKED, **options)
    (folder,) = (root / "build" / "debates").iterdir()
    removed = pd.read_csv(folder / "removed.csv")
    assert removed.notna().all(axis=None)
    return code, removed


@pytest.mark.slow
def test_the_bundled_questions_become_what_score_reads(own_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["debates", str(ASKED), "--documents", str(TEXTS)]) == 0
    assert "extractive: sentences of the documents" in capsys.readouterr().out
    (folder,) = (own_root / "build" / "debates").iterdir()
    debates = [json.loads(line) for line in (folder / "debates.jsonl").read_text().splitlines()]
    split = [line for name in ("test", "dev") for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    assert sorted(split) == sorted((folder / "debates.jsonl").read_text().splitlines())

    anchors, texts = pd.read_csv(folder / "anchors.csv"), read_folder(TEXTS)[0].set_index("document").text
    assert all(text in texts[name] for name, text in zip(anchors.document, anchors.text, strict=True))
    explained = anchors[anchors.part == "explanation"].groupby("view").text.agg(" ".join)
    explanations = [part["explanation"] for line in debates for part in line["partial_answers"]]
    assert sorted(explained) == sorted(filter(None, explanations))  # what doesn't state its point of view is dropped
    assert 0 < len(explained) < len(explanations)

    funnel, removed = (pd.read_csv(folder / f"{name}.csv") for name in ("funnel", "removed"))
    counts = removed.groupby(["step", "unit"]).size()
    for row in funnel.itertuples():
        assert (row.given - row.kept, row.kept) == (row.dropped, row.given - counts.get((row.step, row.unit), 0))
    assert removed.reason.value_counts()["near-duplicate"] == 1
    assert removed.notna().all(axis=None)

    debates_before = (folder / "debates.jsonl").read_text()
    (folder / "debates.jsonl").write_text("edited")
    assert main(["debates", str(ASKED), "--documents", str(TEXTS)]) == 2
    assert "debates.jsonl: was edited, or is not nfqa's" in capsys.readouterr().err
    assert (folder / "debates.jsonl").read_text() == "edited"
    (folder / "debates.jsonl").write_text(debates_before)

    answers = own_root / "answers.jsonl"
    answers.write_text("".join(json.dumps({"id": line["id"], "generation": "Yes and no."}) + "\n" for line in debates))
    read = read_answers(answers, folder / "debates.jsonl")
    assert [len(q.partial_answers) for q in read.questions] == [len(line["partial_answers"]) for line in debates]


@pytest.mark.slow
def test_a_killed_run_goes_on_after_its_last_step(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reproduction import making

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(making, "check_views", die)
        with pytest.raises(KeyboardInterrupt):
            make_debates(own_root, RunOptions(), ASKED, TEXTS)
    monkeypatch.setattr(pipeline, "search_collection", die)
    monkeypatch.setattr(pipeline, "extract_parts", die)
    assert make_debates(own_root, RunOptions(), ASKED, TEXTS) == 0


@pytest.mark.slow
def test_a_failed_search_ends_the_run_as_failed_with_the_rest_made(
    own_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = read_folder(TEXTS)[0].assign(rank=1)

    def search(queries: Sequence[str]) -> pd.DataFrame:
        if "zoos" in queries[0]:
            raise OSError("no route to host")
        return texts.assign(query=queries[0])

    code, removed = make(own_root, search_with=search)
    assert code == 1
    failed = removed[removed.reason == "search failed"]
    assert failed[["item", "detail"]].to_numpy().tolist() == [["zoos", "no route to host"]]
    (path,) = (own_root / "build" / "debates").glob("*/debates.jsonl")
    made = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    assert made
    assert sorted([*made, *removed[removed.unit == "question"]["item"]]) == sorted(read_questions(ASKED).id)
    assert "no route to host" in capsys.readouterr().err


def test_what_a_run_can_not_use_is_refused(own_root: Path) -> None:
    with pytest.raises(ValueError, match="name a folder of texts"):
        make_debates(own_root, RunOptions(), ASKED)
    with pytest.raises(ValueError, match="EVALUATOR"):
        make_debates(own_root, RunOptions(roles={"evaluator": "embedded:tiny"}), ASKED, TEXTS)
    with pytest.raises(ValueError, match="names 2 models"):
        make_debates(own_root, RunOptions(roles={"generator": "openai:a,openai:b"}), ASKED, TEXTS)


@pytest.mark.slow
def test_labels_that_change_are_read_again_also_as_a_csv_escapes_their_items(
    own_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = write(tmp_path / "q", q='{"id": "@zoos", "question": "Should zoos be closed?"}') / "q"
    rows = [f"'@zoos.{view},{person},1\n" for view in range(1, 6) for person in "ab"]
    labels = write(tmp_path / "l", l="item,annotator,label\n" + "".join(rows)) / "l"
    assert make_debates(own_root, RunOptions(), questions, TEXTS, labels=labels) == 0
    assert re.search(r"fleiss_kappa +NaN +5 items_judged_by:2", capsys.readouterr().out)
    labels.write_text(labels.read_text().replace(",1\n", ",0\n"))
    with pytest.raises(ValueError, match=r"is left \(no point of view left\): give more documents .*GENERATOR="):
        make_debates(own_root, RunOptions(), questions, TEXTS, labels=labels)
    (folder,) = (own_root / "build" / "debates").iterdir()
    removed = pd.read_csv(folder / "removed.csv")
    removed = removed[removed.reason.isin(["rejected by people", "no point of view left"])].tail(2)
    assert removed[["step", "item", "reason"]].to_numpy().tolist() == [
        ["people's labels", "'@zoos.5", "rejected by people"],
        ["left after labels", "'@zoos", "no point of view left"],
    ]
    assert (folder / "debates.jsonl").read_text() == ""


@pytest.mark.slow
def test_a_page_that_timed_out_and_a_domain_that_was_not_trusted_are_asked_for_again(own_root: Path) -> None:
    texts, requests = read_folder(TEXTS)[0].assign(rank=1, address="https://a.example.com", missing="timeout"), []

    def search(queries: Sequence[str]) -> pd.DataFrame:
        requests.append(queries[0])
        first = texts.index == 0
        return texts.assign(query=queries[0], text=texts.text.where(~first | (len(requests) > 9), ""))

    code, removed = make(own_root, search_with=search, every=True)
    assert ((removed.reason == "timeout").sum(), code, len(requests)) == (9, 0, 9)
    assert (make(own_root, search_with=search, every=True)[1].reason != "timeout").all()
    assert len(requests) == 18
    make(own_root, search_with=search, every=True)
    assert len(requests) == 18
    with pytest.raises(ValueError, match="no question"):  # what DOMAINS=all found is not what the trusted ones are
        make(own_root, search_with=search)
    assert len(requests) == 27


@pytest.mark.slow
def test_a_run_without_a_question_left_says_what_to_give_and_leaves_nothing_of_an_earlier_one(own_root: Path) -> None:
    bread = "Loaf {} needs flour, water, salt and a long rest before it is baked."
    texts = read_folder(TEXTS)[0].assign(rank=1)
    assert make(own_root, search_with=lambda queries: texts.assign(query=queries[0]))[0] == 0
    (folder,) = (own_root / "build" / "debates").iterdir()
    for path in folder.glob("steps.sqlite*"):
        path.unlink()
    documents = frame(document=[*"abcd"], address="", text=[bread.format(name) for name in "abcd"], rank=1)
    with pytest.raises(ValueError, match=r"fewer than 3 documents\): give more documents .*DOMAINS=all.*; .*removed"):
        make(own_root, search_with=lambda queries: documents.assign(query=queries[0]))
    removed = pd.read_csv(folder / "removed.csv")
    assert removed.notna().all(axis=None)
    assert set(removed[removed.unit == "question"].detail[1:]) == {"0 of 4 are near enough; 3 needed"}
    assert removed.detail.str.fullmatch(r"cosine -?0\.\d{3}; 0\.3 needed").sum() == 36
    assert (folder / "debates.jsonl").read_text() == ""
    assert not any((folder / f"{name}.jsonl").exists() for name in ("test", "dev"))
