"""What a MemGPT agent may call: its memory functions, checked before they run (L14 section 2.1).

The model never touches memory itself. It writes a function call; the executor checks name and
arguments, runs it, and gives back a result or an error that the model can read. An error changes
nothing in memory.
"""

import json
import re
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Callable

from labkit import checks


class CallError(Exception):
    """A call that cannot be carried out; its text goes back to the model."""


class Call:
    """One function call: ``Call("core_memory_append", label="human", content="Likes tea.")``.

    Parameters
    ----------
    function : str
        A key of `FUNCTIONS`.
    request_heartbeat : bool
        True: run the model again at once, without waiting for the next event.
    **arguments
        The function's arguments by name.
    """

    def __init__(self, function, /, request_heartbeat=False, **arguments):
        self.function, self.request_heartbeat, self.arguments = function, request_heartbeat, arguments

    def __repr__(self):
        arguments = dict(self.arguments)
        if self.request_heartbeat:
            arguments["request_heartbeat"] = self.request_heartbeat
        return f"{self.function}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"

    @classmethod
    def parse(cls, output):
        """The call in a policy's output: a Call, ``{"name", "arguments"}``, or the JSON text of one.

        `arguments` may be JSON text too, and the whole may sit under "function", as chat APIs have it.
        """
        try:
            if isinstance(output, str):
                output = json.loads(output)
            if isinstance(output, dict):
                output = output["function"] if isinstance(output.get("function"), dict) else output
                arguments = output.get("arguments", {})
                arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
                output = cls(output["name"], **arguments)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CallError(f"no function call could be read ({type(error).__name__}: {error})") from None
        if not isinstance(output, cls):
            raise CallError(f"a function call was expected, not {type(output).__name__}")
        if not isinstance(output.function, str):
            raise CallError(f"a function's name must be text, not {type(output.function).__name__}")
        return output


@dataclass(frozen=True)
class Result:
    """What a call gave back: `text` as the model reads it; of a search also its page and items.

    `kind` is that of the message it becomes: reply, result, search or error. `pages` is the number
    of pages there are (page 0 to pages - 1), `items` the texts on this page.
    """

    kind: str
    text: str
    items: tuple = ()
    page: int = 0
    pages: int = 0

    @property
    def ok(self):
        """False if the call failed; then nothing has changed in memory."""
        return self.kind != "error"


# --- memory: the working context, and two storages outside the prompt ---------------------------


@dataclass(frozen=True)
class Block:
    """A labelled part of the working context.

    2,000 characters (about 500 tokens) is the limit that MemGPT's code gives a block.
    """

    value: str = ""
    limit: int = 2_000  # characters
    read_only: bool = False  # True: no function may change it

    def __post_init__(self):
        checks.whole("Block: limit", self.limit, 1)
        if not isinstance(self.value, str) or len(self.value) > self.limit:
            raise ValueError(f"Block: value must be text of at most {self.limit} characters (limit); got {self.value!r}")
        checks.flag("Block: read_only", self.read_only)


def words_found(query, text):
    """How many different words of the query occur in the text (as substrings, case ignored)."""
    text = text.casefold()
    return sum(word in text for word in set(re.findall(r"\w[\w-]*", query.casefold())))


