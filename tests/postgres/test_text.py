"""Parameters as literals, and names and times as SELECT's FROM items."""

from __future__ import annotations

import contextlib
import re
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import SelectError, UnknownName
from muntin.select.catalog import QueryInfo, SummaryInfo
from muntin.server.postgres.catalog_language import translated
from muntin.server.postgres.literals import literal, type_probes
from muntin.server.postgres.portal import prepared
from muntin.server.postgres.relations import relations, rewritten
from muntin.server.postgres.reports import Refusal, error_fields
from muntin.server.postgres.settings import SessionSettings
from muntin.server.postgres.text import Edit, Edited, statements_of, with_parameters, words_of

KNOWN = relations(
    {
        "orders": SummaryInfo(
            "orders", "vector_matrix", (("driver",), ("driver", "area")), ("paid",)
        ),
        "clocks": SummaryInfo("clocks", "vector_matrix", (("zone",),), ("time",)),
        "delays": SummaryInfo("delays", "quantiles", by=("origin",)),
        "calls": SummaryInfo("calls", "frequency"),
    },
    {"busiest": QueryInfo("busiest", "SELECT 1")},
)


def test_each_documented_error_has_a_state_of_its_own():
    text = Path("docs/select.md").read_text("utf-8").partition("## Errors")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    codes = re.findall(r"`(\w+)`", " ".join(rows))
    assert len(codes) > 15
    for code in [*codes, "standing"]:
        assert error_fields(SelectError("no", code=code))["C"] != "XX000"
    assert error_fields(UnknownName("there is no such pipeline"))["C"] == "22023"


def test_only_what_has_windows_has_a_table_of_them():
    known = relations(
        {kind: SummaryInfo(kind, kind) for kind in ("periodic", "global_top_k", "frequency")}, {}
    )
    assert [name for name in known if name.startswith("windows")] == ["windows(frequency)"]


def test_a_fingerprint_has_a_table_of_quantiles_where_it_ranks():
    known = relations(
        {
            n: SummaryInfo(n, "fingerprint", parameters={"rank": r})
            for n, r in (("a", "x"), ("b", None))
        },
        {},
    )
    tables = [name for name in known if name.startswith("quantiles")]
    assert tables == ["quantiles(a, 0.5, 0.9, 0.99)"]


@pytest.mark.parametrize("number", ["5001", "999999999", "9" * 5_000])
def test_the_number_of_a_parameter_is_bounded(number):
    """It makes a list of so many: a statement of ten characters would take all memory."""
    with pytest.raises(Refusal, match="at most 5,000 parameters"):
        prepared(f"SELECT ${number}", ())


def test_a_dollar_is_no_parameter():
    assert prepared("SELECT $$a$$", ()).types == ()


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_whatever_a_text_holds_it_stays_one_string(value):
    """Never more than one word of the statement, and that word is the value."""
    text = with_parameters("SELECT $1, x", [literal(value.encode(), 0, 25)]).text
    words = words_of(text)
    assert [word.kind for word in words] == ["name", "string", "sign", "name"]
    assert words[1].text[1:-1].replace("''", "'") == value


@pytest.mark.parametrize(
    ("value", "form", "oid", "written"),
    [
        (b"5", 0, 20, "5"),
        (b"-5", 0, 20, "(-5)"),
        (b"\xff\xff\xff\xfb", 1, 23, "(-5)"),
        (b"1.50", 0, 1700, "1.50"),
        (b"t", 0, 16, "TRUE"),
        (b"nan", 0, 701, "CAST('nan' AS DOUBLE)"),
        (None, 0, 20, "CAST(NULL AS BIGINT)"),
        (None, 0, 0, "NULL"),
        (b"2026-01-01 10:00:00+02", 0, 1184, "TIMESTAMP '2026-01-01 08:00:00'"),
        (b"2026-01-01 +02", 0, 1184, "TIMESTAMP '2025-12-31 22:00:00'"),  # JDBC's setDate
        (b"2026-01-01 +02", 0, 1082, "DATE '2026-01-01'"),
        (bytes(8), 1, 1114, "TIMESTAMP '2000-01-01 00:00:00'"),
        ((79_980_000_001).to_bytes(8), 1, 1083, "TIME '22:13:00.000001'"),
        (b"22:13:00.5", 0, 1083, "TIME '22:13:00.500000'"),
        ((5).to_bytes(8) + bytes(8), 1, 1186, "INTERVAL '0 days 5 microseconds'"),
        (None, 0, 1083, "CAST(NULL AS TIME)"),
    ],
)
def test_literals(value, form, oid, written):
    assert literal(value, form, oid) == written


