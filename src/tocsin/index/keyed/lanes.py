"""Eight entries at once: predicates laid side by side, compared in vector instructions.

A *row* is one predicate of each of eight entries: eight attributes, eight lows, eight highs, of 16
bits each. What is compared comes back as bits, one a lane. Only the event's codes must be fetched
one by one, since each lane has an attribute of its own.

Nothing here branches, which is why it pays: where ranges overlap, whether the next predicate holds
cannot be guessed, and a wrong guess costs a CPU as much as four rows of lanes. It is written as
vectors for LLVM, which has instructions for them on any CPU; of a plain loop over the lanes it
makes code that is slower than no lanes at all. Sixteen lanes were 10% faster where most of a block
passes, and cost twice the memory to look at where one lane does; four were 20% slower.
"""

from __future__ import annotations

from llvmlite import ir

from tocsin.jit import BOOLEAN, UINT16, UINT64, check_bounds, instruction

LANES = 8
ROW = 3 * LANES  # words of a row: attributes, lows, highs
HEAD = 2 * LANES + ROW  # words of a block's head: lows and highs of its keys, and one row

_WORD, _INDEX = ir.IntType(16), ir.IntType(64)
_WORDS = ir.VectorType(_WORD, LANES)


def _load(context, builder, array, at, beyond):
    """Load eight words, `beyond` an index."""
    begin = builder.add(at, _INDEX(beyond))
    check_bounds(context, builder, array, begin, LANES)
    address = builder.gep(array.data, [begin])
    words = builder.load(builder.bitcast(address, _WORDS.as_pointer()))
    words.align = 2
    return words


def _look_up(context, builder, table, array, at):
    """Load the words of a table that eight indexes name."""
    check_bounds(context, builder, array, at, LANES)
    words = ir.Constant(_WORDS, ir.Undefined)
    for lane in range(LANES):
        index = builder.load(builder.gep(array.data, [builder.add(at, _INDEX(lane))]))
        index = builder.zext(index, _INDEX)
        check_bounds(context, builder, table, index, 1)
        word = builder.load(builder.gep(table.data, [index]))
        words = builder.insert_element(words, word, ir.IntType(32)(lane))
    return words


def _repeated(builder, word):
    words = ir.Constant(_WORDS, ir.Undefined)
    for lane in range(LANES):
        words = builder.insert_element(words, word, ir.IntType(32)(lane))
    return words


def _bits(builder, low, last, first, high):
    """Return a bit for each lane whose range, low to high, meets first to last."""
    meet = builder.and_(
        builder.icmp_unsigned("<=", low, last), builder.icmp_unsigned("<=", first, high)
    )
    return builder.zext(builder.bitcast(meet, ir.IntType(LANES)), _INDEX)


def _array(context, builder, signature, arguments, which):
    return context.make_array(signature.args[which])(context, builder, arguments[which])


def _between(typing_context, words, at, first, last):
    """Tell which of eight ranges (their lows at `at`, then their highs) meet one range."""

    def emit(context, builder, signature, arguments):
        words, at = _array(context, builder, signature, arguments, 0), arguments[1]
        low, high = (_load(context, builder, words, at, beyond) for beyond in (0, LANES))
        first, last = (_repeated(builder, word) for word in arguments[2:])
        return _bits(builder, low, last, first, high)

    return UINT64(words, UINT64, UINT16, UINT16), emit


def _within(typing_context, words, at, line, lasts, ranged):
    """Tell which of the eight predicates of the row at `at` hold.

    `line` has an event's code by attribute; `lasts`, if it is `ranged`, those in which its ranges
    end. Looking up is most of the work, so for values it is done once.
    """

    def emit(context, builder, signature, arguments):
        at, ranged = arguments[1], arguments[4]
        words, line, lasts = (_array(context, builder, signature, arguments, i) for i in (0, 2, 3))
        first = _look_up(context, builder, line, words, at)
        with builder.if_else(ranged) as (ranges, values):
            with ranges:
                end = _look_up(context, builder, lasts, words, at)
                of_ranges = builder.block
            with values:
                of_values = builder.block
        last = builder.phi(_WORDS)
        last.add_incoming(end, of_ranges)
        last.add_incoming(first, of_values)
        low, high = (_load(context, builder, words, at, beyond) for beyond in (LANES, 2 * LANES))
        return _bits(builder, low, last, first, high)

    return UINT64(words, UINT64, line, lasts, BOOLEAN), emit


def _lowest(typing_context, bits):
    """Return the lowest lane whose bit is set."""

    def emit(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return UINT64(UINT64), emit


between, within, lowest = instruction(_between), instruction(_within), instruction(_lowest)
