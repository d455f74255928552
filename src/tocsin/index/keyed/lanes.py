"""Eight entries at once: predicates are side by side, and vector instructions compare them.

A *row* is one predicate of each of eight entries: eight attributes, eight lows, eight highs, of 16
bits each. A comparison returns a bit for each lane. Only the event's codes are fetched one by one,
because each lane has its own attribute.

Nothing here branches, which is why it is fast: where ranges overlap, a CPU cannot predict whether
the next predicate holds, and a misprediction costs as much as four rows of lanes. The comparisons
are written as vectors for LLVM, which has instructions for them on any CPU; from a plain loop over
the lanes, LLVM generates code that is slower than no lanes at all. Sixteen lanes were 10% faster if
most of a block passes, but read twice the memory if one lane does; four lanes were 20% slower.
"""

from __future__ import annotations

from llvmlite import ir

from tocsin.jit import BOOLEAN, UINT16, UINT64, check_bounds, instruction

LANES = 8
ROW = 3 * LANES  # words of a row: attributes, lows, highs
HEAD = 2 * LANES + ROW  # words of a block's head: lows and highs of its keys, and one row

_WORD, _INDEX = ir.IntType(16), ir.IntType(64)
_WORDS = ir.VectorType(_WORD, LANES)


def _load(context, builder, array, at, offset):
    """Load eight words, `offset` words after an index."""
    begin = builder.add(at, _INDEX(offset))
    check_bounds(context, builder, array, begin, LANES)
    address = builder.gep(array.data, [begin])
    words = builder.load(builder.bitcast(address, _WORDS.as_pointer()))
    words.align = 2
    return words


def _look_up(context, builder, table, array, at):
    """Load the words of a table at the eight indexes that an array has."""
    check_bounds(context, builder, array, at, LANES)
    words = ir.Constant(_WORDS, ir.Undefined)
    for lane in range(LANES):
        index = builder.load(builder.gep(array.data, [builder.add(at, _INDEX(lane))]))
        index = builder.zext(index, _INDEX)
        check_bounds(context, builder, table, index, 1)
        word = builder.load(builder.gep(table.data, [index]))
        words = builder.insert_element(words, word, ir.IntType(32)(lane))
    return words


def _repeat(builder, word):
    """Return a vector with one word in all lanes."""
    words = ir.Constant(_WORDS, ir.Undefined)
    for lane in range(LANES):
        words = builder.insert_element(words, word, ir.IntType(32)(lane))
    return words


def _compare(builder, low, high, code, code_high):
    """Return a bit for each lane whose range, low to high, overlaps the event's."""
    meet = builder.and_(
        builder.icmp_unsigned("<=", low, code_high), builder.icmp_unsigned("<=", code, high)
    )
    return builder.zext(builder.bitcast(meet, ir.IntType(LANES)), _INDEX)


def _array(context, builder, signature, arguments, which):
    """Return an argument that is an array."""
    return context.make_array(signature.args[which])(context, builder, arguments[which])


def _meeting_lanes(typing_context, words, at, code, code_high):
    """Return which of eight ranges (their lows at `at`, then their highs) overlap one range."""

    def emit(context, builder, signature, arguments):
        words, at = _array(context, builder, signature, arguments, 0), arguments[1]
        low, high = (_load(context, builder, words, at, offset) for offset in (0, LANES))
        code, code_high = (_repeat(builder, word) for word in arguments[2:])
        return _compare(builder, low, high, code, code_high)

    return UINT64(words, UINT64, UINT16, UINT16), emit


def _satisfied_lanes(typing_context, words, at, codes, codes_high, ranged):
    """Return which of the eight predicates of the row at `at` hold.

    `codes` has an event's code by attribute; `codes_high`, if it is `ranged`, the codes of the ends
    of its ranges. Looking these up is most of the work, so for plain values it is done only once.
    """

    def emit(context, builder, signature, arguments):
        at, ranged = arguments[1], arguments[4]
        words, codes, codes_high = (
            _array(context, builder, signature, arguments, i) for i in (0, 2, 3)
        )
        code = _look_up(context, builder, codes, words, at)
        with builder.if_else(ranged) as (ranges, values):
            with ranges:
                end = _look_up(context, builder, codes_high, words, at)
                of_ranges = builder.block
            with values:
                of_values = builder.block
        code_high = builder.phi(_WORDS)
        code_high.add_incoming(end, of_ranges)
        code_high.add_incoming(code, of_values)
        low, high = (_load(context, builder, words, at, offset) for offset in (LANES, 2 * LANES))
        return _compare(builder, low, high, code, code_high)

    return UINT64(words, UINT64, codes, codes_high, BOOLEAN), emit


def _lowest_lane(typing_context, bits):
    """Return the lowest lane whose bit is set."""

    def emit(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return UINT64(UINT64), emit


meeting_lanes = instruction(_meeting_lanes)
satisfied_lanes = instruction(_satisfied_lanes)
lowest_lane = instruction(_lowest_lane)
