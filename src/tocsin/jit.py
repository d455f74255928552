"""Compiles kernels with Numba and caches them on disk. No other module imports Numba.

A kernel is a plain function whose annotations are its signature::

    @kernel
    def double(values: Int64s, out: Int64Out) -> None: ...

`Int64s` and the like are read-only, C-contiguous inputs. `Int64Out` and the like are written to.
A parameter can also be a named tuple of such arrays. Each kernel therefore has exactly one
compiled form: Numba never specialises it, and no two processes compile different signatures.

A kernel compiles at its first call, under a file lock of its own, into a cache. The cache is keyed
by what a kernel uses (`code_digest`), the versions of Python and Numba, and the CPU, because
Numba's own cache has two gaps: it looks only at the file that defines a function, so an edited
`step` in another file would leave a stale kernel behind, and several processes that write to it can
corrupt it. `compile_all` fills the cache before workers start. Kernels that were not loaded for 30
days are removed.

A read-only cache, for example one in a container image, is read without a lock because nobody
changes it. Numba itself insists on a writable cache and looks up kernels by the path of the
package. `KernelLocator` tells it where they are.

With `TOCSIN_BOUNDS_CHECK` in the environment, kernels raise IndexError for an index out of bounds,
including a negative one. This is slow and meant for tests. Such kernels have a cache of their own.

Assigning an array to a slice or a row makes Numba compile the message for a wrong shape, which
takes more than a second per kernel; loops avoid it (`python -m benchmarks.first_call --kernels`).

Fastmath is never on: nnan and ninf would break the order of keys.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import inspect
import os
import shutil
import sys
import tempfile
import threading
import time
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import llvmlite
import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from tocsin.code_digest import digest_code


class _Array(NamedTuple):
    dtype: str
    dimensions: int
    readonly: bool


_I64 = np.ndarray[Any, np.dtype[np.int64]]
_I32 = np.ndarray[Any, np.dtype[np.int32]]
_U8 = np.ndarray[Any, np.dtype[np.uint8]]
_U16 = np.ndarray[Any, np.dtype[np.uint16]]
_U64 = np.ndarray[Any, np.dtype[np.uint64]]
_F64 = np.ndarray[Any, np.dtype[np.float64]]

Int64s = Annotated[_I64, _Array("int64", 1, True)]
Int32s = Annotated[_I32, _Array("int32", 1, True)]
UInt8s = Annotated[_U8, _Array("uint8", 1, True)]
UInt16s = Annotated[_U16, _Array("uint16", 1, True)]
UInt64s = Annotated[_U64, _Array("uint64", 1, True)]
Float64s = Annotated[_F64, _Array("float64", 1, True)]
Int64Rows = Annotated[_I64, _Array("int64", 2, True)]

Int64Out = Annotated[_I64, _Array("int64", 1, False)]
Int32Out = Annotated[_I32, _Array("int32", 1, False)]
UInt8Out = Annotated[_U8, _Array("uint8", 1, False)]
UInt16Out = Annotated[_U16, _Array("uint16", 1, False)]
UInt64Out = Annotated[_U64, _Array("uint64", 1, False)]
Float64Out = Annotated[_F64, _Array("float64", 1, False)]

# In instructions.
BOOLEAN, UINT16, UINT64 = types.boolean, types.uint16, types.uint64
INT64, FLOAT64 = types.int64, types.float64

_Tuple = TypeVar("_Tuple", bound=tuple[Any, ...])

_BOUNDS_CHECK = "TOCSIN_BOUNDS_CHECK" in os.environ
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": _BOUNDS_CHECK,
    "no_cfunc_wrapper": True,  # nobody calls kernels from C; it takes time to compile
}
_UNUSED_DAYS = 30
_CHECKED_CALLS = "TOCSIN_CHECKED_CALLS" in os.environ
_KERNELS: list[Kernel] = []
_PAIRS: list[Any] = []  # what `compile_pair` has compiled: an address is valid while it exists
_thread_lock = threading.RLock()


def freeze(array: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """Return a C-contiguous, read-only view or copy of an array, for use in a named tuple.

    Numba accepts a writable array for a read-only parameter, but not inside a named tuple.
    """
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.setflags(write=False)
    return view


def freeze_fields(layout: type[_Tuple], /, **arrays: Any) -> _Tuple:
    """Return a named tuple of frozen arrays, each of the dtype that its field declares."""
    dtypes = field_types(layout)
    arrays = getattr(layout, "_field_defaults") | arrays  # noqa: B009
    if arrays.keys() != dtypes.keys():
        wrong = sorted(arrays.keys() ^ dtypes.keys())
        raise TypeError(f"{layout.__name__} has the fields {', '.join(dtypes)}; check {wrong}")
    return layout(**{name: freeze(np.asarray(a), dtypes[name]) for name, a in arrays.items()})


@functools.cache
def field_types(layout: type[Any]) -> dict[str, str]:
    """Return the dtype of each field of a named tuple of arrays."""
    hints = typing.get_type_hints(layout, include_extras=True)
    for name in layout._fields:
        if not hasattr(hints[name], "__metadata__"):
            raise TypeError(
                f"field {name!r} of {layout.__name__} must be an array: Int64s, Int32s, UInt8s, "
                f"Float64s ... of tocsin.jit; got {hints[name]!r} (a number is an array of one)"
            )
    return {name: hints[name].__metadata__[0].dtype for name in layout._fields}


def step(function: Callable[..., Any]) -> Any:
    """Declare a function that is called by kernels only, and compiled into them."""
    return numba.njit(**_OPTIONS)(function)


def bare_step(function: Callable[..., Any]) -> Any:
    """Declare a step that neither allocates nor returns arrays, and so counts no references.

    Numba counts those of all array arguments when a step is called, which costs 2 nanoseconds for
    each: more than many steps take.
    """
    options: dict[str, Any] = {"_nrt": False, **_OPTIONS}
    return numba.njit(**options)(function)


def instruction(function: Callable[..., Any]) -> Any:
    """Declare a function that returns a signature and emits LLVM code where a kernel calls it."""
    return intrinsic(function)


if _BOUNDS_CHECK:
    # Numba wraps a negative index around before it checks bounds. Kernels never rely on that.
    _wrap_index = arrayobj.fix_integer_index

    def _keep_index(context, builder, index_type, index, size):
        if context.enable_boundscheck and index_type.signed:
            return context.cast(builder, index, index_type, types.intp)
        return _wrap_index(context, builder, index_type, index, size)

    arrayobj.fix_integer_index = _keep_index


def check_bounds(context, builder, array, index, count):
    """Emit a bounds check for the `count` elements that an instruction reads, if checks are on."""
    if context.enable_boundscheck:
        (size,) = cgutils.unpack_tuple(builder, array.shape, 1)
        cgutils.do_boundscheck(context, builder, index, size)
        last = builder.add(index, index.type(count - 1))
        cgutils.do_boundscheck(context, builder, last, size)


def _prefetch(typing_context, array, index):
    """Prefetch the cache line of an array's element."""

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


