"""The playbook of ACE: bullets with counters, as text that is read and written, merged by plain code (L14 section 5.2).

    ## STRATEGIES & INSIGHTS
    [sai-00001] helpful=3 harmful=0 :: Check the unit before you add two columns.

A model never rewrites it. It proposes a small `Delta`; code appends bullets, counts votes in place, and now and then
merges bullets that say the same. Whatever cannot be read is kept where it stands and reported with its line number.
"""

import json
from bisect import bisect_left
from dataclasses import dataclass, field, replace

import numpy as np

from labkit import checks
from labkit.ace_bullet import BULLET, HEADING, MORE, NEXT_ID, SLUGS, Bullet, Unread
from labkit.ace_bullet import plain_name, read_bullet, section_name, slug_of, split_lines
from labkit.ace_delta import Delta, Problem
from labkit.ace_text import bag_of_words, cosines, count_tokens

BUDGET = 80_000  # tokens of a playbook in the public code
THRESHOLD = 0.90  # cosine from which two bullets say the same, in the public code

@dataclass(frozen=True)
class Playbook:
    """Sections of bullets, immutable: every change gives a new playbook.

    Parameters
    ----------
    entries : sequence of Bullet and Unread
        Grouped by section; within a section the order of arrival.
    sections : sequence of str
        In order, empty ones too. Entries in front of the first heading have the section "".
    next_id : int
        The number of the next new bullet, above all that were ever given.
    problems : sequence of Problem
        What the last `parse` or `merge` could not read or do; left out of comparisons, as is `retired`.
    retired : dict
        id of a bullet that is gone -> id of the one that took it in, or None if it was deleted.

    Raises
    ------
    ValueError
        If two bullets share an id.
    """

    entries: tuple = ()
    sections: tuple = ()
    next_id: int = 1
    problems: tuple = field(default=(), compare=False)
    retired: dict = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self):
        for name in ("entries", "sections"):
            if isinstance(getattr(self, name), (str, bytes)) or not np.iterable(getattr(self, name)):
                raise ValueError(f"Playbook: {name} must be a sequence; got {getattr(self, name)!r:.60}")
        for entry in self.entries:
            if not isinstance(entry, (Bullet, Unread)):
                raise ValueError(f"Playbook: entries must be Bullet or Unread; got {entry!r:.60}")
        checks.whole("Playbook: next_id", self.next_id, 1)
        given = [name for name in map(section_name, self.sections) if name]
        names = dict.fromkeys([*given, *(entry.section for entry in self.entries)])
        names = sorted(names, key=lambda name: name != "")  # stable: only "" moves, to the front
        place = {name: at for at, name in enumerate(names)}
        object.__setattr__(self, "sections", tuple(names))
        object.__setattr__(self, "entries", tuple(sorted(self.entries, key=lambda entry: place[entry.section])))
        object.__setattr__(self, "problems", tuple(self.problems))
        ids = [bullet.id for bullet in self.bullets]
        if len(set(ids)) < len(ids):
            raise ValueError(f"Playbook: ids must differ; {max(ids, key=ids.count)} is there twice")
        object.__setattr__(self, "next_id", max([self.next_id, *(bullet.number + 1 for bullet in self.bullets)]))

    @classmethod
    def empty(cls):
        """No bullet yet; the sections of the public code."""
        return cls(sections=tuple(SLUGS))

    @property
    def bullets(self):
        """All bullets, in the order of the text."""
        return tuple(entry for entry in self.entries if isinstance(entry, Bullet))

    def __len__(self):
        return len(self.bullets)

    def __getitem__(self, id):
        """The bullet of this id, or the one that took it in.

        Raises
        ------
        KeyError
            If it never was there, or was deleted.
        """
        while id in self.retired:
            id = self.retired[id]
        for bullet in self.bullets:
            if bullet.id == id:
                return bullet
        raise KeyError(f"there is no bullet {id}" if id else "the bullet was deleted")

    # ---- text

    @classmethod
    def parse(cls, text, strict=False, counters=None):
        """Read the public text form, with or without counters.

        A line that is neither heading, bullet nor blank stays as it is where it is; a bullet whose id is taken gets
        the next one. Both are reported in `problems` with their line number, counted from 1. Blank lines and the kind
        of line end are not kept.

        Parameters
        ----------
        text : str
        strict : bool
            Raise instead of reporting.
        counters : dict, optional
            id -> (helpful, harmful), for a text rendered without: see `counters`.

        Raises
        ------
        ValueError
            If strict, with all line numbers; if `counters` has an id that the text has not.
        """
        if not isinstance(text, str):
            raise ValueError(f"Playbook.parse: text must be a string, such as Path(...).read_text(encoding='utf-8'); got {text!r:.60}")
        sections, rows, last, section, next_id = [], [], {}, "", 1
        for number, line in enumerate(split_lines(text.removeprefix("\ufeff")), start=1):
            if not line.strip():
                continue
            if heading := HEADING.fullmatch(line):
                section = heading[1]
                sections.append(section)
            elif note := NEXT_ID.fullmatch(line.strip()):
                next_id = max(next_id, int(note[1]))
            elif (line + " ").startswith(MORE) and section in last and BULLET.fullmatch(last[section]["raw"]):
                last[section]["raw"] += "\n" + line
            else:
                last[section] = {"section": section, "number": number, "raw": line}
                rows.append(last[section])
        book, problems = _read_rows(rows, sections, next_id)
        if unknown := set(counters or {}) - {bullet.id for bullet in book.bullets}:
            raise ValueError(f"counters: there is no bullet {', '.join(sorted(unknown))}")
        votes = {id: dict(zip(("helpful", "harmful"), pair)) for id, pair in (counters or {}).items()}
        book = book._with({id: replace(book[id], **votes[id]) for id in votes})
        return _report(book, problems, strict)

    def render(self, counters=True):
        """The text form. Without counters they live in metadata only, and a vote leaves the prompt as it was."""
        blocks = []
        for section in self.sections:
            lines = [entry.render(counters) for entry in self.entries if entry.section == section]
            blocks.append("\n".join(([f"## {section}"] if section else []) + lines))
        if counters and self.next_id > max((bullet.number + 1 for bullet in self.bullets), default=1):
            blocks.append(f"<!-- next id {self.next_id:05d} -->")  # the last ids are gone, and must not come back
        return "\n\n".join(block for block in blocks if block) + ("\n" if any(blocks) else "")

    @property
    def counters(self):
        """id -> (helpful, harmful): the metadata that `render(counters=False)` leaves out."""
        return {bullet.id: (bullet.helpful, bullet.harmful) for bullet in self.bullets}

    def tokens(self, counters=True, count=count_tokens):
        """Size of the text: count(render(counters))."""
        return count(self.render(counters))

    # ---- merging

    def merge(self, *deltas, delta=None, strict=False):
        """The playbook after one delta, or after several that were made in parallel.

        Votes change counters in place, ADD appends with the next id (an unknown section: to OTHERS), UPDATE changes a
        text, MERGE adds up the counters under the earliest of its bullets, DELETE removes. Given together, deltas are
        applied in an order of their own, so the order of the arguments does not matter even where they conflict. One
        by one, the order does not matter to additions and votes, nor to other operations on different bullets.

        Parameters
        ----------
        *deltas : Delta, or what `Delta.parse` reads
        delta : the same, for one that is given by name
        strict : bool
            Raise instead of reporting.

        Returns
        -------
        Playbook
            What could not be done is in its `problems`, with the delta's text and line number; the rest is done.

        Raises
        ------
        ValueError
            If strict and anything could not be done.
        """
        deltas += () if delta is None else (delta,)
        deltas = [each if isinstance(each, Delta) else Delta.parse(each) for each in deltas]
        book, problems = self, []
        for delta in sorted(deltas, key=lambda delta: delta.key):
            problems += delta.problems
            for line, change in delta.changes:
                try:
                    book = CHANGES[change["type"]](book, change)
                except KeyError as error:
                    problems.append(Problem(line, json.dumps(change, ensure_ascii=False), error.args[0]))
        return _report(book, problems, strict)

    def _with(self, changed=None, gone=None):
        """With these bullets (id -> bullet) in place, and without those in `gone` (id -> who took it in, or None)."""
        changed, gone = changed or {}, gone or {}
        entries = [changed.get(getattr(entry, "id", None), entry) for entry in self.entries]
        entries = [entry for entry in entries if getattr(entry, "id", None) not in gone]
        return replace(self, entries=entries, retired=self.retired | gone)

    def deduplicate(self, threshold=THRESHOLD, embed=None):
        """Merge bullets whose embeddings have a cosine of at least `threshold`, in any sections.

        The earliest of them stays with its text, so the front of the prompt stays in the cache, and takes the sum of
        the counters. Afterwards no two bullets are that close, and a second run changes nothing.

        Parameters
        ----------
        threshold : float
            Above 0, at most 1.
        embed : callable, optional
            list of n texts -> array (n, d). If not given: the bullets' own embeddings, or where there are none
            `bag_of_words`.

        Raises
        ------
        ValueError
            If the threshold is out of range, embed gives another shape, or only some bullets have an embedding.
        """
        checks.number("deduplicate: threshold", threshold, 0, 1, above=True)
        bullets = sorted(self.bullets, key=lambda bullet: bullet.number)
        close = cosines(_vectors(bullets, embed)) >= threshold - 1e-9  # 1e-9: so that 1.0 still merges equal texts
        gone, kept, changed = {}, [], {}
        for at, bullet in enumerate(bullets):
            first = next((other for other in kept if close[at, other]), None)
            if first is None:
                kept.append(at)
                continue
            survivor = bullets[first].id
            gone[bullet.id] = survivor
            changed[survivor] = _sum(changed.get(survivor, bullets[first]), bullet)
        return self._with(changed, gone) if gone else self

    def within(self, budget, counters=True, count=count_tokens):
        """At most `budget` tokens: the bullets of the lowest helpful - harmful go first, of equals the older ones.

        The headings go only where nothing else helps; lines that could not be read, and the next id, never do.

        Raises
        ------
        ValueError
            If budget is not a number from 0 on, or what never goes is longer alone.
        """
        checks.number("within: budget", budget, 0, np.inf)
        worst = sorted(self.bullets, key=lambda bullet: (bullet.score, bullet.number))

        def without(number):
            return self._with(gone={bullet.id: None for bullet in worst[:number]}) if number else self

        def fits(book):
            return book.tokens(counters, count) <= budget

        drop = bisect_left(range(len(worst) + 1), True, key=lambda number: fits(without(number)))
        book = without(drop) if drop <= len(worst) else replace(without(len(worst)), sections=())
        if not fits(book):
            raise ValueError(f"within: budget {budget} is too small: what cannot be dropped (lines that could not be "
                             f"read, the next id) takes {book.tokens(counters, count)} tokens")
        return book

    def prune(self):
        """Without the problematic bullets: harmful >= helpful and harmful > 0."""
        return self._with(gone={bullet.id: None for bullet in self.bullets if bullet.problematic})


