"""Deltas: the small changes that a curator proposes and the votes that a reflector casts, read from their JSON.

    Curator    {"reasoning": "...", "operations": [{"type": "ADD", "section": "OTHERS", "content": "..."}]}
    Reflector  {"reasoning": "...", "bullet_tags": [{"id": "sai-00001", "tag": "helpful"}]}
"""

import json
import re
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

# type -> the fields it needs. The public curator knows ADD only.
OPERATIONS = {"ADD": ("content",), "UPDATE": ("id", "content"), "MERGE": ("ids",), "DELETE": ("id",)}
TAGS = ("helpful", "harmful", "neutral")
OTHER_NAMES = {"bullet_id": "id", "bullet": "id", "source_ids": "ids", "bullet_ids": "ids"}


@dataclass(frozen=True)
class Problem:
    """What could not be read or done: its line (from 1; None if it came from no text), its text and the reason."""

    line: int | None
    text: str
    reason: str

    def __str__(self):
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.reason}: {self.text}"


@dataclass(frozen=True)
class Delta:
    """A small change of a playbook.

    Parameters
    ----------
    operations : sequence of dict
        type ADD (content, section), UPDATE (id, content), MERGE (ids, content if the text changes), DELETE (id).
    tags : dict
        id -> "helpful", "harmful" or "neutral".
    reasoning : str
    problems : sequence of Problem
        What `parse` could not read.
    lines : dict
        Line of an operation (by its place) or of a tag (by its id) in the text that it was read from.

    Raises
    ------
    ValueError
        If an operation or a tag is malformed: names its number (from 1), and what is allowed.
    """

    operations: tuple = ()
    tags: dict | tuple = ()
    reasoning: str = ""
    problems: tuple = ()
    lines: dict = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self):
        if isinstance(self.operations, (str, bytes, dict)) or not isinstance(self.operations, Iterable):
            raise ValueError(f"Delta: operations must be a list of objects; got {self.operations!r:.60}")
        if not isinstance(self.tags, dict) and self.tags != ():
            raise ValueError(f"Delta: tags must be a dict, id -> helpful, harmful or neutral; got {self.tags!r:.60}")
        for number, operation in enumerate(self.operations, start=1):
            _named(f"operation {number}", _operation, operation)
        for number, (id, tag) in enumerate(dict(self.tags).items(), start=1):
            _named(f"tag {number}", _tag, {"id": id, "tag": tag})
        object.__setattr__(self, "operations", tuple(_operation(operation) for operation in self.operations))
        object.__setattr__(self, "tags", dict(self.tags))
        object.__setattr__(self, "problems", tuple(self.problems))

    @property
    def changes(self):
        """(line, change) of each vote and operation, as `Playbook.merge` applies them; neutral tags change nothing."""
        votes = {id: {"type": "VOTE", "id": id, "tag": tag} for id, tag in self.tags.items() if tag != "neutral"}
        return [(self.lines.get(key), change) for key, change in (*votes.items(), *enumerate(self.operations))]

    @property
    def key(self):
        """What several deltas are put in order by, whoever handed them in first."""
        return json.dumps([self.operations, sorted(self.tags.items())], sort_keys=True)

    @classmethod
    def parse(cls, source, strict=False, first_line=1):
        """Read a curator's or a reflector's answer: JSON, also with prose or a code fence around it.

        Parameters
        ----------
        source : str or dict
        strict : bool
            Raise instead of reporting in `problems`.
        first_line : int
            The number of the text's first line, for a part of a larger file.

        Raises
        ------
        ValueError
            If strict, with the line of everything that is malformed.
        """
        problems, operations, tags, lines = [], [], {}, {}
        if not isinstance(source, (str, dict)):
            raise ValueError(f"Delta.parse: source must be the text of a model or its JSON object as a dict; got {source!r:.60}")
        data, items = (source, {}) if isinstance(source, dict) else _find_json(source, first_line, problems)
        for line, item in items.get("operations") or _unnumbered(data, "operations", problems):
            with _reporting(line, item, problems):
                operations.append(_operation(item))
                lines[len(operations) - 1] = line
        for line, item in items.get("bullet_tags") or _unnumbered(data, "bullet_tags", problems):
            with _reporting(line, item, problems):
                id, tags[id] = _tag(item)
                lines[id] = line
        if data and not {"operations", "bullet_tags"} & set(data):
            problems.append(Problem(None, json.dumps(data, ensure_ascii=False), "neither operations nor bullet_tags"))
        if strict and problems:
            raise ValueError("\n".join(str(problem) for problem in problems))
        return cls(operations, tags, str(data.get("reasoning", "")), problems, lines)

    @classmethod
    def parse_lines(cls, text, strict=False):
        """Read JSON lines, a delta a line; blank lines are skipped. Returns a list of deltas, problems with their line."""
        lines = enumerate(text.replace("\r\n", "\n").split("\n"), start=1)
        return [cls.parse(line, strict, number) for number, line in lines if line.strip()]