prefetch = instruction(_prefetch)


def _load_word(typing_context, array, index):
    """Load eight bytes of a byte array from an index on, as one word; the first byte is lowest."""

    def emit(context, builder, signature, arguments):
        source = context.make_array(signature.args[0])(context, builder, arguments[0])
        check_bounds(context, builder, source, arguments[1], 8)
        address = builder.gep(source.data, [arguments[1]])
        word = builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return UINT64(array, types.int64), emit


load_word = instruction(_load_word)


def _call_pair(typing_context, address, left, right):
    """Call the function of two floats at an address (`compile_pair`)."""

    def emit(context, builder, signature, arguments):
        real = ir.DoubleType()
        function = ir.FunctionType(real, [real, real]).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], function), arguments[1:])

    return types.float64(types.int64, types.float64, types.float64), emit


call_pair = instruction(_call_pair)


@functools.cache
def compile_pair(function: Callable[[float, float], float]) -> int:
    """Compile a user's function of two floats; return its address, for `call_pair`.

    Kernels call it by address, so they need not be recompiled. Compiled functions are never freed.
    Where the function raises an exception, the compiled one returns NaN.
    """
    inner = numba.njit(error_model="numpy")(function)

    def call(left, right):
        try:
            return inner(left, right)
        except Exception:
            return np.nan

    with _thread_lock:
        compiled: Any = numba.cfunc(types.float64(types.float64, types.float64))(call)
    _PAIRS.append(compiled)
    return int(compiled.address)


