"""The commands of a checkout, which the Makefile calls: reproduce, run, status, check, report, fetch."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfqa import cli
from nfqa.files.json_lines import read_json
from nfqa.files.paths import Place, find_root
from reproduction.data.registry import UnreachableError
from reproduction.keys import list_targets
from reproduction.options import RunOptions, read_choice, read_count, read_options

if TYPE_CHECKING:
    import pandas as pd

OWN_ANSWERS = "linkage/use_your_own_answers"
_NOT_SCORED_BY = ("DATA", "PROFILE", "PARAMS", "SEEDS", "READING", "DECODING", "WRAPPING", "GENERATOR", "RERANKER")
_Installed = Callable[[argparse.Namespace], int]
_Command = Callable[[Path, RunOptions, argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of the checkout, or an installed one; returns its exit code."""
    try:
        commands = list_commands(find_root())
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return cli.main(arguments, commands)


def list_commands(root: Path) -> dict[str, Any]:
    """The commands of a checkout, and the installed ones; `score` makes a report too.

    Returns: by name what is called with the parsed arguments, the help, and the arguments.
    """
    installed: dict[str, Any] = dict(cli.list_commands())
    file = {"file": {"type": Path}}
    pages = {"help": "a folder of .txt, .html or .jsonl files", "type": Path}
    labels = {"help": "a CSV of people's labels: item, annotator, label, maybe task", "type": Path}
    some, named = ({"artefacts": {"nargs": nargs, "metavar": "PAPER/NAME"}} for nargs in ("*", "+"))
    commands: dict[str, tuple[_Command, str, dict[str, dict[str, Any]]]] = {
        "reproduce": (_reproduce, "bring every artefact and the report up to date", some),
        "run": (_reproduce, "bring the named artefacts up to date", named),
        "make": (_make, "run the notebook of an artefact whose key is written, as its rule in the Makefile does",
                 {"work": {"help": "the folder of its kind of run, as build"}, "artefact": {"metavar": "PAPER/NAME"}}),
        "status": (_status, "say of each artefact whether it is fresh", some),
        "check": (_check, "compare results with the published and the committed ones", {}),
        "accept": (_accept, "copy what was made here into results/ and figures/: what moved, or what is named", some),
        "claims": (_claims, "say of each claim of the papers whether it holds", {}),
        "figures": (_figures, "draw every figure again from results, without computing anything", some),
        "spot-check": (_spot_check, "compute a random few of the committed verdicts and losses anew", some),
        "report": (_report, "build the report site from the results at hand", {}),
        "fetch": (_fetch, "fetch and verify the data", {}),
        "answers": (_answers, "let language models answer questions", {
            "--questions": {"help": "a file of {question} lines; by default DebateQA's test split", "type": Path},
            "--folder": {"help": "where a file of each model's answers goes", "type": Path},
        }),
        "debates": (_debates, "make partial answers for a file of questions, from documents",
                    {"--documents": pages, "--labels": labels} | file),
        "verdicts": (_verdicts, "the journal as Parquet, and another one merged into it; losses as Parquet", {
            "action": {"choices": ("export", "import", "losses")}, **file,
            "--model": {"help": "for export: the beginning of the identity of the models to write", "default": ""},
        }),
    }  # fmt: skip
    score, _, arguments = installed["score"]
    offered: dict[str, Any] = {
        name: (partial(_run, root, command), *rest) for name, (command, *rest) in commands.items()
    }
    text = "score the answers of a file, with a report"
    offered |= installed | {"score": (partial(_score, root, score), text, arguments)}
    return {name: (partial(_guard, command), *rest) for name, (command, *rest) in offered.items()}


def _guard(command: _Installed, given: argparse.Namespace) -> int:
    try:
        return command(given)
    except UnreachableError as error:
        raise ValueError(str(error)) from None


def _run(root: Path, command: _Command, given: argparse.Namespace) -> int:
    """Run a command with Make's variables, checked."""
    options = RunOptions()
    given.artefacts = getattr(given, "artefacts", [])
    if command not in (_verdicts, _make):  # the journal is the same whatever a run is given; a key holds all it was
        takes: dict[_Command, tuple[str, ...]] = {_debates: ("searcher",), _answers: ("generator",)}
        options = read_options(root, given.artefacts, takes=takes.get(command, ()), makes=command is not _report)
    return command(root, options, given)


