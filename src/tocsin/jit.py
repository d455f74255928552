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
keyed by the package's sources, the versions of Python and Numba, and the CPU.
Numba alone looks only at the file in which a function stands, so an edited
`step` in another file would leave a stale kernel behind; and several processes
that write one Numba cache can corrupt it. Hence the digest and the lock.
`compile_all` fills the cache before workers start.

A cache that cannot be written, made when an image was built and mounted read-only
say, is read without a lock: nobody changes it. Numba by itself insists on writing,
and looks for kernels by the path where the package lies; so we tell it where they are.

With `TOCSIN_BOUNDS_CHECK` in the environment kernels raise IndexError for an index out of bounds,
below zero included. That is for tests, and slower; such kernels lie in a cache of their own.

No fastmath anywhere: nnan and ninf would break the order of keys.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import inspect
import os
import sys
import tempfile
import threading
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj


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

BOOLEAN, UINT16, UINT64 = types.boolean, types.uint16, types.uint64  # in instructions

_Tuple = TypeVar("_Tuple", bound=tuple[Any, ...])

_BOUNDS_CHECK = "TOCSIN_BOUNDS_CHECK" in os.environ
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": _BOUNDS_CHECK}
_CHECKED = "TOCSIN_CHECKED_CALLS" in os.environ
_KERNELS: list[Kernel] = []
_thread_lock = threading.RLock()


