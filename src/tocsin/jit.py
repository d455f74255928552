"""The one owner of compilation policy: how, when and where kernels are compiled.

A kernel is written as a plain function whose annotations are its signature::

    @kernel
    def double(values: Int64s, out: Int64Out) -> None: ...

`Int64s` and its kin are read-only C-contiguous inputs, the `...Out` kin are
written to; a parameter annotated with a named tuple of such arrays takes that
tuple. So each kernel has exactly one compiled form: nothing is specialised
behind the caller's back, and two processes never compile different signatures
of one function.

A kernel compiles at its first call, holding a file lock, into a cache that is
keyed by the package's sources, Numba's version and the CPU. Numba alone looks
only at the file in which a function stands, so an edited `step` in another file
would leave a stale kernel behind; and several processes that write one Numba
cache can corrupt it. Hence the digest and the lock. `compile_all` fills the
cache before workers start.

No fastmath anywhere: nnan and ninf would break the order of keys.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import inspect
import os
import tempfile
import threading
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


class _Array(NamedTuple):
    dtype: str
    dimensions: int
    readonly: bool


_I64 = np.ndarray[Any, np.dtype[np.int64]]
_I32 = np.ndarray[Any, np.dtype[np.int32]]
_U8 = np.ndarray[Any, np.dtype[np.uint8]]
_U64 = np.ndarray[Any, np.dtype[np.uint64]]
_F64 = np.ndarray[Any, np.dtype[np.float64]]

Int64s = Annotated[_I64, _Array("int64", 1, True)]
Int32s = Annotated[_I32, _Array("int32", 1, True)]
UInt8s = Annotated[_U8, _Array("uint8", 1, True)]
UInt64s = Annotated[_U64, _Array("uint64", 1, True)]
Float64s = Annotated[_F64, _Array("float64", 1, True)]
Int64Rows = Annotated[_I64, _Array("int64", 2, True)]

Int64Out = Annotated[_I64, _Array("int64", 1, False)]
Int32Out = Annotated[_I32, _Array("int32", 1, False)]
UInt8Out = Annotated[_U8, _Array("uint8", 1, False)]
UInt64Out = Annotated[_U64, _Array("uint64", 1, False)]
Float64Out = Annotated[_F64, _Array("float64", 1, False)]

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
_KERNELS: list[Kernel] = []
_thread_lock = threading.RLock()


def frozen(array: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """Return a C-contiguous, read-only view or copy of `array`, as named tuples hold.

    Numba converts a writable array to a read-only parameter by itself, but not
    inside a named tuple.
    """
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


def step(function: Callable[..., Any]) -> Any:
    """Declare a function that only kernels call; it is compiled into them."""
    return numba.njit(**_OPTIONS)(function)


def _prefetch(typing_context, array, index):
    """Ask memory for the line in which an array has an element, and do not wait for it."""

    def emit(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        )
        builder.call(function, [address, word(0), word(3), word(1)])  # read, keep, data
        return context.get_dummy_value()

    return types.void(array, types.int64), emit


prefetch: Any = intrinsic(_prefetch)


def kernel(function: Callable[..., Any]) -> Kernel:
    """Declare a compiled function that Python calls; its annotations are its signature."""
    return Kernel(function)


class Kernel:
    """A function compiled at its first call, once per machine."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self.function = function
        self._compiled: Callable[..., Any] | None = None
        _KERNELS.append(self)

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled function."""
        return (self._compiled or self.compile())(*arguments)

    def compile(self) -> Callable[..., Any]:
        """Compile, or load from the cache, and return the compiled function."""
        with _thread_lock:
            if self._compiled is None:
                hints = typing.get_type_hints(self.function, include_extras=True)
                parameters = inspect.signature(self.function).parameters
                signature = tuple(_numba_type(hints[name]) for name in parameters)
                with _cache() as directory:
                    settings: Any = numba.config
                    before = settings.CACHE_DIR
                    settings.CACHE_DIR = str(directory)
                    try:
                        self._compiled = numba.njit(signature, cache=True, **_OPTIONS)(
                            self.function
                        )
                    finally:
                        settings.CACHE_DIR = before
            assert self._compiled is not None
            return self._compiled


def compile_all() -> None:
    """Compile every kernel that has been imported, so that workers only load."""
    for each in _KERNELS:
        each.compile()


def _numba_type(hint: Any) -> Any:
    if hint is int:
        return types.int64
    if hint is float:
        return types.float64
    if hint is bool:
        return types.boolean
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, _Array):
            return types.Array(
                getattr(types, extra.dtype), extra.dimensions, "C", readonly=extra.readonly
            )
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        fields = typing.get_type_hints(hint, include_extras=True)
        return types.NamedTuple([_numba_type(fields[name]) for name in hint._fields], hint)
    raise TypeError(f"a kernel cannot take a parameter annotated {hint!r}")


@functools.cache
def cache_directory() -> Path:
    """Return where compiled kernels lie: `$TOCSIN_CACHE_DIR` or the user's cache, by digest."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for source in sorted(package.rglob("*.py")):
        digest.update(str(source.relative_to(package)).encode())
        digest.update(source.read_bytes())
    digest.update(numba.__version__.encode())
    digest.update(llvmlite.binding.get_host_cpu_name().encode())
    digest.update(llvmlite.binding.get_host_cpu_features().flatten().encode())
    roots = [
        os.environ.get("TOCSIN_CACHE_DIR"),
        os.environ.get("XDG_CACHE_HOME", "~/.cache") + "/tocsin",
        f"{tempfile.gettempdir()}/tocsin-{os.getuid()}",
    ]
    for root in filter(None, roots):
        directory = Path(root).expanduser() / digest.hexdigest()[:16]
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "lock").touch()
        except OSError:
            continue
        return directory
    raise OSError("no writable place for compiled kernels; set TOCSIN_CACHE_DIR to one")


@contextlib.contextmanager
def _cache() -> Iterator[Path]:
    directory = cache_directory()
    with open(directory / "lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory
