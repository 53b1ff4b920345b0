"""A reader finds the way: short sidebars, index pages, a logo."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from checkout import ROOT

from xagents_ray.storage.migrations import newest_format

DOCS = ROOT / "docs"
LONGEST = 15
"""Entries of a sidebar, its heading included."""


SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def sections(nav: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the sections of the navigation by their titles."""
    for entry in nav:
        for title, inside in entry.items() if isinstance(entry, dict) else ():
            if isinstance(inside, list):
                yield title, inside
                yield from sections(inside)


def test_no_sidebar_is_long() -> None:
    """With tabs and pruning, a sidebar shows the section of its page alone."""
    assert {"navigation.tabs", "navigation.prune"} <= {*SITE["theme"]["features"]}
    assert "navigation.expand" not in SITE["theme"]["features"]
    found = dict(sections(SITE["nav"]))
    assert {"Algorithms", "Guides", "Coming from", "Reference", "Project"} <= {*found}
    assert len(SITE["nav"]) <= LONGEST
    for title, inside in found.items():
        assert len(inside) <= LONGEST, title


@pytest.mark.parametrize(
    "title", ["Algorithms", "Guides", "Extend", "Coming from", "Reference", "Project"]
)
def test_a_section_begins_with_a_page_that_leads_to_all_others(title: str) -> None:
    index, *others = dict(sections(SITE["nav"]))[title]
    text = (DOCS / index).read_text(encoding="utf-8")
    if title == "Algorithms":
        assert "<!-- agents -->" in text  # a table with links to their pages
        return
    folder = (DOCS / index).parent
    linked = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    pages = {(folder / each).resolve() for each in linked if "://" not in each}
    for entry in others:
        for page in entry.values():
            assert DOCS / page in pages, page


def test_the_logo_is_drawn_here_and_shown_everywhere() -> None:
    assert SITE["theme"]["logo"] == SITE["theme"]["favicon"] == "logo.svg"
    assert (DOCS / "logo.svg").is_file()
    assert 'src="docs/logo.svg"' in (ROOT / "README.md").read_text(encoding="utf-8")


def test_upgrading_names_the_format_that_is_written() -> None:
    page = (DOCS / "guides" / "upgrading.md").read_text(encoding="utf-8")
    assert f"which this version writes as format {newest_format()}." in page
    assert f"| 1 to {newest_format() - 1} |" in page
