"""JDBC: PostgreSQL's own driver from Maven Central, in a Java process that is told by py4j."""

from __future__ import annotations

import hashlib
import urllib.request
from pathlib import Path

import pyspark
import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from muntin.spark.connector import cache_folder

DRIVER = "postgresql-42.7.8.jar"
URL = f"https://repo.maven.apache.org/maven2/org/postgresql/postgresql/42.7.8/{DRIVER}"
SHA256 = "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7"
SELECT = "SELECT driver, count FROM orders(driver) FOR ALL ORDER BY driver"
ROWS = [(driver, 18) for driver in "abcde"]


@pytest.fixture(scope="module")
def java():
    jar = cache_folder() / DRIVER
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        try:
            with urllib.request.urlopen(URL, timeout=60) as found:
                jar.write_bytes(found.read())
        except OSError as problem:
            pytest.skip(f"Maven Central cannot be reached: {problem}")
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == SHA256
    (bridge,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    gateway = JavaGateway.launch_gateway(jarpath=str(bridge), classpath=str(jar), die_on_exit=True)
    yield gateway.jvm
    gateway.shutdown()


@pytest.fixture(scope="module")
def jdbc(java, fed):
    connection = java.java.sql.DriverManager.getConnection(
        fed.postgres_url.replace("postgresql://muntin@", "jdbc:postgresql://"), "muntin", ""
    )
    yield connection
    connection.close()


def rows_of(found):
    columns = range(1, found.getMetaData().getColumnCount() + 1)
    rows = []
    while found.next():
        rows.append(tuple(found.getObject(at) for at in columns))
    return rows


def test_rows_and_what_they_are_true_of(jdbc):
    statement = jdbc.createStatement()
    assert rows_of(statement.executeQuery(SELECT)) == ROWS
    assert statement.getWarnings().getMessage().startswith("exact; orders covers 2023-11-14")


def test_parameters_prepared_by_the_server(java, jdbc):
    """From the fifth time on the driver prepares it, and asks for binary."""
    asked = jdbc.prepareStatement(
        "SELECT driver, fare / 4.0 AS part FROM orders(driver) FOR ALL WHERE driver >= ? "
        "AND count > ? ORDER BY driver"
    )
    for count in range(8):
        asked.setString(1, "d")
        asked.setInt(2, count)
        assert rows_of(asked.executeQuery()) == [("d", 27.0), ("e", 36.0)]
    dates = jdbc.prepareStatement("SELECT count FROM orders WHERE time >= ? AND time < ?")
    for at, day in enumerate(("2023-11-14", "2023-11-16"), 1):
        dates.setDate(at, java.java.sql.Date.valueOf(day))
    assert rows_of(dates.executeQuery()) == [(90,)]
    window = jdbc.prepareStatement("SELECT count FROM orders WHERE time >= ? AND time < ?")
    for at, seconds in enumerate((1_700_000_000, 1_700_000_060), 1):
        window.setTimestamp(at, java.java.sql.Timestamp(1000 * seconds))
    assert rows_of(window.executeQuery()) == [(30,)]


def test_rows_in_portions(jdbc):
    jdbc.setAutoCommit(False)
    statement = jdbc.createStatement()
    statement.setFetchSize(2)
    assert rows_of(statement.executeQuery(SELECT)) == ROWS
    jdbc.commit()
    jdbc.setAutoCommit(True)


def test_what_tools_look_through(jdbc):
    about = jdbc.getMetaData()
    tables = {row[2] for row in rows_of(about.getTables(None, None, "%", None))}
    assert {"orders", "orders(driver)", "trend(busiest)", "windows(orders)"} <= tables
    columns = rows_of(about.getColumns(None, "public", "orders(driver)", "%"))
    assert [(row[3], row[5]) for row in columns] == [
        ("driver", "text"), ("count", "int8"), ("served", "int8"), ("fare", "int8"),
    ]  # fmt: skip
    assert ("public", "muntin") in rows_of(about.getSchemas())
    assert rows_of(about.getPrimaryKeys(None, "public", "orders")) == []
    assert rows_of(about.getImportedKeys(None, "public", "orders")) == []
    assert rows_of(about.getIndexInfo(None, "public", "orders", False, False)) == []
    assert len(rows_of(about.getTypeInfo())) > 10
    # what Hibernate, DBeaver and jOOQ ask when they connect
    assert "limit" in about.getSQLKeywords()
    assert about.getMaxTableNameLength() == 1024
    assert rows_of(about.getClientInfoProperties())[0][:2] == ("ApplicationName", 1024)
    assert rows_of(about.getProcedureColumns(None, None, None, None)) == []
    assert rows_of(about.getCrossReference(None, None, "orders", None, None, None)) == []


def test_an_error_has_its_place(jdbc):
    with pytest.raises(Py4JJavaError) as wrong:
        jdbc.createStatement().executeQuery("SELECT drivr FROM orders(driver)")
    error = wrong.value.java_exception
    assert error.getSQLState() == "42703"
    assert error.getServerErrorMessage().getPosition() == 8
    assert error.getServerErrorMessage().getHint() == "did you mean 'driver'?"