def frozen(array: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """Return a C-contiguous, read-only view or copy of `array`, as named tuples hold.

    Numba converts a writable array to a read-only parameter by itself, but not
    inside a named tuple.
    """
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.setflags(write=False)
    return view


def freeze_fields(layout: type[_Tuple], /, **arrays: Any) -> _Tuple:
    """Return a named tuple of arrays, each frozen in the type that its field is annotated with."""
    types_ = field_types(layout)
    return layout(**{name: frozen(np.asarray(a), types_[name]) for name, a in arrays.items()})


@functools.cache
def field_types(kind: type[Any]) -> dict[str, str]:
    """Return the fields of a named tuple of arrays, and the type of each."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hints[name].__metadata__[0].dtype for name in kind._fields}


def step(function: Callable[..., Any]) -> Any:
    """Declare a function that only kernels call; it is compiled into them."""
    return numba.njit(**_OPTIONS)(function)


def instruction(function: Callable[..., Any]) -> Any:
    """Declare code that is emitted where a kernel uses it; the function tells its signature."""
    return intrinsic(function)


if _BOUNDS_CHECK:
    # Numba counts a negative index from the end before it checks bounds. No kernel means that.
    _wrapped_index = arrayobj.fix_integer_index

    def _index(context, builder, index_type, index, size):
        if context.enable_boundscheck and index_type.signed:
            return context.cast(builder, index, index_type, types.intp)
        return _wrapped_index(context, builder, index_type, index, size)

    arrayobj.fix_integer_index = _index


def check_bounds(context, builder, array, index, count):
    """Emit, where bounds are checked, a check of `count` elements that an instruction reads."""
    if context.enable_boundscheck:
        (size,) = cgutils.unpack_tuple(builder, array.shape, 1)
        cgutils.do_boundscheck(context, builder, index, size)
        last = builder.add(index, index.type(count - 1))
        cgutils.do_boundscheck(context, builder, last, size)


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


prefetch = instruction(_prefetch)


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
        """Run the compiled function.

        Not by way of Numba's dispatcher: it finds out the type of every array of every tuple to
        choose among one signature, and takes most of the time of a single event with that. It
        would also refuse an array that is not contiguous, so tests do go that way.
        """
        return (self._compiled or self.compile())(*arguments)

    def compile(self) -> Callable[..., Any]:
        """Compile, or load from the cache, and return the compiled function."""
        with _thread_lock:
            if self._compiled is None:
                hints = typing.get_type_hints(self.function, include_extras=True)
                parameters = inspect.signature(self.function).parameters
                signature = tuple(_numba_type(hints[name]) for name in parameters)
                with _home(self.function) as folder, _located(self.function, folder):
                    compiled = numba.njit(signature, cache=True, **_OPTIONS)(self.function)
                only: Any = compiled.overloads[compiled.signatures[0]]
                self._compiled = compiled if _CHECKED else only.entry_point
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
        hints = typing.get_type_hints(hint, include_extras=True)
        fields = [_numba_type(hints[name]) for name in hint._fields]
        if len(set(fields)) == 1:  # Numba has a type of its own for these
            return types.NamedUniTuple(fields[0], len(fields), hint)
        return types.NamedTuple(fields, hint)
    raise TypeError(f"a kernel cannot take a parameter annotated {hint!r}")


# ------------------------------------------------------------ where compiled kernels lie


@functools.cache
def cache_directories() -> list[Path]:
    """Return where compiled kernels may lie, the first choice first.

    These are `$TOCSIN_CACHE_DIR`, the user's cache and the folder for temporary files; in each
    the folder that is named by the digest. They need not exist, nor be writable.
    """
    digest = hashlib.sha256()
    package = Path(__file__).parent
    # Layers above the engine have no kernels, and none below depends on them.
    above = {package / "cli", package / "spark"}
    for source in sorted(p for p in package.rglob("*.py") if not above & set(p.parents)):
        digest.update(str(source.relative_to(package)).encode())
        digest.update(source.read_bytes())
    settings: Any = numba.config
    made_for = [
        sys.implementation.cache_tag,
        numba.__version__,
        settings.CPU_NAME or llvmlite.binding.get_host_cpu_name(),
        settings.CPU_FEATURES or llvmlite.binding.get_host_cpu_features().flatten(),
        _BOUNDS_CHECK,
    ]
    digest.update(repr(made_for).encode())
    roots = [
        os.environ.get("TOCSIN_CACHE_DIR"),
        os.environ.get("XDG_CACHE_HOME", "~/.cache") + "/tocsin",
        f"{tempfile.gettempdir()}/tocsin-{os.getuid()}",
    ]
    return [Path(root).expanduser() / digest.hexdigest()[:16] for root in roots if root]


@contextlib.contextmanager
def _home(function: Callable[..., Any]) -> Iterator[Path]:
    """Give the folder of one kernel: locked, or in a cache that is read-only and has it."""
    name = f"{function.__module__}.{function.__qualname__}-{_stamp(function)[:16]}"
    for directory in cache_directories():
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = os.open(directory / "lock", os.O_WRONLY | os.O_CREAT, 0o666)
        except OSError:
            # Numba writes a kernel's code last.
            if _trusted(directory) and any((directory / name).glob("*.nbc")):
                yield directory / name
                return
            continue
        try:
            if not _trusted(directory):
                continue
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield directory / name
        finally:
            os.close(lock)
        return
    raise OSError("no writable place for compiled kernels; set TOCSIN_CACHE_DIR to one")


def _trusted(directory: Path) -> bool:
    """Tell whether a cache is ours, or root's: what lies there is run."""
    try:
        owners = {folder.stat().st_uid for folder in (directory, directory.parent)}
    except OSError:
        return False
    return owners <= {os.getuid(), 0}


def _stamp(function: Callable[..., Any]) -> str:
    """Return what the source says; kernels that are not of this package are not in the digest."""
    return hashlib.sha256(Path(inspect.getfile(function)).read_bytes()).hexdigest()


_folders: dict[Callable[..., Any], Path] = {}  # of kernels that are being compiled or loaded


class KernelLocator:
    """Tells Numba where a kernel's code is; a folder for each, wherever the package lies."""

    def __init__(self, function: Callable[..., Any], file: str):
        self._py_file = file  # Numba names it in a warning
        self.folder = _folders[function]
        self.stamp = _stamp(function)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> KernelLocator | None:
        """Return the locator of a kernel, None for what is not ours."""
        return cls(function, file) if function in _folders else None

    def get_cache_path(self) -> str:
        """Return the folder of index and code."""
        return str(self.folder)

    def get_source_stamp(self) -> str:
        """Return what must be unchanged for the code to be fresh."""
        return self.stamp

    def get_disambiguator(self) -> str:
        """Return what tells functions of one name apart; here their folders do."""
        return "kernel"

    def ensure_cache_path(self) -> None:
        """Make the folder; called before code is written."""
        self.folder.mkdir(exist_ok=True)


@contextlib.contextmanager
def _located(function: Callable[..., Any], folder: Path) -> Iterator[None]:
    settings: Any = numba.config
    before = settings.CACHE_LOCATOR_CLASSES
    # Another thread may be compiling what is not ours: Numba's own come after.
    own = "UserProvidedCacheLocator,InTreeCacheLocator,UserWideCacheLocator,IPythonCacheLocator"
    _folders[function] = folder
    settings.CACHE_LOCATOR_CLASSES = f"{__name__}.KernelLocator,{before or own}"
    try:
        yield
    finally:
        settings.CACHE_LOCATOR_CLASSES = before
        del _folders[function]
