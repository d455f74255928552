"""Containment and covering, decided by hand."""


def contains(outer, inner):
    """Whether a box contains another one; ends are numbers or None."""
    for (low, high), (other_low, other_high) in zip(zip(*outer), zip(*inner), strict=True):
        if low is None and high is None:
            continue
        if other_low is None and other_high is None:
            return False
        if low is not None and (other_low is None or other_low < low):
            return False
        if high is not None and (other_high is None or other_high > high):
            return False
    return True


def covers(boxes, a, b):
    """Whether a box of a dict covers another one; of equal ones the older one, which is lower."""
    if a == b or not contains(boxes[a], boxes[b]):
        return False
    return a < b or not contains(boxes[b], boxes[a])


def random_box(random, dimensions, size, missing=0.0):
    """A box with ends among 0, 1, ..., size, so that many are equal; some ends are missing."""
    low = [random.randrange(size) for _ in range(dimensions)]
    high = [random.randrange(each, size + 1) for each in low]
    for ends in (low, high):
        for j in range(dimensions):
            if random.random() < missing:
                ends[j] = None
    return low, high