@pytest.mark.parametrize(
    ("value", "form", "oid", "said"),
    [
        (b"5; DROP", 0, 20, r"\$1 is no value of type bigint: '5; DROP'"),
        (b"1e9999999", 0, 1700, "1e9999999"),
        (b"\x00", 1, 20, "bigint"),
        (b"\xff", 0, 25, r"\$1 is not UTF-8"),
        (b"maybe", 0, 16, "boolean: 'maybe'"),
        (b"x", 0, 17, "bytes"),
        (b"\x00\x02" + bytes(6), 1, 1700, "numeric"),
        (b"{}", 1, 3802, "3802"),
        (b"yesterday", 0, 1184, "yesterday"),
        (b"noon", 0, 1083, "noon"),
        ((86_400_000_000).to_bytes(8), 1, 1083, "time"),
        (struct.pack(">6i", 1, 0, 25, 1, 1, 9) + b"cut", 1, 1009, "send it as text"),
        (struct.pack(">5i", 1, 0, 25, -1, 1), 1, 1009, "send it as text"),
    ],
)
def test_what_is_no_literal_is_refused(value, form, oid, said):
    with pytest.raises(SelectError, match=said):
        literal(value, form, oid)


WORDS = re.findall(
    r"\S+",
    """SELECT FROM WHERE AND time o ( ) , . :: = <> >= ANY ALL ARRAY [ ] '{a}' 'x' $1 $2 FLOAT AS
    CAST TIMESTAMP WITH TIME ZONE AT LIMIT LAST FOR TO INTERVAL TO_DATE 'YYYY-MM-DD' NUMERIC COPY
    DECLARE c CURSOR FETCH SET RESET CLOSE ROLLBACK /* --""",
)


@given(st.lists(st.sampled_from(WORDS), max_size=9))
def test_whatever_words_come_they_are_read_or_refused(words):
    """A statement that breaks off: its end was looked for beyond it, and the connection cut."""
    with contextlib.suppress(SelectError, Refusal):
        found = prepared(" ".join(words), ())
        found.bound(["1"] * len(found.types), ())


@pytest.mark.parametrize("text", ["SELECT count FROM o WHERE d = ANY (", "SELECT $1::", "/* x"])
def test_what_breaks_off_is_left_to_who_answers(text):
    assert prepared(text, ()).bound(["1"], ()).edited.text == text.replace("$1", "1")
    assert statements_of(text) == [text]


def test_a_comment_without_end_is_looked_through_once():
    """Each of its beginnings was: 16 KiB of them held up all clients for seconds."""
    assert [word.kind for word in words_of("SELECT " + "/* " * 5_000)] == ["name", "open"]


@pytest.mark.parametrize(
    "piece",
    ["SELECT $1 ", "AS FLOAT ", "= ANY ('{a}' ", "= ANY (ARRAY[", "= ANY ($1) ", "LIMIT '2' ",
     "$1,", "f(a, ", ") = $1 ", "CAST(a AS TIMESTAMPTZ ", "time < 1 AND ",
     "(SELECT time FROM orders WHERE ", 'FROM (SELECT 1 FROM "orders(driver)", ',
     "$1 + a - ", "a::INT", "coalesce($1, "],
)  # fmt: skip
def test_a_text_that_is_longer_takes_longer_in_proportion(piece):
    """Some took seconds, and one of 16 KiB hours, on the loop that serves all clients."""

    _check_proportion(lambda size: (piece * size)[:size])


