"""The commands that the Makefile calls: reproduce, run, status, check, report, fetch."""

from __future__ import annotations

import argparse
import shlex
import sqlite3
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfqa.data.json_lines import read_json
from nfqa.data.paths import find_place, find_root
from nfqa.data.registry import UnreachableError
from nfqa.interruption import run_command
from nfqa.lab.fingerprint import list_targets
from nfqa.lab.options import RunOptions, read_choice, read_count, read_options

if TYPE_CHECKING:
    import pandas as pd

    from nfqa.data.paths import Place

OWN_ANSWERS = "linkage/use_your_own_answers"
_ROLES = ("evaluator", "judge", "embedder", "prompts")
_BULK = ("methods", *_ROLES, "engine", "workers", "gpus", "shard", "skip_bad", "dry_run")
_Command = Callable[[Path, RunOptions, argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code. Wrong input prints one line and gives 2, an interruption 130."""
    given = _make_parser().parse_args(arguments)
    return run_command(lambda: _run(given))


def _run(given: argparse.Namespace) -> int:
    try:
        if getattr(given, "out", None):
            return _bulk(given)
        root, options = find_root(), RunOptions()
        if given.command is not _verdicts:  # the journal is the same whatever a run is given
            takes = {_debates: ("searcher",), _answers: ("generator",)}.get(given.command, ())
            how = {"makes": given.command is not _report, "scores": given.command is _score}
            options = read_options(root, given.artefacts, takes=takes, **how)
        return int(given.command(root, options, given))
    except (ValueError, OSError, sqlite3.Error, UnreachableError) as error:
        where = isinstance(error, OSError) and error.filename
        print(f"error: {where}: {error.strerror}" if where else f"error: {error}", file=sys.stderr)  # type: ignore[union-attr]
        return 2


def _make_parser() -> argparse.ArgumentParser:
    file = {"file": {"type": Path}}
    pages = {"help": "a folder of .txt, .html or .jsonl files", "type": Path}
    labels = {"help": "a CSV of people's labels: item, annotator, label, maybe task", "type": Path}
    scored: dict[str, dict[str, Any]] = {
        "--questions": {"help": "the questions of answers in the released format", "type": Path},
        "--out": {"help": "a folder: score a file of any size into it, part by part; the rest goes with it"},
        "--methods": {"help": "pd,da,linkage,rouge,bertscore or some of them", "type": lambda text: text.split(",")},
        **{f"--{role}": {"help": "a role, as in nfqa.score"} for role in _ROLES},
        "--engine": {"help": "local, ray or ray:ADDRESS"},
        "--workers": {"help": "of Ray; by default one a core, or GPU", "type": int},
        "--gpus": {"help": "of each worker, such as 0.5", "type": float},
        "--shard": {"help": "lines of a part, 1000 by default", "type": int},
        "--skip-bad": {"help": "leave out lines that don't fit, and list them", "action": "store_true"},
        "--dry-run": {"help": "say what it would take", "action": "store_true"},
    }
    some, named = ({"artefacts": {"nargs": nargs, "metavar": "PAPER/NAME"}} for nargs in ("*", "+"))
    commands: dict[str, tuple[_Command, str, dict[str, dict[str, Any]]]] = {
        "reproduce": (_reproduce, "bring every artefact and the report up to date", some),
        "run": (_reproduce, "bring the named artefacts up to date", named),
        "status": (_status, "say of each artefact whether it is fresh", some),
        "check": (_check, "compare results with the published and the committed ones", {}),
        "claims": (_claims, "say of each claim of the papers whether it holds", {}),
        "figures": (_figures, "draw every figure again from results, without computing anything", some),
        "report": (_report, "build the report site from the results at hand", {}),
        "fetch": (_fetch, "fetch and verify the data", {}),
        "score": (_score, "score the answers of a file: by every method, with a report, or into the folder --out",
                  file | scored),
        "template": (_template, "write a table of answers to fill in", file),
        "answers": (_answers, "let language models answer questions", {
            "--questions": {"help": "a file of {question} lines; by default DebateQA's test split", "type": Path},
            "--folder": {"help": "where a file of each model's answers goes", "type": Path},
        }),
        "debates": (_debates, "make partial answers for a file of questions, from documents",
                    {"--documents": pages, "--labels": labels} | file),
        "verdicts": (_verdicts, "the journal as JSON lines", {"action": {"choices": ("export", "import")}} | file),
    }  # fmt: skip
    parser = argparse.ArgumentParser(prog="nfqa", description="Reproduce papers on judging long answers.")
    parsers = parser.add_subparsers(required=True)
    for name, (command, text, arguments) in commands.items():
        one = parsers.add_parser(name, help=text)
        one.set_defaults(command=command, artefacts=[OWN_ANSWERS] if command is _score else [])
        for argument, how in arguments.items():
            one.add_argument(argument, **how)
    return parser


def _reproduce(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from nfqa.lab.plan import describe_target
    from nfqa.lab.runner import reach_data, run_targets

    jobs = read_count("JOBS", "how many notebooks run at a time") or 2
    targets = list_targets(root, options, given.artefacts)
    problems = reach_data(root, targets) if options.data == "full" else []
    if problems:
        print("\nThe public data can't be reached:", *(f"  - {line}" for line in problems), sep="\n")
        if given.artefacts:
            print("Or run on the small bundled sample with DATA=sample.")
            return 1
        print("Running on the small bundled SAMPLE instead, into results/sample/; it says nothing of a paper.\n")
        options = replace(options, data="sample")
    targets = list_targets(root, options, given.artefacts)  # an optional file may have come
    done, failed = run_targets(root, options, targets, jobs=jobs)
    skipped = [target for target in targets if target.lacks]
    print(*(f"{target.identifier}: {describe_target(target)}\n" for target in skipped), sep="", end="")
    fresh = len(targets) - len(done) - len(failed) - len(skipped)
    print(f"artefacts: {len(done)} run, {fresh} fresh, {len(failed)} failed")
    if failed:
        print("failed: " + ", ".join(failed), file=sys.stderr)
    place = options.find_place(root)
    if done and place.results == root / "results":
        from nfqa.lab.heads import fill_heads

        fill_heads(root)
    if not given.artefacts:
        _report(root, options, given)
        if done or failed:
            from nfqa.lab.check import compare_committed, say_moved

            say_moved(compare_committed(root, place))
    elif not failed:
        _say_made(root, place, given.artefacts)
        if options.variant:
            print("\nits page: `make report` with the same variables")
    return int(bool(failed or {target.identifier for target in skipped} & set(given.artefacts)))


def _say_made(root: Path, place: Place, identifiers: Sequence[str]) -> None:
    """Say of each artefact its main values and where its files are, those that there are."""
    from nfqa.lab.compare import tabulate_values
    from nfqa.lab.papers import find_artefact, read_papers
    from nfqa.lab.values import read_values

    papers = read_papers(root)
    for identifier in identifiers:
        paper, name = find_artefact(papers, identifier)
        values = place.results / f"{identifier}.csv"
        if not values.is_file():
            continue
        size = read_json(values.with_suffix(".json")).get("size")
        said = f"{paper.artefacts[name].label}: {paper.artefacts[name].title}"
        print(f"\n{identifier}, {said}{f' ({size})' if size else ''}")
        print(tabulate_values(paper, name, read_values(values)))
        tables, notebook = place.tables / f"{identifier}.md", place.notebooks / f"{identifier}.ipynb"
        files = (values, place.figures / f"{identifier}.png", tables, notebook)
        print(*(f"  {path.relative_to(root)}" for path in files if path.is_file()), sep="\n")


def _status(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from nfqa.lab.plan import describe_journal, describe_target, plan_targets

    targets = list_targets(root, options, given.artefacts)
    print(
        *(f"{target.identifier:24} {describe_target(target)}" for target in targets), *describe_journal(root), sep="\n"
    )
    stale = [target for target in targets if target.stale]
    if any(target.asks for target in stale):
        print("A run would ask (what two artefacts share is asked once):")
        for line in plan_targets(root, stale, options):
            print(line, flush=True)
    return 0


def _bulk(given: argparse.Namespace) -> int:
    import nfqa

    if given.questions:
        raise ValueError("--questions goes without --out: a large file holds its questions itself")
    chosen = {name: getattr(given, name) for name in _BULK if getattr(given, name) is not None}
    print(nfqa.score(given.file, given.out, **chosen).to_string(index=False, na_rep="–"))
    return 0


def _score(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    alone = ", ".join(f"--{name.replace('_', '-')}" for name in _BULK if getattr(given, name))
    if alone:
        raise ValueError(f"{alone} needs --out, a folder to score the file into; else Make's variables count")
    from nfqa.lab.scoring import score_file

    return score_file(root, options, given.artefacts[0], given.file, given.questions)


def _template(root: Path, _: RunOptions, given: argparse.Namespace) -> int:
    from nfqa.data.own_tables import write_template

    write_template(given.file, root)
    quoted = shlex.quote(str(given.file))
    print(f"{given.file}: an example; put your own rows in it, then `make score ANSWERS={quoted}`")
    return 0


def _answers(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from nfqa.lab.making import make_answers

    return make_answers(root, options, given.questions, given.folder)


def _debates(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from nfqa.debates.web_search import SearXNG, search_pages
    from nfqa.lab.making import make_debates

    every, search = read_choice("DOMAINS", "trusted", "all") == "all", None
    kind, _, url = options.find_role("searcher").partition(":")
    if kind == "searxng":
        if given.documents:
            raise ValueError("DOCUMENTS and SEARCHER are both set; keep the folder or the search")
        cache = root / "build" / "cache"
        search = search_pages(SearXNG(url, cache / "searches.sqlite"), every=every, cache=cache / "pages.sqlite")
    how = {"search_with": search, "labels": given.labels, "every": every}
    return make_debates(root, options, given.file, given.documents, **how)


def _verdicts(root: Path, _: RunOptions, given: argparse.Namespace) -> int:
    from nfqa.data.paths import write_text
    from nfqa.judge.journal import Journal
    from nfqa.lab.judging import find_journal

    path = find_journal(root)
    if str(given.file) == ".":
        raise ValueError(f"no file is named, as in `make {given.action}-verdicts FILE=verdicts.jsonl`")
    if given.action == "export":
        if not path.is_file():
            raise ValueError(f"there is no journal at {path}; no verdict was asked for yet")
        if given.file.is_file() and given.file.read_bytes()[:15] == b"SQLite format 3":
            raise ValueError(f"{given.file} is a database, perhaps the journal itself; name another file to write to")
        lines = [f"{line}\n" for line in Journal(path).export()]
        write_text(given.file, "".join(lines))
        print(f"{len(lines):,} completions written to {given.file}")
        return 0
    with given.file.open(encoding="utf-8", errors="replace") as handle:
        new = Journal(path).import_lines(handle, where=str(given.file))
    print(f"{new:,} new completions imported")
    return 0


def _check(root: Path, options: RunOptions, _: argparse.Namespace) -> int:
    from nfqa.lab.check import check_published, compare_committed, say_moved

    place = options.find_place(root)
    beside = find_place(root, data=options.data) if options.variant and options.profile == "full" else None
    if options.data == "sample":
        wrong = False
        print("the sample says nothing of a paper: compared with the committed results alone")
    else:
        published = check_published(root, place)
        wrong = _say_published(published[published.value.notna()] if beside else published)
    moved = say_moved(compare_committed(root, place, beside))
    return int((moved and not beside) or wrong)  # an override may move what it likes


def _say_published(published: pd.DataFrame) -> bool:
    """Say how results compare with the published ones; True where one is missing, or differs without a reason."""
    from nfqa.lab.compare import VERDICTS

    for row in published[published.verdict != "not run"].itertuples():
        where = f"{row.artefact:18} {row.row:10} {row.dataset:11} {row.heading:16}"
        print(f"{where} published {row.printed:>7}  ours {row.value:>8.4f}  {row.verdict}: {row.why}")
    print("; ".join(f"{verdict}: {(published.verdict == verdict).sum()}" for verdict in VERDICTS))
    wrong = bool(published.verdict.isin(["differs", "missing"]).any())
    if wrong:
        print("a value is missing, or differs without a reason under papers/*.csv", file=sys.stderr)
    return wrong


def _claims(root: Path, options: RunOptions, _: argparse.Namespace) -> int:
    from nfqa.lab.claims import COUNTS, count_claims, judge_claims, write_claim
    from nfqa.lab.papers import read_papers

    place = options.find_place(root)
    if options.data == "sample":
        raise ValueError("the sample says nothing of a paper's claims; use DATA=full")
    papers = dict(reversed(read_papers(root).items()))
    only = read_choice("PAPER", "", *papers)
    papers = {name: paper for name, paper in papers.items() if only in ("", name)}
    judged = {name: judge_claims(paper, place.results) for name, paper in papers.items()}
    for name, claims in judged.items():
        print(f"{name}: {len(claims)} claims\n{count_claims(claims).to_string()}\n{papers[name].verdict}\n")
    print(f"{COUNTS}\n")
    for name, claims in judged.items():
        print(f"{name}\n", *map(write_claim, claims.to_dict("records")), sep="\n", end="\n\n")
    return 0


def _figures(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from tqdm import tqdm

    from nfqa.lab.papers import list_chosen
    from nfqa.lab.replay import redraw_figure

    place, chosen = options.find_place(root), list_chosen(root, given.artefacts)
    drawn = sum(redraw_figure(paper, name, place, options) for paper, name in tqdm(chosen, "figures"))
    print(f"{drawn} figures drawn from results")
    return 0


def _report(root: Path, options: RunOptions, _: argparse.Namespace) -> int:
    from nfqa.lab.site import build_site  # heavy to import

    place = replace(options, data="full").find_place(root)  # a sample run gets a section of its own there
    sample = options.find_place(root) if options.data == "sample" else None
    own = sample or place
    made = sorted(str(path.relative_to(own.results).with_suffix("")) for path in own.results.glob("*/*.csv"))
    if options.variant and not made:
        raise ValueError("nothing was made with these variables yet; run `make PAPER/NAME` with them first")
    index = build_site(place, sample=sample)
    if options.parameters:  # few, and nowhere else to be seen beside each other
        _say_made(root, own, made)
    print(f"report: {index.relative_to(root)}")
    return 0


def _fetch(root: Path, options: RunOptions, _: argparse.Namespace) -> int:
    from nfqa.lab.runner import reach_data

    problems = reach_data(root, list_targets(root, options))
    print(*(problems or ["all data at hand and verified"]), sep="\n")
    return int(bool(problems))
