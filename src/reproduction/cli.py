"""The commands of a checkout, which the Makefile calls. The first line of a command's docstring is
its help.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from nfqa import cli
from nfqa.files.paths import copy_outputs, find_root
from reproduction.data.registry import UnreachableError
from reproduction.keys import list_targets
from reproduction.options import RunOptions, read_choice, read_count, read_options, read_questions
from reproduction.papers import list_named

if TYPE_CHECKING:
    import pandas as pd

Command = Callable[[Path, RunOptions, argparse.Namespace], int]
USERS_ANSWERS = "linkage/use_your_own_answers"
_NOT_OF_SCORING = ("DATA", "PROFILE", "PARAMS", "SEEDS", "READING", "DECODING", "WRAPPING", "GENERATOR")


def main(words: Sequence[str] | None = None) -> int:
    """Run a command of the checkout, or an installed one; returns its exit code."""
    try:
        root = find_root()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    os.environ.setdefault("NFQA_CACHE", str(root / "build" / "cache"))  # of the library, which knows no checkout
    return cli.main(words, list_commands(root))


def list_commands(root: Path) -> dict[str, cli.Command]:
    """The commands by name: what is called with the parsed arguments, the help, and the arguments."""
    some, named = ({"artefacts": {"nargs": nargs, "metavar": "PAPER/NAME"}} for nargs in ("*", "+"))
    commands: dict[str, tuple[Command, dict[str, dict[str, Any]]]] = {
        "reproduce": (reproduce, some),
        "run": (reproduce, named),
        "status": (status, some),
        "check": (check, {}),
        "accept": (accept, some),
        "claims": (claims, {}),
        "figures": (figures, some),
        "report": (report, {}),
        "fetch": (fetch, {}),
    }
    installed = cli.list_commands()
    score_file, _, arguments = installed["score"]
    firsts = {name: str(command.__doc__).partition("\n\n")[0] for name, (command, _) in commands.items()}
    helps = {name: " ".join(text.split()).rstrip(".") for name, text in firsts.items()}
    offered = {name: (partial(_run, root, command), helps[name], rest) for name, (command, rest) in commands.items()}
    report_too = (partial(score, root, score_file), "score a file of answers and write a report", arguments)
    return installed | offered | {"score": report_too}


def _run(root: Path, command: Command, arguments: argparse.Namespace) -> int:
    """Run a command with Make's variables, checked."""
    questions = read_questions()
    names = getattr(arguments, "artefacts", [])
    artefacts = list_named(root, names, questions=questions)
    arguments.artefacts = artefacts
    arguments.named = [name for name in names if name in artefacts]  # and no paper, which stands for many
    options = read_options(root, artefacts, makes=command is not report, questions=questions)
    try:
        return command(root, options, arguments)
    except UnreachableError as error:
        raise ValueError(str(error)) from None


def score(root: Path, score_file: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Score a file as the installed command does, by default into build/scores/, then write the
    report there.
    """
    for name in filter(os.environ.get, _NOT_OF_SCORING):
        raise ValueError(f"{name} has no effect on scoring a file; unset it")
    folder = arguments.out = (arguments.out or root / "build" / "scores" / arguments.file.stem).resolve()
    if score_file(arguments) or arguments.dry_run:
        return 0
    from concurrent.futures import ThreadPoolExecutor

    from reproduction.execute import end_with_kernels, execute_notebook
    from reproduction.papers import find_artefact, read_papers

    paper, name = find_artefact(read_papers(root), USERS_ANSWERS)
    with TemporaryDirectory() as scratch:
        page = Path(scratch) / "report.ipynb"
        parameters = {"scores": str(folder), "out": scratch}
        with end_with_kernels(ThreadPoolExecutor(1)) as pool:
            failure = pool.submit(execute_notebook, paper.artefacts[name].path, page, parameters, root).result()
        if failure:
            print(failure, file=sys.stderr)
            return 1
        text = re.sub(r"\.\./\.\./figures/\w+/", "", page.read_text(encoding="utf-8"))  # its pictures lie beside it
        page.write_text(text.replace(scratch, str(folder)), encoding="utf-8")
        copy_outputs(Path(scratch), folder)
    print(f"\nreport: {folder / page.name}")
    return 0


def reproduce(root: Path, options: RunOptions, arguments: argparse.Namespace) -> int:
    """Bring artefacts up to date, and the report where all are made."""
    from reproduction.check import compare_reference, print_values, say_made, say_moved
    from reproduction.plan import describe_target
    from reproduction.runner import reach_data, run_targets

    jobs = read_count("JOBS", "how many notebooks run at a time") or 2
    targets = list_targets(root, options, arguments.artefacts)
    artefacts = [target.artefact for target in targets]
    problems = reach_data(root, artefacts, options) if options.data == "full" else []
    if problems:
        print("\nThe public data is unavailable:", *(f"  - {line}" for line in problems), sep="\n")
        if arguments.artefacts:
            print("Or run on the small bundled sample with DATA=sample.")
            return 1
        print("Running on the small bundled SAMPLE instead, into build/sample/; it does not reproduce a paper.\n")
        options = replace(options, data="sample")
        targets = list_targets(root, options, arguments.artefacts)
    failed = run_targets(root, options, targets, jobs=jobs)
    skipped = [target for target in targets if target.lacks]
    print(*(f"{target.identifier}: {describe_target(target)}\n" for target in skipped), sep="", end="")
    run = sum(bool(target.stale) for target in targets) - len(failed)
    print(f"artefacts: {run} run, {len(targets) - run - len(failed) - len(skipped)} fresh, {len(failed)} failed")
    if failed:
        print("failed: " + ", ".join(failed), file=sys.stderr)
    place = options.find_place(root)
    is_wrong = bool(options.questions) and say_made(place, arguments.artefacts)
    if arguments.named and not failed:
        print_values(root, place, arguments.named)
        if options.variant:
            print("\nTo build its page, run `make report` with the same variables")
    elif not arguments.named:
        no_site = not (root / "build" / "site" / "index.html").is_file()
        if not arguments.artefacts and (run or failed or no_site):
            report(root, options, arguments)
        if (run or failed) and place.is_full:
            say_moved(compare_reference(root, place))
    return int(bool(failed or is_wrong or {target.identifier for target in skipped} & {*arguments.named}))


def status(root: Path, options: RunOptions, arguments: argparse.Namespace) -> int:
    """Show which artefacts are up to date, and how many requests a run would send to a language
    model.
    """
    from reproduction.plan import describe_journal, describe_target, plan_targets

    targets = list_targets(root, options, arguments.artefacts)
    lines = (f"{target.identifier:24} {describe_target(target)}" for target in targets)
    print(*lines, *describe_journal(root), sep="\n")
    stale = [target for target in targets if target.stale]
    if any(target.key.asks for target in stale):
        print("Requests this run would send (shared ones are sent once):")
        for line in plan_targets(root, stale, options):
            print(line, flush=True)
    return 0


def check(root: Path, options: RunOptions, arguments: argparse.Namespace) -> int:
    """Compare results with the published values and with the reference."""
    from reproduction.check import check_published, compare_reference, say_made, say_moved

    place = options.find_place(root)
    is_wrong = bool(options.questions) and say_made(place, arguments.artefacts)
    if options.data == "sample":
        print("sample data has no reference and no published values: nothing to compare")
        return int(is_wrong)
    published = check_published(root, place)
    wrong = _print_published(published if place.is_full else published[published.value.notna()])
    if options.questions or options.profile != "full":
        return int(wrong or is_wrong)
    moved = say_moved(compare_reference(root, place, unrun=place.is_full))
    return int((moved and place.is_full) or wrong)  # an override may move what it likes


def _print_published(published: pd.DataFrame) -> bool:
    """Print how results compare with the published ones, failures first; True where one is missing
    or unexplained.
    """
    from reproduction.compare import VERDICTS

    fails = published.verdict.isin(["differs", "missing"])
    rows = published.assign(passes=~fails).sort_values("passes", kind="stable")
    for row in rows[rows.verdict != "not run"].itertuples():
        where = f"{row.artefact:18} {row.row:10} {row.dataset:11} {row.heading:16}"
        print(f"{where} published {row.printed:>7}  measured {row.value:>8.4f}  {row.verdict}: {row.why}")
    print("; ".join(f"{verdict}: {(published.verdict == verdict).sum()}" for verdict in VERDICTS))
    if fails.any():
        print("a value is missing, or differs without a reason; list the reason in papers/PAPER.csv", file=sys.stderr)
    return bool(fails.any())


def accept(root: Path, options: RunOptions, arguments: argparse.Namespace) -> int:
    """Copy artefacts whose values moved, or the named ones, into results/, figures/ and notebooks/."""
    from reproduction.accept import accept_artefacts

    place = options.find_place(root)
    if not place.is_full:
        raise ValueError("the reference is of full runs without overrides; unset the other variables")
    accepted = accept_artefacts(root, place, arguments.artefacts)
    print(f"copied into results/, figures/ and notebooks/: {', '.join(accepted) or 'nothing, as no value moved'}")
    return 0


def claims(root: Path, options: RunOptions, _: argparse.Namespace) -> int:
    """Print the verdict on each claim of the papers: on published numbers, measured here, and by
    proxy.
    """
    from reproduction.claims import APART, count_claims, judge_claims, write_claim
    from reproduction.papers import read_papers

    if options.data == "sample":
        raise ValueError("the sample says nothing about a paper's claims; use DATA=full")
    papers = dict(reversed(read_papers(root).items()))
    chosen = read_choice("PAPER", "", *papers)
    results = options.find_place(root).read_from / "results"
    judged = {name: judge_claims(paper, results) for name, paper in papers.items() if chosen in ("", name)}
    for name, table in judged.items():
        print(f"{name}: claims that text or captions state\n{papers[name].verdict}\n\n{count_claims(table)}\n")
    for name, table in judged.items():
        for apart, rows in table.groupby("apart"):
            print(f"{name}: {APART}\n\n{count_claims(table, apart=True)}" if apart else name, end="\n\n")
            print(*(write_claim(sides) for _, sides in rows.groupby("claim", sort=False)), sep="\n\n", end="\n\n")
    return 0


def figures(root: Path, options: RunOptions, arguments: argparse.Namespace) -> int:
    """Draw every figure from results, without computing anything."""
    from tqdm import tqdm

    from reproduction.papers import list_chosen
    from reproduction.replay import redraw_figure

    place = options.find_place(root)
    chosen = list_chosen(root, arguments.artefacts)
    count = sum(redraw_figure(paper, name, place, options) for paper, name in tqdm(chosen, "figures"))
    print(f"{count} figures drawn from results into {place.work.relative_to(root)}/drawn/")
    return 0


def report(root: Path, options: RunOptions, _: argparse.Namespace) -> int:
    """Build the report site from the available results."""
    from reproduction.check import print_values
    from reproduction.site import build_site  # heavy to import

    place = replace(options, data="full").find_place(root)  # the sample says nothing of a paper
    run = options.find_place(root)
    results = run.read_from / "results"
    names = sorted(str(path.relative_to(results).with_suffix("")) for path in results.glob("*/*.csv"))
    if options.variant and not names:
        raise ValueError("no results for these variables yet; run `make PAPER/NAME` with them first")
    index = build_site(place)
    if options.parameters:  # few, and nowhere else to be seen beside each other
        print_values(root, run, names)
    print(f"report: {index.relative_to(root)}")
    return 0


def fetch(root: Path, options: RunOptions, _: argparse.Namespace) -> int:
    """Fetch and verify the data."""
    from reproduction.papers import list_chosen
    from reproduction.runner import reach_data

    chosen = [paper.artefacts[name] for paper, name in list_chosen(root)]
    problems = reach_data(root, chosen, options)
    print(*(problems or ["all data is available and verified"]), sep="\n")
    return int(bool(problems))