def _operation(item):
    """The operation in the names used here; ValueError with the reason if it is malformed."""
    if not isinstance(item, dict):
        raise ValueError("an operation is an object with a type")
    item = {OTHER_NAMES.get(name, name): value for name, value in item.items()}
    kind = str(item.get("type", "")).upper()
    if kind not in OPERATIONS:
        raise ValueError(f"type must be one of {', '.join(OPERATIONS)}")
    texts = {name: item[name] for name in ("id", "section", "content") if item.get(name) is not None}
    for name in OPERATIONS[kind]:
        if name != "ids" and name not in texts:
            raise ValueError(f"{kind} needs {name}")
    for name, value in texts.items():
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{name} must be text that is not empty")
    if kind == "MERGE":
        ids = item.get("ids")
        if not isinstance(ids, (list, tuple)) or not all(isinstance(id, str) for id in ids) or len(set(ids)) < 2:
            raise ValueError("MERGE needs ids, a list of at least two")
        texts["ids"] = list(ids)
    return {"type": kind, **texts}


def _tag(item):
    if not isinstance(item, dict):
        raise ValueError("a tag is an object with id and tag")
    id, tag = item.get("id", item.get("bullet")), item.get("tag")
    if not isinstance(id, str) or tag not in TAGS:
        raise ValueError(f"a tag needs an id, and tag must be one of {', '.join(TAGS)}")
    return id, tag


def _named(name, read, item):
    try:
        read(item)
    except ValueError as error:
        raise ValueError(f"Delta: {name}: {error}; got {item!r}") from None


@contextmanager
def _reporting(line, item, problems):
    """Adds a problem where the item is malformed, and goes on."""
    try:
        yield
    except ValueError as error:
        problems.append(Problem(line, json.dumps(item, ensure_ascii=False, default=repr), str(error)))


def _unnumbered(data, key, problems):
    """Items of a dict that came from no text, or whose lines are not known."""
    items = data.get(key, [])
    if not isinstance(items, (list, tuple)):
        problems.append(Problem(None, repr(items), f"{key} must be a list"))
        return []
    return [(None, item) for item in items]


def _find_json(text, first_line, problems):
    """The first object in the text, and for each of its lists the items with their line numbers."""
    decoder, error = json.JSONDecoder(), None

    def line_of(position):
        return first_line + text.count("\n", 0, position)

    for start in (at.start() for at in re.finditer(r"\{", text)):
        try:
            data, _ = decoder.raw_decode(text, start)
        except json.JSONDecodeError as failed:
            error = error or failed
            continue
        except RecursionError:
            break
        return data, {key: _numbered(text, start, key, data, line_of) for key in ("operations", "bullet_tags") if key in data}
    reason = f"not JSON: {error.msg}" if error else "no JSON object"
    problems.append(Problem(line_of(error.pos if error else 0), text, reason))
    return {}, {}


def _numbered(text, start, key, data, line_of):
    """(line, item) of each item of a list in valid JSON, by decoding one item after the other."""
    opening = re.compile(rf'"{key}"\s*:\s*\[').search(text, start)
    if not opening:
        return []
    items, position, decoder = [], opening.end(), json.JSONDecoder()
    while True:
        position = re.compile(r"[\s,]*").match(text, position).end()
        if text[position] == "]":
            break
        item, end = decoder.raw_decode(text, position)
        items.append((line_of(position), item))
        position = end
    return items if [item for _, item in items] == data[key] else []
