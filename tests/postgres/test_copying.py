"""COPY: its options, and the lines that it writes: as PostgreSQL 15 wrote them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.errors import SelectError
from muntin.server.postgres.copying import copied
from muntin.server.postgres.text import words_of

ROWS = pa.table({
    "a": ['q"r', "", None, "\\N", "x|y,z", "tab\t\r\n\\."],
    'b,"c"': [1, None, 3, 4, 5, 6],
    "d": [True, False, None, True, True, True],
})  # fmt: skip


def written(options, table=ROWS):
    """The lines, each of which is a message."""
    how = copied(words_of(f"COPY (SELECT 1) TO STDOUT {options}"))[1]
    data = b"".join(how.messages(table))
    lines = []
    while data:
        size = int.from_bytes(data[1:5])
        assert data[:1] == b"d"
        lines.append(data[5 : size + 1].decode())
        data = data[size + 1 :]
    return lines


TEXT = [
    'q"r\t1\tt\n', "\t\\N\tf\n", "\\N\t3\t\\N\n", "\\\\N\t4\tt\n", "x|y,z\t5\tt\n",
    "tab\\t\\r\\n\\\\.\t6\tt\n",
]  # fmt: skip
CSV = [
    '"q""r",1,t\n', '"",,f\n', ",3,\n", "\\N,4,t\n", '"x|y,z",5,t\n', '"tab\t\r\n\\.",6,t\n',
]  # fmt: skip
HEAD = 'a,"b,""c""",d\n'


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ("", TEXT),
        ('WITH (FORMAT "text")', TEXT),
        ("(HEADER)", ['a\tb,"c"\td\n', *TEXT]),
        ("csv", CSV),
        ("csv header", [HEAD, *CSV]),  # as psql's \copy writes it
        ("WITH (FORMAT 'csv', HEADER true, DELIMITER ',')", [HEAD, *CSV]),
        ("(FORMAT csv, HEADER off, ENCODING 'UTF-8')", CSV),
        ("DELIMITER AS '|' NULL AS ''", [
            'q"r|1|t\n', "||f\n", "|3|\n", "\\\\N|4|t\n", "x\\|y,z|5|t\n",
            "tab\\t\\r\\n\\\\.|6|t\n",
        ]),
        ("CSV NULL '\\N' FORCE QUOTE *", [
            '"q""r","1","t"\n', '"",\\N,"f"\n', '\\N,"3",\\N\n', '"\\N","4","t"\n',
            '"x|y,z","5","t"\n', '"tab\t\r\n\\.","6","t"\n',
        ]),
        ("(FORMAT csv, DELIMITER '|', QUOTE '\"', ESCAPE 'x', NULL '4')", [
            '"qx"r"|1|t\n', "|4|f\n", "4|3|4\n", '\\N|"4"|t\n', '"xx|y,z"|5|t\n',
            '"tab\t\r\n\\."|6|t\n',
        ]),
    ],
)  # fmt: skip
def test_lines(options, lines):
    assert written(options) == lines


def test_of_standard_input():
    """PHP's pgsqlCopyToArray writes it, and PostgreSQL takes it for the output."""
    text = "COPY a TO STDIN WITH DELIMITER E'|' NULL AS E'\\\\N'"
    edits, how = copied(words_of(text))
    assert how is not None
    assert (how.delimiter, how.null) == ("|", "\\N")
    assert edits[0].text == "SELECT * FROM"


def test_rows_in_portions_and_none_at_all():
    many = pa.table({"n": range(20_000)})
    assert written("csv header", many) == ["n\n", *(f"{n}\n" for n in range(20_000))]
    assert written("csv header", many.slice(0, 0)) == ["n\n"]
    assert written("", many.slice(0, 0)) == []
    assert written("csv", pa.table({"a": ["\\.", ".\\"]})) == ['"\\."\n', ".\\\n"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("(FORMAT json)", "no option 'FORMAT JSON'"),
        ("(FORMAT csv, FORCE_QUOTE (a))", "no option 'FORCE_QUOTE"),
        ("(FORMAT binary, HEADER)", "HEADER is not for the format binary"),
        ("(QUOTE '!')", "QUOTE is not for the format text"),
        ("CSV DELIMITER 'ab'", "one character of ASCII, not 'ab'"),
        ("DELIMITER 'a'", "DELIMITER cannot be 'a'"),
        ("CSV DELIMITER '\"'", "DELIMITER and QUOTE are the same"),
        ("CSV NULL 'a,b'", "NULL cannot be 'a,b'"),
        ("CSV ENCODING 'LATIN1'", "texts are in UTF8"),
    ],
)
def test_what_no_reader_could_read_is_refused(options, said):
    with pytest.raises(SelectError, match=said) as refused:
        written(options)
    assert refused.value.remedy
