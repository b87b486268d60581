"""Links in the documents lead somewhere, and what they show is what there is."""

import re
from pathlib import Path

import pytest
import yaml

from muntin.spec import Pipeline

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_pipeline_file_of_the_reference_is_one():
    text = (ROOT / "docs" / "pipeline-file.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(name: flights.*?)```", text, re.DOTALL)[1]
    assert "on: window" in example
    entries = yaml.load(example.replace("on: window", '"on": window'), Loader=yaml.SafeLoader)
    assert Pipeline.of(entries).name == "flights"


def test_every_document_is_reached_from_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [p.name for p in (ROOT / "docs").glob("*.md") if f"docs/{p.name}" not in readme]
    assert not missing
