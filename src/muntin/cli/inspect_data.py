"""What a data file holds: which column is the time, which are keys, which can be summed."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import pc
from muntin.cli.sample import Sample, count, sampled
from muntin.errors import SourceError
from muntin.kinds.columns import in_backticks, in_sql
from muntin.kinds.vector_matrix import ANSWERED
from muntin.select.syntax import quoted, text_literal
from muntin.spark.event_time import ABSENT, event_times, unit_of
from muntin.summaries.indicators import DIGITS_MAX
from muntin.times import DAY_US, now_us

KEYS_MAX, INDICATORS_MAX = 4, 6
SCALE_MAX = 6  # of decimals that leave room for large amounts
BAD_SHARE_MAX = 0.05  # of times or numbers; a column with more of them is of another kind
NONE_SHARE_MAX, WORDS_FOR_NONE_MAX = 0.5, 3  # the same few texts, such as n/a, stand for no number
KEY_DISTINCT_SHARE_MAX = 0.5  # a column with a value of its own for each row is an identifier
_TIME_NAME = re.compile(
    r"(^|_)(time|timestamp|ts|date|datetime|at|when|epoch|unixtime|created)($|_)", re.IGNORECASE
)
_CODE_NAME = re.compile(  # of integers that are no amounts
    r"(?i)(^|_)(id|code|no|number|class|type|status|zip|zipcode|postcode|port|version|year|month|"
    r"day|hour|minute)$"
)
_GAP = re.compile(r"\W+|(?<=[a-z0-9])(?=[A-Z])")  # between words: event time, eventTime
TRIED_ROWS = 1_000  # of a column whose times are written in a way of their own
# other ways to write a time, as Spark spells them: of two digits first, which pass for four as well
_DAYS = (
    "d/M/yy", "M/d/yy", "d.M.yy", "d/M/yyyy", "M/d/yyyy", "d.M.yyyy", "d-M-yyyy", "yyyy/M/d",
    "yyyy-M-d", "yyyyMMdd", "d/MMM/yyyy", "d-MMM-yyyy", "d MMM yyyy", "MMM d, yyyy",
)  # fmt: skip
_CLOCKS = (
    "", " H:mm", " H:mm:ss", " H:mm:ss.SSS", " H:mm:ss.SSSSSS", " h:mm a", " h:mm:ss a",
    "'T'HH:mm:ss", "'T'HHmmss", "HHmmss", ":HH:mm:ss XX",
)  # fmt: skip
_CLOCK = r"\d{1,2}:\d\d(:\d\d(\.\d{1,9})?)?( ?[AaPp][Mm])?"  # in a column of its own
_STRPTIME = {
    "yyyy": "Y", "yy": "y", "MMM": "b", "MM": "m", "M": "m", "dd": "d", "d": "d", "HH": "H",
    "H": "H", "h": "I", "mm": "M", "SSSSSS": "f", "SSS": "g", "ss": "S", "a": "p", "XX": "z",
}  # fmt: skip
_LETTERS = re.compile("|".join(_STRPTIME))
# ways to write a number in text, and what makes of each one that Spark reads
_PLAIN = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_NUMBERS = {
    _PLAIN: "{}",
    r"[+-]?[$€£]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?": "regexp_replace({}, '[^0-9.-]', '')",
    r"[+-]?((\d{1,3}(\.\d{3})+|\d+),\d+|\d+)( ?[€$£])?": (
        "regexp_replace(translate({}, ',.', '.'), '[^0-9.-]', '')"
    ),
}
_SECOND = 1_000_000
WINDOWS_US = {  # pane -> window
    _SECOND: 60 * _SECOND,
    10 * _SECOND: 600 * _SECOND,
    60 * _SECOND: 3600 * _SECOND,
    600 * _SECOND: 6 * 3600 * _SECOND,
    3600 * _SECOND: 86_400 * _SECOND,
    86_400 * _SECOND: 7 * 86_400 * _SECOND,
}
PANES_MAX = 10_000
LATE_SHARE = 0.999  # of the events come in time


@dataclass(slots=True)
class Found:
    """What a look at the data has shown."""

    path: str
    format: str
    time: str = ""
    unit: str | None = None
    pane_us: int = 0
    lateness_us: int = 0
    keys: list[str] = field(default_factory=list)
    indicators: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # column -> why
    options: dict[str, str] = field(default_factory=dict)  # of the source
    fields: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def inspect(data: Path) -> Found:
    """Look at the first rows of some files; SourceError where that cannot be done."""
    sample = sampled(data)
    found = Found(
        str(data), sample.format, options=sample.options, left_out=sample.left_out,
        warnings=sample.warnings,
    )  # fmt: skip
    _see_time(found, sample)
    for name, (kind, distinct) in sample.columns.items():
        if name != found.time:
            _see_column(found, sample, name, kind, distinct)
    found.keys.sort(key=lambda name: -sample.columns[name][1])
    found.left_out |= dict.fromkeys(found.keys[KEYS_MAX:], "could be a key as well")
    surplus = found.indicators[INDICATORS_MAX:]
    found.left_out |= dict.fromkeys(surplus, "could be an indicator as well")
    del found.keys[KEYS_MAX:], found.indicators[INDICATORS_MAX:]
    read = (found.time, *found.keys, *found.indicators)
    found.fields = {n: text for n, text in sample.fields.items() if n in read} | found.fields
    _declare(found, sample, read)
    if not found.keys:
        raise SourceError(
            f"{sample.files[0]}: no column looks like a key (text, a code, a yes or no); there are "
            f"{sample.listed()}. Write the pipeline file by hand: quantiles, distinct and top_k "
            "need no key"
        )
    for names in (found.keys, found.indicators):
        names[:] = [_apart_from_answers(found, name) for name in names]
    return found


def _apart_from_answers(found: Found, name: str) -> str:
    """The name under which a column is read that has the name of one of the answers'."""
    if name.lower() not in ANSWERED:
        return name
    other = f"{name}_value"
    found.fields[other] = found.fields.pop(name, in_backticks(name))
    found.warnings.append(f"'{name}' is a column of the answers too: it is read as '{other}'")
    return other