def kernel(function: Callable[..., Any]) -> Kernel:
    """Declare a compiled function that Python calls. Its annotations are its signature."""
    return Kernel(function)


class Kernel:
    """A function that is compiled at its first call, once per machine."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self.function = function
        self._compiled: Callable[..., Any] | None = None
        _KERNELS.append(self)

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled function.

        This bypasses Numba's dispatcher, which inspects the type of every array in every tuple
        although there is only one signature. For a single event that takes longer than matching.
        The dispatcher also rejects arrays that are not contiguous, so tests use it
        (`TOCSIN_CHECKED_CALLS`).
        """
        return (self._compiled or self.compile())(*arguments)

    def compile(self, wait: bool = True) -> Callable[..., Any]:
        """Compile the function or load it from the cache, and return it.

        With `wait=False`, raise BlockingIOError if another process is compiling it.
        """
        with _thread_lock:
            if self._compiled is None:
                signature, digest = self._signature(), self.digest()
                folder_of = _open_folder(self.function, digest, wait)
                with folder_of as folder, _use_folder(self.function, folder, digest):
                    dispatcher = numba.njit(signature, cache=True, **_OPTIONS)(self.function)
                overload: Any = dispatcher.overloads[dispatcher.signatures[0]]
                self._compiled = dispatcher if _CHECKED_CALLS else overload.entry_point
            assert self._compiled is not None
            return self._compiled

    def digest(self) -> str:
        """Return the digest of all that the compiled code depends on."""
        return digest_code(self.function, self._signature())

    def _signature(self) -> tuple[Any, ...]:
        hints = typing.get_type_hints(self.function, include_extras=True)
        parameters = inspect.signature(self.function).parameters
        for name in parameters:
            if name not in hints:
                raise TypeError(
                    f"parameter {name!r} of kernel {self.function.__name__} has no type: "
                    "the annotations of a kernel are its signature"
                )
        return tuple(_numba_type(hints[name]) for name in parameters)


def compile_all(packages: tuple[str, ...] = ("",), leave_out: tuple[str, ...] = ()) -> None:
    """Compile all imported kernels of some packages, so that workers only load them.

    Modules whose names end with one in `leave_out` are not compiled.

    Kernels that other processes are compiling come last, so that the processes share the work.
    """
    wanted = [
        each
        for each in _KERNELS
        if each.function.__module__.startswith(packages)
        and not each.function.__module__.endswith(leave_out)
    ]
    for each in wanted:
        with contextlib.suppress(BlockingIOError):
            each.compile(wait=False)
    for each in wanted:
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
        hints = typing.get_type_hints(hint, include_extras=True)
        fields = [_numba_type(hints[name]) for name in hint._fields]
        if len(set(fields)) == 1:  # Numba has a type of its own for these
            return types.NamedUniTuple(fields[0], len(fields), hint)
        return types.NamedTuple(fields, hint)
    raise TypeError(f"a kernel cannot take a parameter annotated {hint!r}")


# ------------------------------------------------------------ the cache of compiled kernels


@functools.cache
def cache_directories() -> list[Path]:
    """Return the folders that may hold compiled kernels, in order of preference.

    They are in `$TOCSIN_CACHE_DIR`, in the user's cache and in the folder for temporary files,
    each named by what the code is compiled by and for. They need not exist or be writable.
    """
    settings: Any = numba.config
    target = [
        sys.implementation.cache_tag,
        np.__version__,
        numba.__version__,
        llvmlite.__version__,
        settings.CPU_NAME or llvmlite.binding.get_host_cpu_name(),
        settings.CPU_FEATURES or llvmlite.binding.get_host_cpu_features().flatten(),
        sorted(_OPTIONS.items()),
    ]
    name = hashlib.sha256(repr(target).encode()).hexdigest()[:16]
    return [root / name for root in cache_roots()]