def _score(root: Path, score: _Installed, given: argparse.Namespace) -> int:
    """Score a file as the installed command does, by default into build/scores/, then write the report there."""
    for name in filter(os.environ.get, _NOT_SCORED_BY):
        raise ValueError(f"{name} has no effect on scoring a file; unset it")
    given.out = (given.out or root / "build" / "scores" / given.file.stem).resolve()
    code = score(given)
    if code or given.dry_run:
        return code
    from reproduction.execute import execute_notebook
    from reproduction.papers import find_artefact, read_papers

    paper, name = find_artefact(read_papers(root), OWN_ANSWERS)
    report, folder = given.out / "report.ipynb", str(given.out)
    parameters = {"scores": folder, "out": folder}
    failure = execute_notebook(paper.artefacts[name].path, report, parameters, root)
    if failure:
        print(failure, file=sys.stderr)
        return 1
    print("", *read_json(given.out / f"{name}.json")["findings"], f"report: {report}", sep="\n")
    return 0


def _reproduce(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from reproduction.plan import describe_target
    from reproduction.runner import reach_data, run_targets

    jobs = read_count("JOBS", "how many notebooks run at a time") or 2
    targets = list_targets(root, options, given.artefacts)
    problems = reach_data(root, targets) if options.data == "full" else []
    if problems:
        print("\nThe public data can't be reached:", *(f"  - {line}" for line in problems), sep="\n")
        if given.artefacts:
            print("Or run on the small bundled sample with DATA=sample.")
            return 1
        print("Running on the small bundled SAMPLE instead, into build/sample/; it says nothing of a paper.\n")
        options = replace(options, data="sample")
    targets = list_targets(root, options, given.artefacts)  # an optional file may have come
    failed = run_targets(root, options, targets, jobs=jobs)
    done = [target.identifier for target in targets if target.stale and target.identifier not in failed]
    skipped = [target for target in targets if target.lacks]
    print(*(f"{target.identifier}: {describe_target(target)}\n" for target in skipped), sep="", end="")
    fresh = len(targets) - len(done) - len(failed) - len(skipped)
    print(f"artefacts: {len(done)} run, {fresh} fresh, {len(failed)} failed")
    if failed:
        print("failed: " + ", ".join(failed), file=sys.stderr)
    place = options.find_place(root)
    if not given.artefacts:
        if done or failed or not (root / "build" / "site" / "index.html").is_file():
            _report(root, options, given)
        if done or failed:
            from reproduction.check import compare_reference, say_moved

            if place.is_full:
                say_moved(compare_reference(root, place))
    elif not failed:
        _say_made(root, place, given.artefacts)
        if options.variant:
            print("\nits page: `make report` with the same variables")
    return int(bool(failed or {target.identifier for target in skipped} & set(given.artefacts)))


def _make(root: Path, _: RunOptions, arguments: argparse.Namespace) -> int:
    from reproduction.execute import make_artefact

    return make_artefact(Place(root, root / arguments.work, is_full=arguments.work == "build"), arguments.artefact)


def _say_made(root: Path, place: Place, identifiers: Sequence[str]) -> None:
    """Say of each artefact its main values and where its files are, those that there are."""
    from reproduction.compare import tabulate_values
    from reproduction.papers import find_artefact, read_papers
    from reproduction.values import read_values

    papers = read_papers(root)
    for identifier in identifiers:
        paper, name = find_artefact(papers, identifier)
        values = place.find("results", f"{identifier}.csv")
        if not values.is_file():
            continue
        size = read_json(values.with_suffix(".json")).get("size")
        said = f"{paper.artefacts[name].label}: {paper.artefacts[name].title}"
        print(f"\n{identifier}, {said}{f' ({size})' if size else ''}")
        print(tabulate_values(paper, name, read_values(values)))
        tables, notebook = place.tables / f"{identifier}.md", place.notebooks / f"{identifier}.ipynb"
        files = (values, place.find("figures", f"{identifier}.png"), tables, notebook)
        print(*(f"  {path.relative_to(root)}" for path in files if path.is_file()), sep="\n")


def _status(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from reproduction.plan import describe_journal, describe_target, plan_targets

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


def _answers(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from reproduction.making import make_answers

    return make_answers(root, options, given.questions, given.folder)


def _debates(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from reproduction.debates.web_search import search_pages
    from reproduction.making import make_debates

    every, search = read_choice("DOMAINS", "trusted", "all") == "all", None
    kind, _, url = options.find_role("searcher").partition(":")
    if kind == "searxng":
        if given.documents:
            raise ValueError("DOCUMENTS and SEARCHER are both set; keep the folder or the search")
        search = search_pages(url, root / "build" / "cache", every=every)
    how = {"search_with": search, "labels": given.labels, "every": every}
    return make_debates(root, options, given.file, given.documents, **how)


def _verdicts(root: Path, _: RunOptions, given: argparse.Namespace) -> int:
    from reproduction.judging import export_rows, import_journal

    if str(given.file) == ".":
        raise ValueError("no file is named; set FILE, as in `make export-verdicts FILE=data/verdicts/NAME.parquet`")
    print(
        import_journal(root, given.file)
        if given.action == "import"
        else export_rows(root, given.file, given.action, given.model)
    )
    return 0


def _check(root: Path, options: RunOptions, _: argparse.Namespace) -> int:
    from reproduction.check import check_published, compare_reference, say_moved

    place = options.find_place(root)
    if options.data == "sample":
        print("the sample says nothing of a paper, and has no reference: there is nothing to compare it with")
        return 0
    published = check_published(root, place)
    wrong = _say_published(published if place.is_full else published[published.value.notna()])
    if options.profile != "full":
        return int(wrong)
    moved = say_moved(compare_reference(root, place, unrun=place.is_full))
    return int((moved and place.is_full) or wrong)  # an override may move what it likes


def _accept(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from reproduction.accept import accept_artefacts

    place = options.find_place(root)
    if not place.is_full:
        raise ValueError("the reference is of full runs without overrides; unset the other variables")
    accepted = accept_artefacts(root, place, given.artefacts)
    print(f"taken into results/, figures/ and notebooks/: {', '.join(accepted) or 'nothing, as no value moved'}")
    return 0


def _say_published(published: pd.DataFrame) -> bool:
    """Say how results compare with the published ones; True where one is missing, or differs without a reason."""
    from reproduction.compare import VERDICTS

    for row in published[published.verdict != "not run"].itertuples():
        where = f"{row.artefact:18} {row.row:10} {row.dataset:11} {row.heading:16}"
        print(f"{where} published {row.printed:>7}  ours {row.value:>8.4f}  {row.verdict}: {row.why}")
    print("; ".join(f"{verdict}: {(published.verdict == verdict).sum()}" for verdict in VERDICTS))
    wrong = bool(published.verdict.isin(["differs", "missing"]).any())
    if wrong:
        print("a value is missing, or differs without a reason under papers/*.csv", file=sys.stderr)
    return wrong


def _claims(root: Path, options: RunOptions, _: argparse.Namespace) -> int:
    from reproduction.claims import COUNTS, count_claims, judge_claims, write_claim
    from reproduction.papers import read_papers

    place = options.find_place(root)
    if options.data == "sample":
        raise ValueError("the sample says nothing of a paper's claims; use DATA=full")
    papers = dict(reversed(read_papers(root).items()))
    only = read_choice("PAPER", "", *papers)
    papers = {name: paper for name, paper in papers.items() if only in ("", name)}
    judged = {name: judge_claims(paper, place.read_from / "results") for name, paper in papers.items()}
    for name, claims in judged.items():
        print(f"{name}: {len(claims)} claims", *count_claims(claims), papers[name].verdict, sep="\n", end="\n\n")
    print(f"{COUNTS}\n")
    for name, claims in judged.items():
        print(f"{name}\n", *map(write_claim, claims.to_dict("records")), sep="\n", end="\n\n")
    return 0


def _figures(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from tqdm import tqdm

    from reproduction.papers import list_chosen
    from reproduction.replay import redraw_figure

    place, chosen = options.find_place(root), list_chosen(root, given.artefacts)
    drawn = sum(redraw_figure(paper, name, place, options) for paper, name in tqdm(chosen, "figures"))
    print(f"{drawn} figures drawn from results into {place.work.relative_to(root)}/drawn/")
    return 0


def _spot_check(root: Path, options: RunOptions, given: argparse.Namespace) -> int:
    from random import randrange

    from reproduction.spot_check import check_spots

    size = read_count("N", "how many to compute anew") or 100
    seed = read_count("SEED", "the seed of an earlier spot check") or randrange(1, 10**6)  # noqa: S311 - no secret
    return int(not check_spots(root, options, given.artefacts, size=size, seed=seed))


def _report(root: Path, options: RunOptions, _: argparse.Namespace) -> int:
    from reproduction.site import build_site  # heavy to import

    place = replace(options, data="full").find_place(root)  # the sample says nothing of a paper
    own = options.find_place(root)
    results = own.read_from / "results"
    made = sorted(str(path.relative_to(results).with_suffix("")) for path in results.glob("*/*.csv"))
    if options.variant and not made:
        raise ValueError("nothing was made with these variables yet; run `make PAPER/NAME` with them first")
    index = build_site(place)
    if options.parameters:  # few, and nowhere else to be seen beside each other
        _say_made(root, own, made)
    print(f"report: {index.relative_to(root)}")
    return 0


def _fetch(root: Path, options: RunOptions, _: argparse.Namespace) -> int:
    from reproduction.runner import reach_data

    problems = reach_data(root, list_targets(root, options))
    print(*(problems or ["all data at hand and verified"]), sep="\n")
    return int(bool(problems))