class Storage:
    """Texts outside the prompt, without limit, read by search and page by page.

    Best score first, among equals the newest first; a text of score 0 is not found. `score(query,
    text) -> number` may be an embedding's similarity (with a threshold) instead of `words_found`.
    """

    def __init__(self, page_size, score=words_found):
        self.page_size, self.score = page_size, score
        self.texts, self.searched = [], []  # all texts; the numbers of those a search looks at

    def __len__(self):
        return len(self.texts)

    def insert(self, text, searched=True):
        """Keep a text; `searched` False: no search finds it."""
        if searched:
            self.searched.append(len(self.texts))
        self.texts.append(text)

    def search(self, query, page=0):
        """One page (counted from 0) of the texts found; CallError if there is no such page."""
        if not query.strip():
            raise CallError("query is empty")
        scores = {i: self.score(query, self.texts[i]) for i in self.searched}
        found = sorted((i for i in scores if scores[i] > 0), key=lambda i: (-scores[i], -i))
        pages = -(-len(found) // self.page_size)
        if not 0 <= page < max(pages, 1):
            raise CallError(f"page {page} does not exist: the results fill {pages} page(s), counted from 0")
        if not found:
            return Result("search", "nothing found")
        first = page * self.page_size
        items = tuple(self.texts[i] for i in found[first : first + self.page_size])
        head = f"{len(items)} of {len(found)} results (page {page}, last page {pages - 1})"
        return Result("search", "\n".join((head, *items)), items, page, pages)


class Memory:
    """All that the functions may read and change: blocks, archival storage, recall storage."""

    def __init__(self, blocks, page_size, score):
        if not isinstance(blocks, dict) or not all(isinstance(label, str) for label in blocks):
            raise ValueError(f"blocks must be a dict of labels and texts; got {blocks!r}")
        self.blocks = {label: b if isinstance(b, Block) else Block(b) for label, b in blocks.items()}
        self.archival = Storage(page_size, score)
        self.recall = Storage(page_size, score)

    def write(self, label, edit):
        """Change one block by ``edit(value) -> value``, or raise CallError and change nothing."""
        if label not in self.blocks:
            raise CallError(f"there is no block {label!r}; the blocks are {', '.join(self.blocks)}")
        block = self.blocks[label]
        if block.read_only:
            raise CallError(f"block {label!r} is read-only")
        value = edit(block.value)
        if len(value) > block.limit:
            raise CallError(f"block {label!r} is full: {len(value)} characters, the limit is {block.limit}")
        self.blocks[label] = replace(block, value=value)
        return Result("result", f"block {label!r} now holds {len(value)} of {block.limit} characters")

    def render(self):
        """The working context as the model reads it."""
        return "\n".join(
            f"<{label} {len(b.value)}/{b.limit} characters>\n{b.value}\n</{label}>" for label, b in self.blocks.items()
        )


# --- the functions ------------------------------------------------------------------------------


def _send_message(memory, message):
    return Result("reply", _filled("message", message))


def _core_memory_append(memory, label, content):
    _filled("content", content)
    return memory.write(label, lambda value: f"{value}\n{content}" if value else content)


def _core_memory_replace(memory, label, old_content, new_content):
    _filled("old_content", old_content)

    def edit(value):
        if old_content not in value:
            raise CallError(f"old_content was not found in block {label!r}; it must match exactly")
        return value.replace(old_content, new_content)

    return memory.write(label, edit)


def _archival_memory_insert(memory, content):
    memory.archival.insert(_filled("content", content))
    return Result("result", f"archival storage now holds {len(memory.archival)} text(s)")


def _archival_memory_search(memory, query, page=0):
    return memory.archival.search(query, page)


def _conversation_search(memory, query, page=0):
    return memory.recall.search(query, page)


def _filled(name, text):
    if not text.strip():
        raise CallError(f"{name} is empty")
    return text


@dataclass(frozen=True)
class Function:
    """A function of the model: what runs, what it is for, its arguments and their types."""

    run: Callable = field(repr=False)
    about: str
    parameters: dict
    optional: tuple = ()
    edits: bool = False  # it changes the working context


FUNCTIONS = {
    "send_message": Function(_send_message, "Say something to the user.", {"message": str}),
    "core_memory_append": Function(
        _core_memory_append, "Add a line to a block of the working context.", {"label": str, "content": str}, edits=True
    ),
    "core_memory_replace": Function(
        _core_memory_replace,
        "Replace text in a block of the working context, wherever it occurs; an empty new_content deletes it.",
        {"label": str, "old_content": str, "new_content": str},
        edits=True,
    ),
    "archival_memory_insert": Function(_archival_memory_insert, "Keep a text in archival storage.", {"content": str}),
    "archival_memory_search": Function(
        _archival_memory_search, "Search archival storage, one page a call.", {"query": str, "page": int}, ("page",)
    ),
    "conversation_search": Function(
        _conversation_search, "Search all earlier messages, one page a call.", {"query": str, "page": int}, ("page",)
    ),
}

_TYPES = {  # what counts as the type, and its two names: for the model's errors and for JSON schema
    str: (lambda value: isinstance(value, str), "text", "string"),
    int: (lambda value: isinstance(value, Integral) and not isinstance(value, bool), "a whole number", "integer"),
    bool: (lambda value: isinstance(value, bool), "true or false", "boolean"),
}


def execute(call, memory):
    """Check a call, then run it on `memory`; CallError says what is wrong, and nothing has changed."""
    function = FUNCTIONS.get(call.function)
    if function is None:
        raise CallError(f"there is no function {call.function!r}; the functions are {', '.join(FUNCTIONS)}")
    missing = [name for name in function.parameters if name not in call.arguments and name not in function.optional]
    unknown = [name for name in call.arguments if name not in function.parameters]
    if missing or unknown:
        wrong = [f"{name} is missing" for name in missing] + [f"{name} is unknown" for name in unknown]
        raise CallError(f"{call.function} takes {', '.join(function.parameters)}: {', '.join(wrong)}")
    types = function.parameters | {"request_heartbeat": bool}
    for name, value in (call.arguments | {"request_heartbeat": call.request_heartbeat}).items():
        fits, expected, _ = _TYPES[types[name]]
        if not fits(value):
            raise CallError(f"{call.function}: {name} must be {expected}, not {type(value).__name__}")
    return function.run(memory, **call.arguments)


def tool_schemas():
    """The functions in the form that chat APIs take: a list of JSON-schema tool descriptions."""
    tools = []
    for name, function in FUNCTIONS.items():
        types = function.parameters | {"request_heartbeat": bool}
        parameters = {
            "type": "object",
            "properties": {parameter: {"type": _TYPES[kind][2]} for parameter, kind in types.items()},
            "required": [parameter for parameter in function.parameters if parameter not in function.optional],
        }
        described = {"name": name, "description": function.about, "parameters": parameters}
        tools.append({"type": "function", "function": described})
    return tools