# --- what a delta may change: (playbook, change) -> playbook; KeyError where a bullet is missing -----------------


def _vote(book, change):
    bullet = book[change["id"]]
    return book._with({bullet.id: replace(bullet, **{change["tag"]: getattr(bullet, change["tag"]) + 1})})


def _add(book, change):
    wanted = plain_name(change.get("section", "OTHERS"))
    section = next((name for name in book.sections if plain_name(name) == wanted), "OTHERS")
    bullet = Bullet(f"{slug_of(section)}-{book.next_id:05d}", section, change["content"])
    return replace(book, entries=(*book.entries, bullet))


def _update(book, change):
    bullet = book[change["id"]]
    return book._with({bullet.id: replace(bullet, text=change["content"], embedding=None)})


def _merge(book, change):
    first, *others = sorted({book[id] for id in change["ids"]}, key=lambda bullet: bullet.number)
    merged = first
    for other in others:
        merged = _sum(merged, other)
    if "content" in change:
        merged = replace(merged, text=change["content"], embedding=None)
    return book._with({first.id: merged}, {other.id: first.id for other in others})


def _delete(book, change):
    return book._with(gone={book[change["id"]].id: None})


CHANGES = {"VOTE": _vote, "ADD": _add, "UPDATE": _update, "MERGE": _merge, "DELETE": _delete}


