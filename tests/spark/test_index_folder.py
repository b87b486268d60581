"""An index goes where its path says, or is refused."""

import pytest

from muntin.errors import BadArgument, SourceError, SpecError
from muntin.spark.index.reader import IndexReader
from muntin.spark.index.sources import _check_columns
from muntin.storage import full_name


def test_a_path_and_a_uri_of_this_machine(tmp_path):
    assert full_name(tmp_path / "a b") == str(tmp_path / "a b")
    for begin in ("file:", "file://", "file://localhost"):  # as Spark reads it: %20 is no space
        assert full_name(f"{begin}{tmp_path}/a%20b") == str(tmp_path / "a%20b")
    with pytest.raises(SourceError, match="holds no index"):
        IndexReader.open(f"file://{tmp_path}/none")


@pytest.mark.parametrize("path", ["nowhere://bucket/index", "s3x://bucket/index"])
def test_a_url_of_no_kind_is_refused_and_no_local_folder_is_made(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match="Protocol not known"):
        IndexReader.open(path)
    assert list(tmp_path.iterdir()) == []


def test_a_mistyped_column_is_told_without_those_that_reading_adds():
    with pytest.raises(BadArgument) as told:
        _check_columns(["are"], ["time", "_muntin_file"], "the DataFrame")
    assert str(told.value) == "the DataFrame has no column 'are'; columns: time"
    with pytest.raises(BadArgument, match="did you mean 'area'"):
        _check_columns(["are"], ["time", "area"], "the DataFrame")
