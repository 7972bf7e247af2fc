"""A bullet of the playbook, and how one line of the public text form is read and written.

    [sai-00001] helpful=3 harmful=0 :: Check the unit before you add two columns.

Further lines of a bullet's text, such as code, follow it behind `    | `.
"""

import re
from dataclasses import dataclass, field

import numpy as np

from labkit import checks

# Sections of the public code and the slugs of their bullets' ids; others take the initials of their words.
SLUGS = {
    "STRATEGIES & INSIGHTS": "sai",
    "FORMULAS & CALCULATIONS": "calc",
    "CODE SNIPPETS & TEMPLATES": "code",
    "COMMON MISTAKES TO AVOID": "err",
    "PROBLEM-SOLVING HEURISTICS": "ph",
    "CONTEXT CLUES & INDICATORS": "ctx",
    "OTHERS": "misc",
}

HEADING = re.compile(r"\s*##(?!#)\s*(\S.*?)\s*", re.DOTALL)
ID = re.compile(r"([^\s\[\]]+)-([0-9]{5,})")
BULLET = re.compile(rf"\s*\[({ID.pattern})\]\s*(?:helpful=([0-9]+)\s*harmful=([0-9]+)\s*)?::(.*)", re.DOTALL)
NEXT_ID = re.compile(r"<!-- next id ([0-9]{5,}) -->")
MORE = "    | "  # in front of the further lines of a bullet's text


@dataclass(frozen=True)
class Bullet:
    """One small piece of knowledge.

    Parameters
    ----------
    id : str
        slug-00001; the number is global and never given twice.
    section, text : str
        Surrounding white space goes, line ends become a line feed.
    helpful, harmful : int
        How often it was tagged so.
    embedding : ndarray, optional
        Shape (d,); left out of comparisons.
    """

    id: str
    section: str
    text: str
    helpful: int = 0
    harmful: int = 0
    embedding: np.ndarray | None = field(default=None, repr=False, compare=False)

    def __post_init__(self):
        if not isinstance(self.id, str) or not ID.fullmatch(self.id):
            raise ValueError(f"Bullet: id must be a slug and at least five digits, such as sai-00001; got {self.id!r}")
        object.__setattr__(self, "section", section_name(self.section))
        if not isinstance(self.text, str):
            raise ValueError(f"Bullet {self.id}: text must be a string; got {self.text!r}")
        object.__setattr__(self, "text", "\n".join(line.rstrip() for line in split_lines(self.text)).strip())
        for name in ("helpful", "harmful"):
            checks.whole(f"Bullet {self.id}: {name}", getattr(self, name), 0)

    @property
    def number(self):
        """The number in the id."""
        return int(ID.fullmatch(self.id)[2])

    @property
    def score(self):
        """helpful - harmful."""
        return self.helpful - self.harmful

    @property
    def high(self):
        """helpful > 5 and harmful < 2: performs well, as the public code counts."""
        return self.helpful > 5 and self.harmful < 2

    @property
    def problematic(self):
        """harmful >= helpful and harmful > 0, as the public code counts."""
        return self.harmful >= self.helpful and self.harmful > 0

    def render(self, counters=True):
        votes = f" helpful={self.helpful} harmful={self.harmful}" if counters else ""
        first, *more = self.text.split("\n")
        return "\n".join(line.rstrip() for line in (f"[{self.id}]{votes} :: {first}", *(MORE + line for line in more)))


@dataclass(frozen=True)
class Unread:
    """A line that is neither heading nor bullet, kept as it is, where it is."""

    section: str
    text: str

    def render(self, counters=True):
        return self.text


def split_lines(text):
    """Split at LF, CRLF and CR only: str.splitlines also splits at characters that text may hold."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def section_name(name):
    if not isinstance(name, str) or "\n" in name or "\r" in name:
        raise ValueError(f"section must be one line of text; got {name!r}")
    return name.strip()


def read_bullet(raw, section):
    """The bullet of a line and its further lines; ValueError with the reason if it is none."""
    found = BULLET.fullmatch(raw)
    if not found:
        raise ValueError("not a heading and not [slug-00001] helpful=0 harmful=0 :: text")
    id, _, _, helpful, harmful, text = found.groups()
    first, *more = text.split("\n")
    text = "\n".join([first, *(line[len(MORE) :] for line in more)])
    return Bullet(id, section, text, int(helpful or 0), int(harmful or 0))


def plain_name(section):
    """A section's name as it is compared: formulas_and_calculations = FORMULAS & CALCULATIONS."""
    return re.sub(r"[\W_]+", "_", section.lower().replace("&", "and")).strip("_")


def slug_of(section):
    if section in SLUGS:
        return SLUGS[section]
    return "".join(word[0] for word in plain_name(section).split("_") if word)[:4] or "misc"
