"""Python expressions over the modules of labkit, kept as text in data/: answers of exercises, figures of the ledger.

A number that is written as its own computation cannot go stale, and a teacher adds one without touching code.
The expressions are run as Python: load only files you trust.
"""

import ast
import builtins
import importlib
import math
import pkgutil
from functools import cache

import numpy as np

import labkit

LIBRARIES = {"np": np, "math": math}


@cache
def modules() -> frozenset:
    """Names of the modules of labkit that an expression may use."""
    return frozenset(module.name for module in pkgutil.iter_modules(labkit.__path__) if not module.name.startswith("_"))


def free_names(expression: str) -> set:
    """Names that an expression takes from outside: not bound in it, not Python's own.  SyntaxError if it is not Python."""
    nodes = list(ast.walk(ast.parse(expression.strip(), mode="eval")))
    bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = {node.id for node in nodes if isinstance(node, ast.Name)} - bound
    return {name for name in names if not hasattr(builtins, name)}


def evaluate(expression: str, known: dict | None = None):
    """The value of an expression; a module of labkit that it names is imported when needed.

    Parameters
    ----------
    known : values of further names, which come first.

    Raises
    ------
    NameError
        For a name that is neither known nor a module; whatever the expression itself raises.
    """
    known = known or {}
    names = {}
    for name in free_names(expression):
        if name in known:
            names[name] = known[name]
        elif name in LIBRARIES:
            names[name] = LIBRARIES[name]
        elif name in modules():
            names[name] = importlib.import_module(f"labkit.{name}")
        else:
            raise NameError(f"{name!r} is neither a module of labkit nor np or math")
    return eval(compile(expression.strip(), "<expression>", "eval"), names)  # noqa: S307  (our own data files)
