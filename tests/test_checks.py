"""The checks of arguments: every function x odd values, against a table written by hand."""

import json
import math
import re
from datetime import date
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import checks, json_list


class Unwritable:
    """A value whose repr fails."""

    def __repr__(self):
        raise TypeError("no text")


# value -> which of whole (0 to 10), number (0 on), share and flag take it
ODD = [
    (True, "flag"), (np.bool_(False), "flag"), (0, "whole number share"), (np.int8(7), "whole number"), (np.uint64(2**64 - 1), "number"),
    (-1, ""), (2.0, "number"), (0.5, "number share"), (np.float16(0.5), "number share"), (np.float32(3), "number"),
    (np.longdouble(1), "number share"), (math.nan, ""), (np.float32(math.nan), ""), (math.inf, ""), (np.float16(math.inf), ""),
    (-math.inf, ""), (10**400, ""), (10**5000, ""), (-(10**400), ""), (1e301, ""), (1j, ""), (Decimal(1), ""), (np.array(1), ""), (np.array(True), ""),
    (np.array([1, 2]), ""), ([1], ""), ({}, ""), ("1", ""), (b"1", ""), ("", ""), (None, ""), (object(), ""), (int, ""), (date(2025, 1, 1), ""),
    (np.datetime64("2025-01-01"), ""), (np.timedelta64(1, "s"), ""), (np.str_("1"), ""), (len, ""), (Unwritable(), ""),
]
FUNCTIONS = {
    "whole": (lambda value: checks.whole("box: x", value, 0, 10), "a whole number from 0 to 10", (int,)),
    "number": (lambda value: checks.number("box: x", value, 0), "a number from 0 to 1e+300", (int, float)),
    "share": (lambda value: checks.share("box: x", value), "a number from 0 to 1", (int, float)),
    "flag": (lambda value: checks.flag("box: x", value), "True or False", (bool,)),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("value, taken", ODD, ids=[f"{i} {type(value).__name__}" for i, (value, _) in enumerate(ODD)])
def test_odd_values(name, value, taken):
    """A value is given back as a plain one, or refused by a message that says where and what is allowed."""
    check, allowed, kinds = FUNCTIONS[name]
    if name in taken.split():
        given = check(value)
        assert type(given) in kinds and given == value
    else:
        with pytest.raises(ValueError, match=f"^box: x must be {re.escape(allowed)}, not ") as problem:
            check(value)
        assert len(str(problem.value)) < 160


@pytest.mark.parametrize("call, message", [
    (lambda: checks.whole("k", 0, 1), "k must be a whole number of at least 1, not 0"),
    (lambda: checks.whole("k", 10**10, 1, 10**9), "k must be a whole number from 1 to 1,000,000,000, not 10000000000"),
    (lambda: checks.number("x", 0, 0, math.inf, above=True), "x must be a number above 0, not 0"),
    (lambda: checks.number("x", 2, 0, 1, above=True), "x must be a number above 0 and at most 1, not 2"),
    (lambda: checks.number("x", math.nan, 0, math.inf), "x must be a number of at least 0, not nan"),
    (lambda: checks.share("p", "0.5"), "p must be a number from 0 to 1, not '0.5'"),
    (lambda: checks.flag("on", 1), "on must be True or False, not 1"),
    (lambda: checks.flag("on", Unwritable()), "on must be True or False, not this Unwritable"),
    (lambda: checks.flag("on", "x" * 500), f"on must be True or False, not '{'x' * 96}..."),
])
def test_message(call, message):
    with pytest.raises(ValueError) as problem:
        call()
    assert str(problem.value) == message


def test_ends():
    """Both ends are in the range; `above` leaves the low one out; infinity comes in only where it is the high end."""
    assert checks.whole("k", 10**400, 1) == 10**400
    assert [checks.number("x", value, 1, 2) for value in (1, 2)] == [1, 2]
    assert checks.number("x", math.inf, 0, math.inf) == math.inf and checks.number("x", 10**400, 0, math.inf) == 10**400
    assert checks.number("x", 5e-324, 0, above=True) == 5e-324


@given(st.integers() | st.floats(), st.integers(-5, 5), st.integers(0, 5))
def test_range_against_its_definition(value, low, width):
    inside = low <= value <= low + width
    for check, kind in ((checks.number, (int, float)), (checks.whole, int)):
        if inside and isinstance(value, kind):
            assert check("x", value, low, low + width) == value
        else:
            with pytest.raises(ValueError):
                check("x", value, low, low + width)


@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.booleans() | st.none() | st.text(max_size=3), max_size=3), max_size=4))
def test_json_list_round_trip(tmp_path_factory, entries):
    """Written one entry a line and read again, the entries are the same."""
    path = tmp_path_factory.mktemp("json") / "entries.json"
    json_list.write(path, entries)
    assert json_list.read(path, "") == entries
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines[0] == "[" and lines[-2:] == ["]", ""] and [json.loads(line.rstrip(",")) for line in lines[1:-2] if line] == entries


def test_json_list_of_numpy(tmp_path):
    json_list.write(tmp_path / "a.json", [{"n": np.int64(3), "on": np.bool_(True)}])
    assert json_list.read(str(tmp_path / "a.json"), "") == [{"n": 3, "on": True}]


@pytest.mark.parametrize("data, says", [
    (b'[{"a": 1},\n{"b" 2}]', "^a.json, line 2: not JSON: .*; a list is needed$"), (b"", "^a.json, line 1: not JSON"),
    (b"\xff\xfe[", "^a.json: not JSON: "), (b"[" * 200_000, "^a.json: not JSON: "), (b"[" + b"9" * 5_000 + b"]", "^a.json: not JSON: "),
], ids=["a comma", "empty", "bytes", "nested", "a long number"])
def test_json_list_names_the_place(tmp_path, data, says):
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(ValueError, match=says):
        json_list.read(tmp_path / "a.json", "a list is needed")


def test_json_list_takes_a_signature(tmp_path):
    """Some editors of Windows write one in front of the text."""
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf[]")
    assert json_list.read(tmp_path / "a.json", "") == []
