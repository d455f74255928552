"""Gaps of a point to many points or boxes at once, as vectors for LLVM.

The coordinates of eight or more points lie side by side, dimension by dimension. An instruction
returns a bit for each of them whose gap is below the bound. Gaps are computed as in `closeness`,
with the same operations in the same order, so the bits need no second look. From a plain loop over
lanes, LLVM makes code that stores every partial sum; these keep them in registers.

Lanes without a point have infinite coordinates, so that their gap is never below a bound.
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features

from tocsin.jit import BOOLEAN, FLOAT64, INT64, UINT64, check_bounds, instruction
from tocsin.similarity.closeness import L1, L2, LINF

RUN = 8  # points of a run that are compared at once
FAN = 32  # points of a block and children of a node, which are compared at once

_VECTOR = 8  # doubles; LLVM splits them into what the CPU has
_DOUBLE, _INDEX, _NUMBER = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_DOUBLES = ir.VectorType(_DOUBLE, _VECTOR)
_NUMBERS = ir.VectorType(_NUMBER, _VECTOR)
_INDEXES = ir.VectorType(_INDEX, _VECTOR)
_BITS = ir.VectorType(ir.IntType(1), _VECTOR)
_UNDEFINED = ir.Constant(_DOUBLES, ir.Undefined)
_ZEROS = ir.Constant(_DOUBLES, [_DOUBLE(0.0)] * _VECTOR)
_FIRST = ir.Constant(ir.VectorType(_NUMBER, _VECTOR), [0] * _VECTOR)


def _repeat(builder, value):
    """Return a vector with one value in all lanes."""
    single = builder.insert_element(_UNDEFINED, value, _NUMBER(0))
    return builder.shuffle_vector(single, _UNDEFINED, _FIRST)


def _load(context, builder, array, at):
    check_bounds(context, builder, array, at, _VECTOR)
    values = builder.load(builder.bitcast(builder.gep(array.data, [at]), _DOUBLES.as_pointer()))
    values.align = 8
    return values


def _load_repeated(context, builder, array, at):
    check_bounds(context, builder, array, at, 1)
    return _repeat(builder, builder.load(builder.gep(array.data, [at])))


def _larger(builder, a, b):
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _accumulate(builder, metric, gap, difference):
    """Return a gap to which the difference in another dimension is added."""
    if metric == L2:
        return builder.fadd(gap, builder.fmul(difference, difference))
    difference = _larger(builder, difference, builder.fsub(_ZEROS, difference))
    return builder.fadd(gap, difference) if metric == L1 else _larger(builder, gap, difference)


def _compare(builder, metric, lanes, d, bound, differences):
    """Emit the gaps over d dimensions; return a bit for each lane whose gap is below the bound.

    `differences(k)` emits the differences in dimension k, a vector for each eight lanes. A number
    of dimensions that is known unrolls the loop over them.
    """
    if isinstance(d, int):
        gaps = [_ZEROS] * (lanes // _VECTOR)
        for k in range(d):
            gaps = [
                _accumulate(builder, metric, gap, difference)
                for gap, difference in zip(gaps, differences(_INDEX(k)), strict=True)
            ]
    else:
        gaps = _loop_over_dimensions(builder, metric, lanes, d, differences)
    limit, bits = _repeat(builder, bound), _INDEX(0)
    for i, gap in enumerate(gaps):
        is_close = builder.fcmp_ordered("<", gap, limit)
        mask = builder.zext(builder.bitcast(is_close, ir.IntType(_VECTOR)), _INDEX)
        bits = builder.or_(bits, builder.shl(mask, _INDEX(i * _VECTOR)))
    return bits


def _loop_over_dimensions(builder, metric, lanes, d, differences):
    entry = builder.block
    loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(_INDEX)
    gaps = [builder.phi(_DOUBLES) for _ in range(lanes // _VECTOR)]
    added = [
        _accumulate(builder, metric, gap, difference)
        for gap, difference in zip(gaps, differences(k), strict=True)
    ]
    following, end = builder.add(k, _INDEX(1)), builder.block
    k.add_incoming(_INDEX(0), entry)
    k.add_incoming(following, end)
    for gap, total in zip(gaps, added, strict=True):
        gap.add_incoming(_ZEROS, entry)
        gap.add_incoming(total, end)
    builder.cbranch(builder.icmp_signed("<", following, d), loop, done)
    builder.position_at_end(done)
    return added


def _array(context, builder, signature, arguments, which):
    return context.make_array(signature.args[which])(context, builder, arguments[which])


def _switch(builder, value, cases, otherwise):
    """Emit the code for each case of a value, and for all others; return what is chosen.

    Steps instead of code in place would not be inlined, and a call that passes arrays costs as much
    as a comparison of eight points.
    """
    done, default = builder.append_basic_block("done"), builder.append_basic_block("default")
    choice = builder.switch(value, default)
    results = []

    def emit_into(block, emit):
        builder.position_at_end(block)
        results.append((emit(), builder.block))
        builder.branch(done)

    for case, emit in cases.items():
        block = builder.append_basic_block("case")
        choice.add_case(_INDEX(case), block)
        emit_into(block, emit)
    emit_into(default, otherwise)
    builder.position_at_end(done)
    chosen = builder.phi(_INDEX)
    for result, block in results:
        chosen.add_incoming(result, block)
    return chosen


def _switch_metric(builder, metric, emit):
    """Emit the code for each metric."""
    cases = {each: partial(emit, each) for each in (L2, L1)}
    return _switch(builder, metric, cases, partial(emit, LINF))


def _compare_points(context, builder, lanes, a, first, b, at, stride, d, bound, metric):
    def differences(k):
        own = _load_repeated(context, builder, a, builder.add(first, k))
        begin = builder.add(at, builder.mul(k, stride))
        for offset in range(0, lanes, _VECTOR):
            lane = builder.add(begin, _INDEX(offset))
            yield builder.fsub(own, _load(context, builder, b, lane))

    return _compare(builder, metric, lanes, d, bound, differences)


def _close_in_run(typing_context, a, first, b, at, stride, d, bound, metric):
    """Return which of eight points are close to one, as bits.

    Coordinate k of the one is a[first + k]; those of the eight begin at b[at + k * stride].
    """

    def emit(context, builder, signature, arguments):
        a, b = (_array(context, builder, signature, arguments, i) for i in (0, 2))
        _, first, _, at, stride, d, bound, metric = arguments

        def compare(metric, d):
            return _compare_points(context, builder, RUN, a, first, b, at, stride, d, bound, metric)

        def compare_any(metric):
            # Most joins over cells have few dimensions: their loops are unrolled.
            cases = {count: partial(compare, metric, count) for count in (2, 3, 4)}
            return _switch(builder, d, cases, partial(compare, metric, d))

        return _switch_metric(builder, metric, compare_any)

    return UINT64(a, INT64, b, INT64, INT64, INT64, FLOAT64, INT64), emit


def _close_in_block(typing_context, a, first, b, at, d, bound, metric):
    """Return which points of a block are close to one; coordinates k begin at b[at + k * FAN]."""

    def emit(context, builder, signature, arguments):
        a, b = (_array(context, builder, signature, arguments, i) for i in (0, 2))
        _, first, _, at, d, bound, metric = arguments

        def compare(metric):
            stride = _INDEX(FAN)
            return _compare_points(context, builder, FAN, a, first, b, at, stride, d, bound, metric)

        return _switch_metric(builder, metric, compare)

    return UINT64(a, INT64, b, INT64, INT64, FLOAT64, INT64), emit


def _close_boxes(typing_context, a, first, low, high, at, d, bound, metric):
    """Return which boxes of a node may have a point close to one, as bits."""

    def emit(context, builder, signature, arguments):
        a, low, high = (_array(context, builder, signature, arguments, i) for i in (0, 2, 3))
        _, first, _, _, at, d, bound, metric = arguments

        def differences(k):
            own = _load_repeated(context, builder, a, builder.add(first, k))
            begin = builder.add(at, builder.mul(k, _INDEX(FAN)))
            for offset in range(0, FAN, _VECTOR):
                lane = builder.add(begin, _INDEX(offset))
                below = builder.fsub(_load(context, builder, low, lane), own)
                above = builder.fsub(own, _load(context, builder, high, lane))
                yield _larger(builder, _larger(builder, below, above), _ZEROS)

        def compare(metric):
            return _compare(builder, metric, FAN, d, bound, differences)

        return _switch_metric(builder, metric, compare)

    return UINT64(a, INT64, low, high, INT64, INT64, FLOAT64, INT64), emit


def _lowest_bit(typing_context, bits):
    """Return the number of the lowest bit that is set; there must be one."""

    def emit(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return INT64(UINT64), emit


def _count_bits(typing_context, bits):
    """Return the number of bits that are set."""

    def emit(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return INT64(UINT64), emit


def _write_lanes(typing_context, x, number, at, bits, same, left, right, n):
    """Write the pairs of point x and the eight points at `at` whose bits are set, from n on.

    Return the number of pairs. There must be room for eight. The points are compressed as a vector:
    a CPU cannot predict which bits are set, so a branch for each costs more than all the rest.
    """

    def emit(context, builder, signature, arguments):
        number, left, right = (_array(context, builder, signature, arguments, i) for i in (1, 5, 6))
        x, _, at, bits, same, _, _, n = arguments
        for array, index in ((number, at), (left, n), (right, n)):
            check_bounds(context, builder, array, index, _VECTOR)

        def address(array, index):
            return builder.bitcast(builder.gep(array.data, [index]), _INDEXES.as_pointer())

        single = builder.insert_element(ir.Constant(_INDEXES, ir.Undefined), x, _NUMBER(0))
        own = builder.shuffle_vector(single, ir.Constant(_INDEXES, ir.Undefined), _FIRST)
        numbers = builder.bitcast(builder.gep(number.data, [at]), _NUMBERS.as_pointer())
        found = builder.zext(_compress(builder, builder.load(numbers, align=4), bits), _INDEXES)
        # Of one set, the smaller number is on the left.
        swapped = builder.and_(
            builder.icmp_signed("<", found, own), _repeat_bit(builder, same, _BITS)
        )
        builder.store(builder.select(swapped, found, own), address(left, n), align=8)
        builder.store(builder.select(swapped, own, found), address(right, n), align=8)
        return builder.add(n, builder.ctpop(bits))

    return INT64(INT64, number, INT64, UINT64, BOOLEAN, left, right, INT64), emit


def _compress(builder, values, bits):
    """Return eight numbers, first those whose bits are set, in order.

    AVX-512 has an instruction for it. With AVX2, LLVM would move them one by one, which is slower
    than to look the positions up in a table of all patterns of bits.
    """
    features = get_host_cpu_features()
    if features.get("avx512vl") or not features.get("avx2"):
        is_set = builder.bitcast(builder.trunc(bits, ir.IntType(_VECTOR)), _BITS)
        name = f"llvm.experimental.vector.compress.v{_VECTOR}i32"
        arguments = [values, is_set, ir.Constant(_NUMBERS, ir.Undefined)]
    else:
        name = "llvm.x86.avx2.permd"
        row = builder.gep(_positions(builder.module), [_INDEX(0), builder.shl(bits, _INDEX(3))])
        positions = builder.load(builder.bitcast(row, _NUMBERS.as_pointer()), align=32)
        arguments = [values, positions]
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(_NUMBERS, [each.type for each in arguments]), name
    )
    return builder.call(function, arguments)


def _positions(module):
    """Return the positions of the bits that are set, eight for each pattern of eight bits."""
    name = "tocsin.positions"
    if name not in module.globals:
        rows = []
        for pattern in range(1 << _VECTOR):
            lanes = [lane for lane in range(_VECTOR) if pattern >> lane & 1]
            rows += lanes + [0] * (_VECTOR - len(lanes))
        type_ = ir.ArrayType(_NUMBER, len(rows))
        table = ir.GlobalVariable(module, type_, name)
        table.linkage, table.global_constant, table.align = "internal", True, 32
        table.initializer = ir.Constant(type_, [_NUMBER(row) for row in rows])
    return module.globals[name]


def _repeat_bit(builder, bit, type_):
    undefined = ir.Constant(type_, ir.Undefined)
    single = builder.insert_element(undefined, bit, _NUMBER(0))
    return builder.shuffle_vector(single, undefined, _FIRST)


close_in_run = instruction(_close_in_run)
close_in_block = instruction(_close_in_block)
close_boxes = instruction(_close_boxes)
lowest_bit = instruction(_lowest_bit)
count_bits = instruction(_count_bits)
write_lanes = instruction(_write_lanes)
