"""An index goes where its path says, or is refused."""

import pytest

from muntin.errors import BadArgument, SourceError
from muntin.spark.index.files import index_folder
from muntin.spark.index.reader import IndexReader


def test_a_path_and_a_uri_of_this_machine(tmp_path):
    assert index_folder(tmp_path / "a b") == tmp_path / "a b"
    assert index_folder(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    with pytest.raises(SourceError):
        IndexReader.open(f"file://{tmp_path}/none")


@pytest.mark.parametrize("path", ["s3a://bucket/index", "gs://bucket/index", "hdfs://h/index"])
def test_what_is_elsewhere_is_refused_and_no_local_folder_is_made(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadArgument, match="mapped into memory: name a folder"):
        IndexReader.open(path)
    with pytest.raises(BadArgument, match="mapped into memory: name a folder"):
        index_folder(path)
    assert list(tmp_path.iterdir()) == []