@pytest.mark.parametrize(
    ("first", "then", "last"),
    [("coalesce(", "a ", ", $"), ("SELECT a", "::INT", " + $"), ("a", ".a", " + $"),
     ("SELECT a ", "+ a ", " + $")],
)  # fmt: skip
def test_many_parameters_beside_what_is_long_take_longer_in_proportion(first, then, last):
    def text(size):
        half = size // 2
        numbers = "".join(f"{last}{n}" for n in range(1, half // 8))
        return first + (then * half)[:half] + numbers

    _check_proportion(text)


def _check_proportion(text_of):
    def seconds(size):
        text, begun = text_of(size), time.thread_time()
        words_of.cache_clear()
        with contextlib.suppress(SelectError):
            said = prepared(text, ())
            type_probes(text, (), said.types)
            for value in ("'a'", "IN ('a')"):
                said.bound([value] * len(said.types), ())
        with contextlib.suppress(SelectError):
            rewritten(f"SELECT 1 FROM orders WHERE {text}", KNOWN)  # noqa: S608
        return time.thread_time() - begun

    short, long = (min(seconds(size) for _ in range(5)) for size in (1_000, 8_000))
    assert long < 20 * short


@pytest.mark.parametrize(
    "read",
    [
        lambda size: literal(b"1" * size, 0, 1186),  # a length of time
        lambda size: SessionSettings({"options": "-" * size}),  # before anybody has logged in
    ],
)
def test_what_is_no_value_is_looked_through_once(read):
    def seconds(size):
        begun = time.thread_time()
        read(size)
        return time.thread_time() - begun

    short, long = (min(seconds(size) for _ in range(3)) for size in (2_000, 16_000))
    assert long < 20 * short


def test_what_parameters_make_of_a_text_is_bounded():
    with pytest.raises(SelectError, match="at most 32,768 bytes") as raised:
        prepared("SELECT " + "$1," * 5_000, ()).bound([literal(b"x" * 12_000, 0, 25)], ())
    assert raised.value.position == len("SELECT $1,$1,")


def test_a_filter_by_time_in_many_brackets_is_no_recursion():
    text = "SELECT count FROM orders WHERE " + "(time >= '2026-01-01' AND " * 600 + "1" + ")" * 600
    with pytest.raises(SelectError, match="no window"):
        rewritten(text, KNOWN)


def test_parameters_in_strings_names_and_comments_are_none():
    text = """SELECT '$1', "$1", $1 -- $1\n/* $1 */ FROM x"""
    assert with_parameters(text, ["7"]).text == """SELECT '$1', "$1", 7 -- $1\n/* $1 */ FROM x"""
    with pytest.raises(SelectError, match="no parameter"):
        with_parameters("SELECT $2", ["7"])


def test_a_cast_of_a_literal_to_what_it_is():
    assert with_parameters("LIMIT $1::INTEGER", ["2"]).text == "LIMIT 2"
    given_ = with_parameters("FOR $1::TIMESTAMP WITH TIME ZONE TO $2", ["'a'", "'b'"])
    assert given_.text == "FOR 'a' TO 'b'"
    given_ = with_parameters("at > $1::TIMESTAMP WITH TIME ZONE, $2::date", ["'a'", "'b'"])
    assert given_.text == "at > TIMESTAMP 'a', DATE 'b'"
    assert with_parameters("$1::INTEGER", ["'2'"]).text == "'2'::INTEGER"
    assert with_parameters("SELECT $1::int8", ["2"]).text == "SELECT 2::int8"  # of 64 bits
    given_ = with_parameters("ranks(d, $1, 5, $2) - $1", ["(-5)", "CAST(NULL AS DOUBLE)"])
    assert given_.text == "ranks(d, -5, 5, NULL) - (-5)"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("a >= timestamp with time zone '2026-01-01 01:00:00.000+02'",
         "a >= TIMESTAMP '2025-12-31 23:00:00'"),
        ("a >= '2026-01-01 01:00Z'::timestamptz AND b",
         "a >= TIMESTAMP '2026-01-01 01:00:00' AND b"),
        ("'2026-01-01'::TIMESTAMP WITH TIME ZONE", "TIMESTAMP '2026-01-01 00:00:00'"),
        ("'x'::timestamptz, 'y'::text, TIMESTAMP 'z'",
         "'x'::TIMESTAMP, 'y'::text, TIMESTAMP 'z'"),
        ("CAST(CAST(a AS date) AS timestamptz), b::timestamp with time zone AT TIME ZONE 'UTC', "
         "timestamptz",  # Metabase
         "CAST(CAST(a AS date) AS TIMESTAMP), b::TIMESTAMP , timestamptz"),
        ("a::float / 3, CAST(f(b, 1) AS FLOAT), (SELECT c AS float)",  # of 53 bits
         "a::DOUBLE / 3, CAST(f(b, 1) AS DOUBLE), (SELECT c AS float)"),
        ("x::FLOAT(53) + $1::float(24)", "x::DOUBLE + 1::REAL"),
        ("a::numeric + CAST(b AS DECIMAL) - c::numeric(9, 2), numeric",
         "a::DOUBLE + CAST(b AS DOUBLE) - c::numeric(9, 2), numeric"),
        ("a = 12345678901234567890::numeric AND b < '-12345678901234567890'::decimal AND "
         "c -(-12345678901234567)::numeric > CAST(12345678901234567 AS NUMERIC)",  # postgres_fdw
         "a = (12345678901234567890) AND b < (-12345678901234567890) AND "
         "c -(( - 12345678901234567 )) > (12345678901234567)"),
        ("(a + 12345678901234567)::numeric, 1e18::numeric, 5::numeric, 12345678901234567::text",
         "(a + 12345678901234567)::DOUBLE, 1e18::DOUBLE, 5::DOUBLE, 12345678901234567::text"),
        ("a >= TO_TIMESTAMP('2026-01-01 00:00:00.0', 'YYYY-MM-DD HH24:MI:SS.US') AND "
         "b < to_date('2026-01-02', 'YYYY-MM-DD') AND c = TO_DATE('01/02', 'DD/MM')",  # Superset
         "a >= TIMESTAMP '2026-01-01 00:00:00.0' AND b < DATE '2026-01-02' "
         "AND c = TO_DATE('01/02', 'DD/MM')"),
        ("a <> ALL ('{b,\"null\"}'::text[]) AND c = ANY('{}')",
         "a NOT IN ('b', 'null') AND c IN (SELECT NULL WHERE FALSE)"),
        ("a=ANY('{b}') AND c<>ALL(ARRAY['d'])", "a IN ('b') AND c NOT IN ('d')"),
        ("a = ANY('{b}'::character varying(10)[])", "a IN ('b')"),
        ("a = ANY(ARRAY['b'] || ARRAY['c']) OR a = ANY('{b}' || $1)",  # no more than one list
         "a = ANY(ARRAY['b'] || ARRAY['c']) OR a = ANY('{b}' || 1)"),
        ("TO_DATE($1, 'YYYY-MM-DD')", "TO_DATE(1, 'YYYY-MM-DD')"),
        ("FOR '2026-01-01 10:00'::timestamp TO '2026-01-02'::date AND '2026-01-03'::date",
         "FOR '2026-01-01 10:00:00' TO '2026-01-02 00:00:00' AND '2026-01-03'::date"),
        ("FOR LAST '1 day, 2:00:03'::interval", "FOR LAST '1 day 2 hours 00 minutes 03 seconds'"),
        (r"""a = E'b\\c''d\'' AND b = E'\x41' AND c = ANY( E'{"\\\\"}')""",  # libpq's quoting
         r"""a = 'b\c''d''' AND b = E'\x41' AND c IN ('\')"""),
        ("ranks(d, $1::float8, 5, $1::double precision)", "ranks(d, 1, 5, 1)"),
        ("substring(a FROM b(2) FOR 3) || SUBSTRING(a, 2) FROM o FOR ALL",  # SQLAlchemy
         "substring(a , b(2) , 3) || SUBSTRING(a, 2) FROM o FOR ALL"),
        ("SELECT a*'1.5', '2' - b, '3' || c - '-4' FROM top_k(f, '5'), contains(f, '6')",
         "SELECT a*1.5, 2 - b, '3' || c - (-4) FROM top_k(f, 5), contains(f, '6')"),
        ("DATE '20260101' - INTERVAL '1' + a - '7'::int",
         "DATE '20260101' - INTERVAL '1' + a - '7'::int"),
        ("EXISTS (SELECT FROM o) AND exists(select 1 from o)",
         "EXISTS (SELECT 1 FROM o) AND exists(select 1 from o)"),
    ],
)  # fmt: skip
def test_types_that_only_postgresql_has(text, becomes):
    assert with_parameters(text, ["1"]).text == becomes