# --- helpers -----------------------------------------------------------------------------------------------------


def _read_rows(rows, sections, next_id):
    """The playbook of these lines, and what is wrong with them. A bullet whose id is taken gets a new one."""
    entries, problems, ids = [], [], set()
    for row in rows:
        try:
            entries.append(read_bullet(row["raw"], row["section"]))
        except ValueError as error:
            entries.append(Unread(row["section"], row["raw"]))
            problems.append(Problem(row["number"], row["raw"], str(error)))
    next_id = max([next_id, *(entry.number + 1 for entry in entries if isinstance(entry, Bullet))])
    for at, (row, entry) in enumerate(zip(rows, entries)):
        if isinstance(entry, Bullet) and entry.id in ids:
            entries[at] = replace(entry, id=f"{entry.id.rpartition('-')[0]}-{next_id:05d}")
            problems.append(Problem(row["number"], row["raw"], f"id is taken by an earlier line, now {entries[at].id}"))
            next_id += 1
        ids.add(getattr(entries[at], "id", None))
    return Playbook(entries, sections, next_id), sorted(problems, key=lambda problem: problem.line)


def _report(book, problems, strict):
    if strict and problems:
        raise ValueError("\n".join(str(problem) for problem in problems))
    return replace(book, problems=problems)


def _sum(bullet, other):
    return replace(bullet, helpful=bullet.helpful + other.helpful, harmful=bullet.harmful + other.harmful)


def _vectors(bullets, embed):
    own = [bullet.embedding for bullet in bullets]
    given = sum(vector is not None for vector in own)
    if embed is None and 0 < given < len(own):
        raise ValueError(f"deduplicate: only {given} of {len(own)} bullets have an embedding; give embed=...")
    texts = [bullet.text for bullet in bullets]
    vectors = np.array(own if embed is None and given else (embed or bag_of_words)(texts), dtype=float)
    if vectors.shape[:1] != (len(bullets),) or vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise ValueError(f"deduplicate: embed must give finite numbers of shape ({len(bullets)}, d); got {vectors.shape}")
    return vectors
