"""What tasks send to the driver arrives as it was, whichever way it came."""

import pytest

from muntin.spark.rows import PIECE_BYTES, ROWS_DDL, as_batches, from_table, tasks_of

SIZES = (0, 2, PIECE_BYTES - 2, PIECE_BYTES, PIECE_BYTES + 2, 3 * PIECE_BYTES + 8)


@pytest.fixture(scope="module")
def rows_of():
    """A function of its own: workers do not have this file."""

    def rows(task):
        return [
            (what, f"name {task}", -(2**62) + size, bytes([task, what]) * (size // 2))
            for what, size in enumerate(SIZES)
        ] + [(7, "", 0, b"odd")]

    return rows


@pytest.mark.spark
@pytest.mark.parametrize("count", [0, 1, 3])
def test_rows_of_tasks_over_numbers(spark, rows_of, count):
    expected = [row for task in range(count) for row in rows_of(task)]
    assert tasks_of(spark)(count, rows_of) == expected


@pytest.mark.spark
def test_rows_of_tasks_over_a_dataframe(spark, rows_of):
    def task(batches):
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from as_batches(rows_of(number))

    found = from_table(spark.range(0, 2, 1, 2).mapInArrow(task, ROWS_DDL).toArrow())
    assert found == [*rows_of(0), *rows_of(1)]
    assert from_table(spark.range(0).mapInArrow(task, ROWS_DDL).toArrow()) == []


@pytest.mark.spark
def test_an_error_of_ours_comes_back_as_itself(spark):
    from muntin.errors import SummaryOverflow
    from muntin.spark.failures import plainly

    def task(number):
        raise SummaryOverflow("a sum is beyond int64")

    with pytest.raises(SummaryOverflow, match=r"^a sum is beyond int64$"), plainly():
        tasks_of(spark)(2, task)


@pytest.mark.parametrize(
    ("account", "said"),
    [
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: got erliest",
            "got erliest",
        ),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: Name all.\nThere: Set(a-0)"
            " SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: a",
            "Name all. There: Set(a-0)",
        ),
        (
            "[STREAM_FAILED] Query [id = 1] ended: [NOT_GOOD.AT_ALL] It is not.",
            "[NOT_GOOD.AT_ALL] It is not.",
        ),
        (
            "[FAILED_READ_FILE.NO_HINT] Read a.parquet. SQLSTATE: K\nCaused by: a.b.NotFound: c.D",
            "[FAILED_READ_FILE.NO_HINT] Read a.parquet: NotFound: c.D",
        ),
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] No a.csv. SQLSTATE: K\n"
            "Caused by: java.io.FileNotFoundException: /a.csv (Permission denied)",
            "/a.csv (Permission denied): let this user read it",
        ),
    ],
)
def test_of_sparks_account_the_line_that_says_it_is_told(account, said):
    from muntin.spark.failures import DAMAGED, reason

    problem = Exception(account)
    assert reason(problem).removesuffix(DAMAGED) == said
    assert reason(problem).endswith(DAMAGED) == ("READ_FILE.NO" in account)
    if said == "got erliest":
        problem._stackTrace = "\tat a.b\nCaused by: java.nio.NoSuchFileException: /nowhere.pem\n"
        assert reason(problem) == f"{said}: NoSuchFileException: /nowhere.pem"
        problem._stackTrace = (
            "\tat a.b\nCaused by: java.lang.IllegalArgumentException: got erliest\n"
        )
        assert reason(problem) == said


def test_a_file_and_a_disk_that_spark_cannot_use_are_told_with_a_remedy():
    from muntin.spark.failures import reason, worker_error

    colon = "[FAILED_READ_FILE.NO_HINT] Read a:b.csv. SQLSTATE: K\nCaused by: java.net."
    colon += "URISyntaxException: Relative path in absolute URI: .a:b.csv.crc"
    assert "cannot open a file with ':' in its name: give it another" in reason(Exception(colon))
    for full, said in (
        ("java.io.IOException: No space left on device", "the disk of Spark's checkpoint, or of"),
        ("OSError: [Errno 28] No space left on device: '/tmp/x'", "[Errno 28] No space left on "),
    ):
        assert str(worker_error(Exception(full))).startswith(said)
        assert str(worker_error(Exception(full))).endswith(": free space, then start again")
    expired = "Cannot load current offset at snapshot 42, the snapshot was expired or removed"
    told = str(worker_error(Exception(f"IllegalStateException: {expired}\n\tat a.b")))
    assert "snapshot 42, up to which the checkpoint has read, has expired: name another" in told


def test_a_row_that_ends_the_run_is_told_with_what_does_not_make_sums_wrap():
    from muntin.spark.failures import reason

    said = reason(Exception(
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [ARITHMETIC_OVERFLOW] overflow. "
        "Use 'try_multiply' to return NULL. If necessary set \"spark.sql.ansi.enabled\" to "
        '"false" to bypass this error. SQLSTATE: 22003'
    ))  # fmt: skip
    assert said.startswith("[ARITHMETIC_OVERFLOW] overflow. Use 'try_multiply' to return NULL. SQL")
    assert "under fields" in said
    assert "ansi" not in said
