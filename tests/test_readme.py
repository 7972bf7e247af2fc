"""What the README promises: its code runs, its links lead somewhere, its commands exist."""

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "data" / "README.md", ROOT / "deploy" / "README.md"]
TEXT = PAGES[0].read_text(encoding="utf-8")
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"^ *```python\n(.*?)^ *```", TEXT, re.S | re.M)]


@pytest.mark.parametrize("source", BLOCKS, ids=["a panel", "a memory system"])
def test_its_code_runs_and_ends_with_something_to_see(source):
    *lines, last = source.rstrip().split("\n")
    names = {"__name__": "__main__"}
    exec("\n".join(lines), names)
    shown = eval(last, names)
    assert "Eviction" in getattr(shown, "text", "") or "last 50 messages" in set(shown.system)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_its_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_its_commands_are_in_the_makefile():
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for name in re.findall(r"(?:`|^)make ([a-z-]+)", TEXT, re.M):
        assert name in made, name


def test_the_course_map_is_the_course():
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        (row,) = [line for line in TEXT.splitlines() if f"](notebooks/{path.name})" in line]
        minutes = re.search(r"\| (\d+) \|", row)[1]
        assert f"About {minutes} minutes" in path.read_text(encoding="utf-8"), path.name