def _declare(found: Found, sample: Sample, read: tuple[str, ...]) -> None:
    """A schema, where Spark by itself would refuse the files, or have less than stands in them."""
    from muntin.spark.unread import NO_SUCH_COLUMN

    by_spark = found.fields or not sample.partitions.isdisjoint(read)
    lost = [n for n in read if n in sample.uneven and (by_spark or sample.uneven[n])]
    if not (sample.unread or lost):
        return
    if (schema := sample.schema(read)) is not None:
        found.options["schema"] = schema
        return
    said = (f"column '{name}' is {kind}: {NO_SUCH_COLUMN}" for name, kind in sample.unread.items())
    found.warnings.extend(said)
    found.left_out |= dict.fromkeys(lost, "not the same in all files; source.schema can name it")
    for names in (found.keys, found.indicators):
        names[:] = [name for name in names if name not in lost]


def _see_time(found: Found, sample: Sample) -> None:
    """The column of the event time, how it is read, and how long panes and lateness are then."""
    name, found.unit, patterns = _time_column(sample)
    found.time, read = name, sample.table[name]
    text = sample.fields.get(name, in_backticks(name))
    if found.unit and (number := _number_in_text(read)):
        found.fields[name] = number[0].format(text)
        read = sample.made(number[0].format(quoted(name)))
    elif patterns:
        found.fields[name] = f"try_to_timestamp({text}, {text_literal(patterns[0])})"
        read = sample.made(_parsing(name, patterns[0]))
    at = _event_times(read, found.unit)
    by_file = [_present(own) for own in np.split(at, sample.ends[:-1])]
    found.pane_us = _pane_us(by_file)
    found.lateness_us = max(found.pane_us, _behind_us(by_file[0]))
    if len(patterns) > 1:
        first, other = patterns[:2]
        found.warnings.append(f"times in '{name}' are read as {first}; they could be {other}")
    absent = at == ABSENT
    if absent.any():
        found.warnings.append(
            f"{absent.sum():,} of {len(at):,} rows have no time in '{name}'"
            f"{sample.first(name, absent)}: they will be rejected"
        )


def _see_column(found: Found, sample: Sample, name: str, kind: str, distinct: int) -> None:
    rows = sample.table.num_rows
    if not distinct:
        found.left_out[name] = "no values"
    elif (number := _number_in_text(sample.table[name], name in sample.mixed)) is not None:
        cast, bad = number
        found.fields[name] = cast.format(sample.fields.get(name, in_backticks(name)))
        found.indicators.append(name)
        if bad.any():
            found.warnings.append(
                f"{bad.sum():,} of {rows:,} rows have no number in '{name}'"
                f"{sample.first(name, bad)}: a field reads them as null"
            )
    elif _is_number(kind) and not _looks_like_key(name, kind, distinct):
        found.indicators.append(name)
        decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
        if decimal and int(decimal[1]) > DIGITS_MAX:
            scale = min(int(decimal[2]), SCALE_MAX)
            found.warnings.append(
                f"decimals of '{name}' are summed as float64; exact is a field such as "
                f"TRY_CAST({in_backticks(name)} AS DECIMAL({DIGITS_MAX}, {scale}))"
            )
    elif kind not in ("VARCHAR", "BOOLEAN", "DATE") and not _is_number(kind):
        found.left_out[name] = f"type {kind}"
    elif distinct > KEY_DISTINCT_SHARE_MAX * rows and rows > 100:
        found.left_out[name] = f"about {distinct:,} values in {rows:,} rows"
    else:
        found.keys.append(name)