def cache_roots() -> list[Path]:
    """Return the folders for what this machine keeps of its own, in order of preference."""
    roots = [
        os.environ.get("TOCSIN_CACHE_DIR"),
        os.environ.get("XDG_CACHE_HOME", "~/.cache") + "/tocsin",
        f"{tempfile.gettempdir()}/tocsin-{os.getuid()}",
    ]
    return [Path(root).expanduser() for root in roots if root]


@functools.cache
def _remove_unused(root: Path) -> None:
    """Remove kernels from a cache that were not loaded for 30 days."""
    limit = time.time() - _UNUSED_DAYS * 24 * 3600
    for lock in root.glob("*/*/lock"):
        with contextlib.suppress(OSError):
            if lock.stat().st_mtime < limit:
                shutil.rmtree(lock.parent)


@contextlib.contextmanager
def _open_folder(function: Callable[..., Any], digest: str, wait: bool) -> Iterator[Path]:
    """Yield the cache folder of a kernel: under a lock, or in a read-only cache that has it."""
    name = f"{function.__module__}.{function.__qualname__}-{digest[:16]}"
    for directory in cache_directories():
        folder = directory / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(folder / "lock", os.O_WRONLY | os.O_CREAT, 0o666)
        except OSError:
            # The code is complete: Numba writes it last.
            if _is_trusted(directory) and any(folder.glob("*.nbc")):
                yield folder
                return
            continue
        try:
            if not _is_trusted(directory):
                continue
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.utime(lock)
            _remove_unused(directory.parent)
            yield folder
        finally:
            os.close(lock)
        return
    raise OSError("no writable folder for compiled kernels; set TOCSIN_CACHE_DIR to one")


def _is_trusted(directory: Path) -> bool:
    """Return whether the user or root owns a cache, since the code in it is run."""
    try:
        owners = {folder.stat().st_uid for folder in (directory, directory.parent)}
    except OSError:
        return False
    return owners <= {os.getuid(), 0}


# Of the kernels that are compiled or loaded at the moment: folder and digest.
_folders: dict[Callable[..., Any], tuple[Path, str]] = {}


class KernelLocator:
    """Tells Numba the cache folder of a kernel, which does not depend on the package's path."""

    def __init__(self, function: Callable[..., Any], file: str):
        self._py_file = file  # Numba mentions it in a warning
        self.folder, self.stamp = _folders[function]

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> KernelLocator | None:
        """Return the locator of a kernel, or None for functions of other packages."""
        return cls(function, file) if function in _folders else None

    def get_cache_path(self) -> str:
        """Return the folder of the kernel's index and code."""
        return str(self.folder)

    def get_source_stamp(self) -> str:
        """Return the stamp that makes the code stale when it changes."""
        return self.stamp

    def get_disambiguator(self) -> str:
        """Return a constant: functions of one name have different folders."""
        return "kernel"

    def ensure_cache_path(self) -> None:
        """Create the folder; Numba calls this before it writes code."""
        self.folder.mkdir(exist_ok=True)


@contextlib.contextmanager
def _use_folder(function: Callable[..., Any], folder: Path, digest: str) -> Iterator[None]:
    """Make Numba use a folder for a kernel."""
    settings: Any = numba.config
    before = settings.CACHE_LOCATOR_CLASSES
    # Numba's own locators follow, for functions that other threads compile meanwhile.
    builtin = "UserProvidedCacheLocator,InTreeCacheLocator,UserWideCacheLocator,IPythonCacheLocator"
    _folders[function] = folder, digest
    settings.CACHE_LOCATOR_CLASSES = f"{__name__}.KernelLocator,{before or builtin}"
    try:
        yield
    finally:
        settings.CACHE_LOCATOR_CLASSES = before
        del _folders[function]
