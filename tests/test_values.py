"""Values on disk, verdicts on published numbers, and what moved from the committed results."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT

from reproduction import check
from reproduction.compare import compare_published
from reproduction.papers import Artefact, Paper, StandIn
from reproduction.values import (
    match_rows,
    name_keys,
    name_row,
    pick,
    read_values,
    tidy_values,
    write_values,
)

NAN, NONE = float("nan"), (np.nan, np.nan)


def make_values(**columns: object) -> pd.DataFrame:
    frame = pd.DataFrame({
        "statistic": ["kendall", "kendall", "kendall"], "dataset": "d", "metric": ["m", "m", "e"],
        "form": [np.nan, "rank", "rank"], "k": [2.0, np.nan, np.nan], "value": [1 / 3, 2 / 3, 1e-9 / 3],
        "n": [3, 4, 5], "dropped": 0,
    })  # fmt: skip
    return frame.assign(**columns)


def write_paper(folder: Path, *lines: str) -> Paper:
    """A paper of one table with these published numbers, in which the metric b stands in."""
    path = folder / "p.csv"
    head = "artefact,row,heading,dataset,metric,statistic,printed,unit,tolerance,needs,setting,read,cause,reason"
    path.write_text("\n".join([head, *lines, ""]))
    stand_in = StandIn(says="b in place of c", rows="metric == 'b'")
    table = Artefact(label="T", title="T")
    paper = Paper(paper="p", title="P", source="", artefacts={"t": table}, stand_ins=(stand_in,))
    paper._numbers = path
    return paper


def test_values_are_rounded_once_sorted_and_read_back_as_they_are(tmp_path: Path) -> None:
    table = tidy_values(make_values(), origin="measured", exact=["e"])
    assert name_keys(table) == ["dataset", "metric", "form", "k", "statistic"]
    assert list(table.metric) == ["e", "m", "m"]
    assert list(table.value) == [3.33333333333e-10, 0.333333, 0.666667]
    whole = tidy_values(make_values(value=[2_000_001.0, 3.0, -0.0]), origin="x")
    assert whole.value.tolist() == [0.0, 2_000_001.0, 3.0]
    for stem in ("one", "two"):
        write_values(tmp_path / stem, table, {"b": 1, "a": 2})
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    again = read_values(tmp_path / "one.csv")
    assert again.value.tolist() == table.value.tolist()
    assert again.form.tolist() == ["rank", "", "rank"]
    assert again.k.isna().tolist() == [True, False, True]  # a condition of numbers is read as numbers
    assert again.low.isna().all()
    assert read_values(StringIO(again.to_csv(index=False))).equals(again)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",3,0,", ",3.5,0,", ""),
        (",0.333333,", ",inf,", "infinite"),
        (",origin,", ",orig,", "it has no column origin"),
        ("d,m,rank,", "d,e,rank,", "duplicate .*'metric': 'e'"),
        ("\nd,", "half a fi", ""),
    ],
)
def test_a_results_file_edited_by_hand_is_refused_by_name(tmp_path: Path, old: str, new: str, words: str) -> None:
    write_values(tmp_path / "mine", tidy_values(make_values(), origin="measured"), {})
    path = tmp_path / "mine.csv"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"mine\.csv: not a values file.*{words}"):
        read_values(path)


def test_a_row_is_looked_up_by_all_its_conditions_whether_as_numbers_or_as_text() -> None:
    table, conditions = tidy_values(make_values(), origin="measured"), {"dataset": "d", "statistic": "kendall"}
    assert match_rows(table, conditions | {"metric": "m"}).sum() == 0  # k and form differ
    assert (
        pick(table, **conditions, metric="m", k=2).said == pick(table, **conditions, metric="m", k="2").said == "0.333"
    )
    assert match_rows(table, conditions | {"metric": "m", "k": 2, "other": "x"}).sum() == 0
    with pytest.raises(ValueError, match="0 rows have"):
        pick(table, metric="nothing")
    assert name_row({"k": 2.0, "form": NAN, "metric": "m"}) == name_row(
        {"metric": "m", "k": "2", "share": None, "x": ""}
    )


@pytest.mark.parametrize(
    ("value", "interval", "rest", "verdict"),
    [
        (0.20883, NONE, "", "equal"),  # rounds to the printed 0.2088
        (0.20886, NONE, "", "near"),  # rounds to 0.2089, but lies within the tolerance of 0.01
        (0.25, (0.20, 0.30), "", "near"),  # off by more, but the published value is in our interval
        (0.25, NONE, "", "differs"),
        (np.nan, NONE, "", "missing"),
        (np.nan, NONE, "judge", "not run"),
        (0.25, NONE, "known", "differs, explained"),
        (0.25, NONE, "unknown", "differs, cause unknown"),
        (0.2591, NONE, "known", "differs, explained"),  # a unit of the last digit of "Measured here: 0.25"
        (0.27, NONE, "known", "differs"),  # another number than the listed one
    ],
)
def test_a_verdict_follows_from_digits_tolerance_interval_needs_and_listed_reasons(
    tmp_path: Path, value: float, interval: tuple[float, float], rest: str, verdict: str
) -> None:
    needs, cause = (rest, "") if rest == "judge" else ("", rest)
    paper = write_paper(tmp_path, f"t,S,,d,m,kendall,0.2088,,0.01,{needs},,table,{cause},Measured here: 0.25. Why")
    row = {"dataset": "d", "metric": "m", "statistic": "kendall", "value": value, "low": interval[0]}
    frame = pd.DataFrame([row | {"high": interval[1]}])
    table = tidy_values(frame, origin="measured", exact=True)
    assert compare_published(paper, "t", table).verdict.tolist() == [verdict]
    elsewhere = tidy_values(frame.assign(condition="c"), origin="measured")
    assert compare_published(paper, "t", elsewhere).verdict.tolist() == ["not run" if needs else "missing"]


@pytest.mark.parametrize(
    ("then", "now", "column", "state"),
    [
        (0.123456, 0.123456, "value", check.SAME),
        (0.123456, 0.123457, "value", check.WITHIN),
        (0.123456, 0.1236, "value", check.MOVED),
        (12.0, 13.0, "n", check.MOVED),
        (np.nan, 0.5, "value", check.MOVED),
    ],
)
def test_what_moved_is_told_from_another_processors_digits(then: float, now: float, column: str, state: str) -> None:
    row = {"dataset": "d", "metric": "m", "statistic": "s", "value": 1.0, "n": 1}
    sides = [pd.DataFrame([{**row, column: number}]) for number in (then, now)]
    tables = [tidy_values(side, origin="measured", exact=True) for side in sides]
    result = check.compare_values(*tables)
    assert result[result.column == column].state.tolist() == [state]


# linkage/judge_health, half_reference, beaten: a near tie that another processor decides otherwise
JUDGE_HEALTH = {"value": 0.786344, "low": 0.751379, "high": 0.82131, "spread": 0.02}
WIDTH = JUDGE_HEALTH["high"] - JUDGE_HEALTH["low"]


@pytest.mark.parametrize(
    ("change", "state"),
    [
        *(({name: JUDGE_HEALTH[name] + WIDTH / 51}, check.WITHIN) for name in JUDGE_HEALTH),
        *(({name: JUDGE_HEALTH[name] - WIDTH / 49}, check.MOVED) for name in JUDGE_HEALTH),
        ({"n": 298}, check.MOVED),
        ({"low": np.nan}, check.MOVED),
    ],
)
@pytest.mark.parametrize("exact", [False, True])
def test_a_number_beside_an_interval_may_move_by_less_than_a_fiftieth_of_its_width(
    change: dict[str, float], state: str, exact: bool
) -> None:
    row = {"dataset": "d", "metric": "m", "statistic": "beaten", "n": 297} | JUDGE_HEALTH
    then, now = (tidy_values(pd.DataFrame([side]), origin="measured", exact=exact) for side in (row, row | change))
    result = check.compare_values(then, now)
    assert result[result.column == next(iter(change))].state.tolist() == [state]


def test_on_the_machine_that_made_the_reference_a_difference_within_tolerance_fails(monkeypatch, capsys) -> None:
    near = {"artefact": "made_up/near", "row": "a=b", "column": "value", "committed": 0.5, "now": 0.6, "change": 0.2}
    table = pd.DataFrame([near | {"state": check.WITHIN}])
    assert not check.say_moved(table)
    monkeypatch.setenv("STRICT", "1")
    assert check.say_moved(table)
    monkeypatch.delenv("STRICT")
    assert check.say_moved(table.assign(state=check.MOVED))
    assert "made_up/near differs" in capsys.readouterr().out


def test_rows_that_are_gone_or_new_are_told_apart() -> None:
    table = tidy_values(make_values(), origin="measured")
    assert set(check.compare_values(table, table.iloc[1:]).state) == {check.SAME, check.GONE}
    assert set(check.compare_values(None, table).state) == {check.NEW}


@pytest.mark.parametrize(("moved", "state"), [(2.9, check.WITHIN), (3.1, check.MOVED)])
def test_what_varies_may_move_by_three_times_its_spread_and_rows_of_one_seed_do_not_count(moved, state) -> None:
    names = {"metric": "m", "statistic": ["n_topics", "share"]}
    rows = pd.DataFrame({**names, "topic": ["", "1"], "value": [22.0, 0.1], "spread": [1.5, np.nan]})
    then = tidy_values(rows, origin="measured")
    other = rows.assign(topic=["", "2"], value=[22 + 1.5 * moved, 0.2], spread=[0.9, np.nan])
    result = check.compare_values(then, tidy_values(other, origin="measured"), varies=True)
    assert result[result.column == "value"].state.tolist() == [state]
    assert set(result[result.column != "value"].state) == {check.SAME}


def test_a_moved_text_counts_and_a_key_stands_for_one_row() -> None:
    table = tidy_values(make_values(text=["a", "b", "c"]), origin="measured")  # a condition may have any name
    result = check.compare_values(table, table.assign(signature="another"))
    assert result[result.state == check.MOVED].column.tolist() == ["signature"] * len(table)
    with pytest.raises(ValueError, match="not a one-to-one merge"):
        check.compare_values(table, pd.concat([table, table.iloc[:1]]))


@pytest.mark.parametrize(
    "path", sorted((PROJECT / "results").glob("*/*.csv")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_an_interval_stays_in_the_range_of_its_quantity(path: Path) -> None:
    table = read_values(path).assign(difference_from=lambda rows: rows.get("difference_from", ""))
    metric = table.get("metric", "")
    of_words = (metric == "words") & (table.difference_from == "") & (table.statistic == "mean")
    assert (table.low[of_words].fillna(0) >= 0).all()
    of_shares = (metric == "da") | table.statistic.str.startswith("share") | (table.statistic == "document_coverage")
    assert (table[of_shares][["low", "high"]].abs().fillna(0) <= 1).all(axis=None)
