"""Digests of functions by what their compiled code depends on, to find stale code in a cache.

The digest of a function covers its bytecode and, recursively, what its globals and closures hold:
other functions, steps (Numba's dispatchers), instructions (Numba's intrinsics), constants, arrays
and named tuples. Line numbers, comments and docstrings do not count. Python's own modules and those
of NumPy, Numba and llvmlite are taken by name: their versions belong into the name of the cache.

Anything else, for example a module or an object with attributes, counts as all files of the package
in which it is used. That is never stale, but every edit there recompiles.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_BY_NAME = {"builtins", "numpy", "numba", "llvmlite"} | sys.stdlib_module_names
_PLAIN = {int, float, complex, bool, str, bytes, type(None), type(...), range, slice, np.ufunc}
_GLOBAL_LOADS = {dis.opmap["LOAD_GLOBAL"]}
_CONSTANT_LOADS = [bytes([operation, 0]) for operation in dis.hasconst]


class _Description(NamedTuple):
    text: bytes
    functions: tuple[types.FunctionType, ...]


def digest_code(function: Callable[..., Any], signature: Any = ()) -> str:
    """Return the digest of a function, and of the types in its signature, as a hexadecimal text."""
    digest = hashlib.sha256()
    numbers: dict[Any, int] = {}
    text, functions = _describe(None, (signature, function))
    pending = list(functions)
    digest.update(text)
    while pending:
        each = pending.pop()
        known = each in numbers
        digest.update(b"%d;" % numbers.setdefault(each, len(numbers)))
        if not known:
            text, functions = _describe_function(each)
            digest.update(text)
            pending += functions
    return digest.hexdigest()


@functools.cache
def _describe_function(function: types.FunctionType) -> _Description:
    """Return what a function itself consists of, and the functions that it may call."""
    used: list[Any] = [function.__code__, function.__defaults__, function.__kwdefaults__]
    names = sorted(set(_globals_of(function.__code__)) & function.__globals__.keys())
    used += [names, [function.__globals__[name] for name in names]]
    for cell in function.__closure__ or ():
        try:
            used.append(cell.cell_contents)
        except ValueError:  # a variable that has no value yet
            used.append(None)
    return _describe(function, used)


def _globals_of(code: types.CodeType) -> Iterator[str]:
    """Yield the names of globals that a function's code loads."""
    shift = 1 if sys.version_info >= (3, 11) else 0  # the lowest bit is a flag
    extended = 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument |= extended
        extended = argument << 8 if operation == dis.EXTENDED_ARG else 0
        if operation in _GLOBAL_LOADS:
            yield code.co_names[argument >> shift]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)


def _describe(user: types.FunctionType | None, value: Any) -> _Description:
    """Return what a value that a function uses consists of, and the functions in it."""
    parts: list[bytes] = []
    functions: list[types.FunctionType] = []
    _add(user, value, parts, functions)
    return _Description(b"".join(parts), tuple(functions))


def _add(user: Any, value: Any, parts: list[bytes], functions: list[Any]) -> None:
    kind = type(value)

    def write(*texts: Any) -> None:
        parts.append(f"{kind.__name__}{texts!r};".encode())

    def add_all(*values: Any) -> None:
        write(len(values))
        for each in values:
            _add(user, each, parts, functions)

    if hasattr(value, "instance_class"):  # the type of a named tuple in Numba
        write(repr(value))
        parts.append(_describe_named_tuple(value.instance_class))
    elif _is_plain(kind):
        write(repr(value))
    elif isinstance(value, types.CodeType):
        write(value.co_name, value.co_code, value.co_names, value.co_varnames, value.co_freevars)
        write(value.co_cellvars, value.co_flags, getattr(value, "co_exceptiontable", b""))
        write(value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount)
        add_all(*_constants(value))
    elif isinstance(value, types.FunctionType):
        if _is_by_name(value.__module__):
            write(value.__module__, value.__qualname__)
        else:
            write()
            functions.append(value)
    elif hasattr(value, "py_func"):  # a dispatcher of Numba
        write(sorted(value.targetoptions.items()))
        add_all(value.py_func)
    elif hasattr(value, "_defn"):  # an intrinsic of Numba
        add_all(value._defn)
    elif hasattr(value, "__wrapped__"):  # a kernel, or a function that is cached
        add_all(value.__wrapped__)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        write(value.dtype.str, value.shape, value.tobytes())
    elif kind in (tuple, list):
        add_all(*value)
    elif kind is dict:
        add_all(*value, *value.values())
    elif kind in (set, frozenset):
        texts = [_describe(user, each) for each in value]
        write(sorted(text for text, _ in texts))
        functions += [each for _, inner in sorted(texts, key=lambda t: t.text) for each in inner]
    elif _is_named_tuple(value):
        parts.append(_describe_named_tuple(value))
        # Kernels cannot call the methods of what they are passed, only instructions can.
        methods = vars(value).values() if user is not None else ()
        add_all(*(method for method in methods if _is_method_of(method, value)))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        add_all(kind, *value)
    elif isinstance(value, (type, types.BuiltinFunctionType)) and _is_by_name(value.__module__):
        write(value.__module__, value.__qualname__)
    elif isinstance(value, types.ModuleType) and _is_by_name(value.__name__):
        write(value.__name__)
    elif kind.__module__.startswith("llvmlite.ir."):
        write(str(value))
    else:
        write(_digest_files("__main__" if user is None else user.__module__))
        write(_digest_files(kind.__module__))


@functools.cache
def _describe_named_tuple(layout: type[Any]) -> bytes:
    """Return what the fields of a named tuple are, with those of the named tuples in it."""
    text = repr((layout.__module__, layout.__qualname__, layout._field_defaults)).encode()
    for name, hint in typing.get_type_hints(layout, include_extras=True).items():
        text += f"{name}: {hint};".encode()
        if _is_named_tuple(hint):
            text += _describe_named_tuple(hint)
    return text


def _constants(code: types.CodeType) -> list[Any]:
    """Return the constants in a function's code without its docstring, which is the first."""
    constants = list(code.co_consts)
    # The compiler stores equal texts once, so a docstring can also be a constant.
    is_loaded = any(load in code.co_code for load in _CONSTANT_LOADS)
    if constants and isinstance(constants[0], str) and not is_loaded:
        constants[0] = None
    return constants


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def _is_method_of(value: Any, owner: type) -> bool:
    """Return whether a named tuple's source defines a function; `namedtuple` adds others."""
    return isinstance(value, types.FunctionType) and value.__module__ == owner.__module__


def _is_by_name(module: str | None) -> bool:
    return (module or "builtins").partition(".")[0] in _BY_NAME


def _is_plain(kind: type) -> bool:
    """Return whether the repr of values of a type says all that counts."""
    if kind.__module__.startswith("numba.core.types.") or kind.__module__ == "typing":
        return True
    return kind in _PLAIN or (issubclass(kind, np.generic) and kind is not np.void)


@functools.cache
def _digest_files(module: str) -> str:
    """Return a digest of all source files of the package that a module belongs to."""
    if _is_by_name(module):
        return module
    top = importlib.import_module(module.partition(".")[0])
    file = getattr(top, "__file__", None)
    if file is None:
        return module
    digest = hashlib.sha256()
    folder = Path(file).parent
    sources = sorted(folder.rglob("*.py")) if hasattr(top, "__path__") else [Path(file)]
    for source in sources:
        digest.update(str(source.relative_to(folder)).encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()