def test_numbers_that_drivers_send_as_texts():
    """Node's pg, PDO and DBD::Pg say no type, and ask for none."""
    said = with_parameters("SELECT a * $1 / $2 FROM quantiles(f, $2)", ["'-2'", "'0.5'"])
    assert said.text == "SELECT a * (-2) / 0.5 FROM quantiles(f, 0.5)"
    said = with_parameters("SELECT $1 || a - $1 * $2", ["'2'", "'x'"])
    assert said.text == "SELECT '2' || a - 2 * 'x'"


def test_the_log_has_no_words_of_a_client(caplog):
    """sqlglot warned with the statement: whoever may read wrote lines of the log."""
    with pytest.raises(SelectError, match="only SELECT"):
        translated("EXPLAIN SELECT 1\nERROR:muntin: 1", {}, {})
    assert not caplog.records


def test_statements():
    assert statements_of("SELECT ';'; ; SELECT 2 -- ;\n;") == ["SELECT ';'", " SELECT 2 -- ;\n"]


@given(
    st.text("abc"), st.lists(st.tuples(st.integers(0, 3), st.text("xyz", max_size=4)), max_size=3)
)
def test_places_before_edits(tail, given_):
    text = "0123456789" * 3 + tail
    edits = [Edit(10 * n + at, 10 * n + at + 2, new) for n, (at, new) in enumerate(given_)]
    edited = Edited(text, edits)
    for place, character in enumerate(edited.text):
        if character not in "xyz ":  # an edit's words stand apart
            assert text[edited.before(place)] == character