def _time_column(sample: Sample) -> tuple[str, str | None, list[str]]:
    """The event time with its unit, or with the ways in which it can have been written."""
    columns, table = sample.columns, sample.table
    columns = {name: seen for name, seen in columns.items() if not sample.uneven.get(name)}
    named = [name for name in columns if _TIME_NAME.search(_GAP.sub("_", name))]
    for name, (kind, _) in columns.items():
        if kind.startswith("TIMESTAMP"):
            return name, None, []
    in_order = [*named, *(name for name in columns if name not in named)]
    texts = [name for name in in_order if columns[name][0] == "VARCHAR" and columns[name][1]]
    written = {name: _times(table[name]) for name in texts}
    iso = [name for name, at in written.items() if len(at) >= _most(table[name])]
    for name in iso:
        if (written[name] % DAY_US).any():
            return name, None, []
    if made := _day_and_clock(sample):
        return made
    if iso:
        return iso[0], None, []
    for name in texts:
        patterns = _patterns(sample, name)
        if patterns:
            return name, None, patterns
    for name in named:
        numbers = table[name]
        if found := _number_in_text(numbers):
            numbers = sample.made(found[0].format(quoted(name)))
        unit = unit_of(numbers.combine_chunks(), now_us())
        if unit is not None:
            return name, unit, []
    for name, (kind, _) in columns.items():
        if kind == "DATE":
            return name, None, []
    odd = [(name, _event_times(table[name], None) == ABSENT) for name in texts if name in named]
    text = odd[0][0] if odd else "NAME"
    raise SourceError(
        "no column looks like an event time (a timestamp, a date, ISO 8601 text, or a number since "
        "1970 whose name says time, ts, date, at, when, epoch, created); there are "
        f"{sample.listed()}. Where a number counts since 1970, write the pipeline file by hand, "
        f"with  time: {{column: NAME, unit: ms}}; where texts are times, with a field, such as  "
        f"{text}: try_to_timestamp({in_sql(text)}, 'd/M/yyyy H:mm')"
        + "".join(
            f"; {bad.sum():,} rows have no time in '{n}'{sample.first(n, bad)}" for n, bad in odd
        )
    )


def _day_and_clock(sample: Sample) -> tuple[str, None, list[str]] | None:
    """The event time where the day stands in one column and the time of day in another one: a
    column of the sample that is made of both, in their place."""
    columns = sample.columns
    texts = {
        n: sample.table[n].drop_null() for n, (kind, _) in columns.items() if kind == "VARCHAR"
    }
    clocks = (n for n, text in texts.items() if len(text) and count(text, _CLOCK) >= _most(text))
    clock = next(clocks, None)
    if clock is None:
        return None
    dates = [name for name, (kind, _) in columns.items() if kind == "DATE"]
    for day in (*dates, *(name for name in texts if name != clock)):
        name = f"{day}_{clock}"
        if name in columns:
            continue
        both = Sample(sample.format, sample.files, connection=sample.connection)
        made = sample.made(f"{quoted(day)} || ' ' || {quoted(clock)}")
        both.table = sample.table.append_column(name, made)
        is_iso = len(_times(made)) >= _most(made)
        patterns = [] if is_iso else _patterns(both, name)
        if not (is_iso or patterns):
            continue
        spelled = (sample.fields.get(part, in_backticks(part)) for part in (day, clock))
        sample.fields[name] = "concat({}, ' ', {})".format(*spelled)
        sample.left_out |= dict.fromkeys((day, clock), f"is in {name}")
        sample.table = both.table
        sample.connection.register("sample", sample.table)
        columns[name] = ("VARCHAR", len(made))
        del columns[day], columns[clock]
        return name, None, patterns
    return None


def _most(column: pa.ChunkedArray) -> float:
    """All but a few, of which one is always let pass, and more than half."""
    given = len(column) - column.null_count
    return max(min((1 - BAD_SHARE_MAX) * given, given - 1), (given + 1) / 2)


