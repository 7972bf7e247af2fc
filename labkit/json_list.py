"""A list of entries as a JSON file, one entry a line: the sessions and traces that a reader may write by hand."""

import json
from pathlib import Path


def read(path, what):
    """What the file holds; `what` says in the message what it should be, as "a trace is a list with one object a step".

    Raises
    ------
    ValueError
        If it is not JSON; names the file and, where one is known, the line.
    OSError
        If it cannot be read.
    """
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))  # some editors of Windows write a signature
    except json.JSONDecodeError as error:
        raise ValueError(f"{path.name}, line {error.lineno}: not JSON: {error.msg}; {what}") from None
    except (ValueError, RecursionError) as error:  # not text, too large a number, or nested without end
        raise ValueError(f"{path.name}: not JSON: {error}; {what}") from None


def write(path, entries):
    """Write the entries, one a line; numpy's numbers become plain ones."""
    lines = ",\n".join(json.dumps(entry, default=lambda number: number.item()) for entry in entries)
    Path(path).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