def test_what_there_is_as_tables():
    assert list(KNOWN) == sorted(
        ["orders", "orders(driver)", "orders(driver, area)", "clocks", "clocks(zone)"]
        + ["quantiles(delays, 0.5, 0.9, 0.99)", "top_k(calls)", "trend(busiest)"]
        + [f"windows({name})" for name in ("orders", "clocks", "delays", "calls")]
    )


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        (
            'SELECT * FROM "orders(driver)"',
            'SELECT * FROM orders(driver) AS "orders(driver)"',
        ),
        ('SELECT * FROM public."orders(driver)" AS o', "SELECT * FROM orders(driver) AS o"),
        ('SELECT * FROM "orders(driver)" o', "SELECT * FROM orders(driver) o"),
        (
            'SELECT 1 FROM "orders(driver)" FOR ALL',
            "SELECT 1 FROM orders(driver) FOR ALL",
        ),
        ("SELECT 1 FROM x WHERE a LIKE '%b' escape ''", "SELECT 1 FROM x WHERE a LIKE '%b' "),
        (  # as PostgreSQL reads a backslash
            r"SELECT 1 FROM x WHERE (a LIKE 'b\_%') AND c NOT ilike ('%' || '\%'::text || '%') AND "
            r"d LIKE '%' || '\e' || '%' escape '!' AND f LIKE 'g'",
            r"SELECT 1 FROM x WHERE (a LIKE 'b\_%' ESCAPE '\') AND c NOT ilike ('%' || '\%'::text "
            r"|| '%') ESCAPE '\' AND d LIKE '%' || '\e' || '%' escape '!' AND f LIKE 'g'",
        ),
        (  # as DuckDB compares texts
            """SELECT paid FROM "public"."orders(driver)" WHERE "driver" > 'a' COLLATE "C" """,
            """SELECT paid FROM orders(driver) AS "orders(driver)" WHERE "driver" > 'a'  """,
        ),
        ('SELECT "orders(driver)".driver FROM x', 'SELECT "orders(driver)".driver FROM x'),
        (
            "SELECT count FROM orders WHERE time >= '2026-01-01' AND time < '2026-01-02'",
            "SELECT count FROM orders FOR '2026-01-01' TO '2026-01-02' ",
        ),
        (
            "SELECT paid FROM orders(driver) o WHERE driver = 'a' AND (o.time >= "
            "TIMESTAMP '2026-01-01' AND '2026-01-02'::timestamptz > o.time) ORDER BY 1",
            "SELECT paid FROM orders(driver) o FOR '2026-01-01' TO '2026-01-02' "
            "WHERE driver = 'a' ORDER BY 1",
        ),
        (
            "SELECT q FROM quantiles(delays, 0.5) WHERE time BETWEEN '2026-01-01T00:00:00Z' AND "
            "'2026-01-02T00:00:00Z' AND q > 0 LIMIT 5",
            "SELECT q FROM quantiles(delays, 0.5) FOR '2026-01-01T00:00:00Z' TO "
            "'2026-01-02T00:00:00Z' WHERE q > 0 LIMIT 5",
        ),
        (  # as dbt names a source, and Metabase a column
            'SELECT "shop"."public"."orders(driver)"."paid" FROM "shop"."public"."orders(driver)" '
            """WHERE shop.public."orders(driver)".time BETWEEN '2026-01-01' AND '2026-01-02'""",
            'SELECT "orders(driver)"."paid" FROM orders(driver) AS "orders(driver)" '
            "FOR '2026-01-01' TO '2026-01-02' ",
        ),
        (  # each SELECT has its window, as tools put a statement into another
            "SELECT * FROM (SELECT paid FROM orders WHERE time >= '2026-01-01' AND paid > 0 AND "
            "time < '2026-01-02' AND paid IN (SELECT paid FROM public.orders WHERE "
            "time >= '2026-02-01' AND time < '2026-02-02') LIMIT 9) AS q WHERE paid > 1 UNION "
            'SELECT paid FROM "orders(driver)" WHERE time BETWEEN '
            "'2026-03-01' AND '2026-03-02'",
            "SELECT * FROM (SELECT paid FROM orders FOR '2026-01-01' TO '2026-01-02' WHERE "
            "paid > 0 AND paid IN (SELECT paid FROM orders FOR '2026-02-01' TO '2026-02-02' ) "
            "LIMIT 9) AS q WHERE paid > 1 UNION SELECT paid FROM orders(driver) AS "
            "\"orders(driver)\" FOR '2026-03-01' TO '2026-03-02' ",
        ),
        # patterns, of a column alone
        (
            "SELECT a || b ~ 'x', c ~ 'd' FROM public.orders WHERE public.orders.a::text !~* '5' "
            "AND NOT (\"n\" ~ 'it''s'::text) AND 'k' ~ 'l'",
            "SELECT a || b ~ 'x', regexp_matches(c, '(?s)d') FROM orders WHERE NOT "
            "regexp_matches(orders.a, '(?si)5') AND NOT (regexp_matches(\"n\", '(?s)it''s')) "
            "AND 'k' ~ 'l'",
        ),
        # its own column is meant
        ("SELECT 1 FROM clocks(zone) WHERE time > 5", "SELECT 1 FROM clocks(zone) WHERE time > 5"),
    ],
)
def test_rewritten(text, becomes):
    assert rewritten(text, KNOWN)[0].text == becomes