def _patterns(sample: Sample, name: str) -> list[str]:
    """How most times in a column of text can have been written, in Spark's letters. First that in
    which they lie closest together: 3/1 and 3/2 are two days, hardly two months."""
    texts = sample.table[name].drop_null()
    if count(texts, r".*\d.*\d.*\d.*") < _most(texts):
        return []
    if len(texts) > TRIED_ROWS:
        texts = texts.take(np.linspace(0, len(texts) - 1, TRIED_ROWS).astype(np.int64))
    sample.connection.register("tried", pa.table({name: texts}))
    patterns = [day + clock for day in _DAYS for clock in _CLOCKS]
    read = (f"{_parsing(name, pattern)}::TIMESTAMP AS p{n}" for n, pattern in enumerate(patterns))
    tried = sample.connection.sql(f"SELECT {', '.join(read)} FROM tried").to_arrow_table()
    found: dict[str, Any] = {}
    for pattern, column in zip(patterns, tried.itercolumns(), strict=True):
        times = _times(column)
        if len(times) >= _most(texts) and times.min() >= 0:  # 24 is no year of four digits
            found[pattern] = np.ptp(times)
    return sorted(found, key=lambda pattern: found[pattern])


def _parsing(name: str, pattern: str) -> str:
    """DuckDB's expression that reads times which are written so."""
    letters = _LETTERS.sub(lambda run: f"%{_STRPTIME[run[0]]}", pattern.replace("'", ""))
    return f"try_strptime({quoted(name)}, {text_literal(letters)})"


def _times(column: pa.ChunkedArray) -> np.ndarray:
    return _present(_event_times(column, None))


def _event_times(column: pa.ChunkedArray, unit: str | None) -> np.ndarray:
    return event_times(column.combine_chunks(), unit)


def _present(times: np.ndarray) -> np.ndarray:
    return times[times != ABSENT]


def _pane_us(by_file: list[np.ndarray]) -> int:
    """Some thousands of panes at most, and none below the step in which the times come. A few times
    that are far off say nothing about the others of their file."""
    times = np.concatenate(by_file)
    spans = [np.quantile(own, [0.01, 0.99]) for own in by_file if len(own)]
    first, last = (np.min(spans), np.max(spans)) if spans else (0, 0)
    panes = list(WINDOWS_US)
    for pane in panes:
        longer = [p for p in panes if p > pane]
        in_steps = longer and np.mean(times % longer[0] == 0) > 1 - BAD_SHARE_MAX
        if (last - first) / pane <= PANES_MAX and not in_steps:
            return pane
    return panes[-1]


def _behind_us(times: np.ndarray) -> int:
    """How late events come, in the order of a file: a pane's length, at most a day."""
    if not len(times):
        return 0
    near = times[times <= np.quantile(times, 0.99)]  # one that is far ahead makes none late
    behind = np.quantile(np.maximum.accumulate(near) - near, LATE_SHARE)
    return next((pane for pane in WINDOWS_US if pane >= behind), max(WINDOWS_US))


def _number_in_text(column: pa.ChunkedArray, mixed: bool = False) -> tuple[str, np.ndarray] | None:
    """What makes numbers of a column of text, and of which rows it does not."""
    if not pa.types.is_string(column.type):
        return None
    texts = column.drop_null()
    counts = {form: count(texts, form) for form in _NUMBERS}
    form = max(counts, key=lambda each: counts[each])
    others = {text for text in texts.unique().to_pylist() if not re.fullmatch(form, text)}
    share = NONE_SHARE_MAX if len(others) <= WORDS_FOR_NONE_MAX else BAD_SHARE_MAX
    bad = len(texts) - counts[form]
    mark = "," if "translate" in _NUMBERS[form] else "."
    scales = (
        scale
        for scale in range(2, SCALE_MAX + 1)
        if count(texts, rf"[^{mark}]{{0,12}}[{mark}]\d{{{scale}}}\D*") == counts[form]
    )
    scale = next(scales, 0)  # as many in each, as amounts have: 1.5 may be a float
    if bad > share * len(texts) or (counts[_PLAIN] == len(texts) and not scale and not mixed):
        return None
    whole = form == _PLAIN and count(texts, r"\s*[+-]?\d{1,18}\s*") == counts[form]
    if whole and count(texts, r"\s*0\d+\s*"):  # 0042 is a name, such as that of an account
        return None
    kind = f"DECIMAL({DIGITS_MAX}, {scale})" if scale else "BIGINT" if whole else "DOUBLE"
    others_at = pc.fill_null(pc.is_in(column, pa.array(others, pa.string())), False)
    return f"TRY_CAST({_NUMBERS[form]} AS {kind})", others_at.to_numpy()


def _is_number(kind: str) -> bool:
    return bool(re.fullmatch(r"DECIMAL.*|FLOAT|DOUBLE|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER", kind))


def _looks_like_key(name: str, kind: str, distinct: int) -> bool:
    return "INT" in kind and (distinct <= 2 or bool(_CODE_NAME.search(_GAP.sub("_", name))))
