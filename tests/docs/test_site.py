"""The documentation builds without a warning, and every link in it leads somewhere."""

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from checkout import ROOT
from processes import python

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.settings.config import train_options


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
                if tag == "img":
                    self.pictures.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """Return the built pages by path."""
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = python(*words, cwd=ROOT, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path: Page(path) for path in folder.rglob("*.html")}


def test_every_link_leads_somewhere(site: dict[Path, Page]) -> None:
    broken, seen = [], 0
    for page in site.values():
        for link in page.links:
            parts = urlsplit(link)
            # The error page has links from the root of a server.
            if parts.scheme or parts.netloc or page.path.name == "404.html":
                continue
            seen += 1
            target = (page.path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            target = target if parts.path else page.path
            there = target.exists()
            if there and parts.fragment and target in site:
                there = unquote(parts.fragment) in site[target].anchors
            if not there:
                broken.append(f"{page.path}: {link}")
    assert seen > 1_000
    assert not broken, "\n".join(broken)


def test_nothing_is_loaded_from_elsewhere(site: dict[Path, Page]) -> None:
    for page in site.values():
        assert "<script src=http" not in page.text.replace('"', "")
        assert "fonts.googleapis" not in page.text


_PLOT, _PHOTO = "data:image/png;", "data:image/jpeg;"
INVERTED = (
    '[data-md-color-scheme="slate"] .md-typeset img:is([src$=".svg"]'
    ':not([src$="terminal.svg"], [src$="logo.svg"]), [src$="importances.png"], '
    '[src^="data:image/png"]) {\n  filter: invert(1)'
)
"""The rule of the style sheet for figures on white paper, in the dark scheme."""


def test_figures_suit_the_dark_scheme(site: dict[Path, Page]) -> None:
    """All pictures but those in `INVERTED` are photographs or dark already."""
    css = (ROOT / "docs" / "extra.css").read_text(encoding="utf-8")
    assert INVERTED in css
    pictures = {each for page in site.values() for each in page.pictures}
    taken = ".svg", "importances.png"
    others = {x for x in pictures if not x.endswith(taken) and not x.startswith(_PLOT)}
    assert {Path(x).name for x in others if not x.startswith(_PHOTO)} == {"pong.gif"}
    assert len(pictures) > 40


def test_markers_and_equations_became_what_they_stand_for(
    site: dict[Path, Page],
) -> None:
    assert not any("arithmatex" in page.text for page in site.values())
    assert not any("<!-- flags" in page.text for page in site.values())
    (walkthrough,) = (p for p in site.values() if p.path.parent.name == "walkthrough")
    assert len([x for x in walkthrough.links if x.startswith("data:image/")]) == 4
    for name, row in ALGORITHMS.items():
        (page,) = (p for p in site.values() if p.path.parent.name == name)
        assert "<math" in page.text, name
        # Its own flags are there, those of all agents on a page of their own.
        (flags,) = (p for p in site.values() if p.path.parent.name == "flags")
        shown = page.anchors | flags.anchors
        for each in train_options(row.config):
            assert any(a.endswith(f"-{each.name}") for a in shown), each.flag
    for flag in ("--column", "--by", "--labels", "--title", "--smoothing", "--output"):
        assert flag in flags.text


def test_every_public_name_is_in_the_reference(site: dict[Path, Page]) -> None:
    import xagents_ray

    (page,) = (p for p in site.values() if p.path.parent.name == "api")
    for name in xagents_ray.__all__:
        if name not in ("AgentName", "__version__"):
            assert f"xagents_ray.{name}" in page.text, name