ENDS = (
    ["time >= '2026-01-01'", "'2026-01-02' > time"],
    ["((time >= '2026-01-01') AND (time < '2026-01-02'))"],
    ["(time BETWEEN '2026-01-01' AND '2026-01-02')"],
)
OTHERS = ("EXISTS (SELECT 1 FROM calls WHERE n > 1)", "paid IN (SELECT n FROM x)", "(a OR b)")


@given(st.sampled_from(ENDS).flatmap(lambda ends: st.permutations([*ends, *OTHERS])))
def test_a_window_is_found_wherever_its_ends_stand(parts):
    others = " AND ".join(part for part in parts if part in OTHERS)
    text = rewritten(f"SELECT 1 FROM orders WHERE {' AND '.join(parts)}", KNOWN)[0].text  # noqa: S608
    becomes = f"SELECT 1 FROM orders FOR '2026-01-01' TO '2026-01-02' WHERE {others}"  # noqa: S608
    assert " ".join(text.split()) == becomes


@pytest.mark.parametrize(
    "where",
    [
        "time >= '2026-01-01'",
        "time > '2026-01-01' AND time < '2026-01-02'",
        "time >= '2026-01-01' AND time <= '2026-01-02'",
        "time >= '2026-01-01' OR time < '2026-01-02'",
        "time >= '2026-01-01' AND time < '2026-01-02' AND time < '2026-01-03'",
        "time = '2026-01-01'",
        "time >= now() AND time < '2026-01-02'",
        "time >= 'soon' AND time < '2026-01-02'",
        "NOT (time >= '2026-01-01' AND time < '2026-01-02')",
        "coalesce(time, '2026-01-01') >= '2026-01-01'",
    ],
)
def test_times_that_are_no_window_are_refused(where):
    with pytest.raises(SelectError) as refused:
        rewritten(f"SELECT count FROM orders WHERE {where}", KNOWN)  # noqa: S608
    assert refused.value.code == "window"
    assert "FOR" in refused.value.remedy


@pytest.mark.parametrize(
    "start",
    ["orders FOR ALL", "orders JOIN clocks USING (zone)", "orders, clocks"],
)
def test_a_filter_by_time_needs_one_plain_item(start):
    with pytest.raises(SelectError, match=r"alone|already"):
        rewritten(
            f"SELECT 1 FROM {start} WHERE time >= '2026-01-01' AND time < '2026-01-02'",  # noqa: S608
            KNOWN,
        )
