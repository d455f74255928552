"""Probabilities: of the rules that an event may satisfy, keep those that are likely enough.

A rule with a threshold (`at_least`) matches an event if its condition holds with at least that
probability. The uncertain values of an event are independent, each with a density within its range
(`model/event_densities.py`); other values are points.

This is a filter (`engine/filters.py`), the same for all indexes. Before it, a range is a range:
indexes propose conjunctions, and accept keeps those that some value in the ranges satisfies. These
are all that have a probability. `require_probability` then drops the conjunctions of rules that are
too unlikely. It runs only for parts of a segment that have thresholds, and for blocks of events
that have ranges: if all values are points, a probability is 0 or 1, and accept has decided.

*A conjunction* has one predicate on each attribute, or an interval and a complement, so its
probability is a product over attributes (`ranges.py`).

*A rule* of several conjunctions has the probability of their union (`unions.py`). Its attributes
are visited in order. The bounds of the rule's predicates cut the range of an attribute into pieces,
and in each piece some conjunctions remain possible. For the attributes that follow, only this set
matters; it is a *state*. Pieces that lead to the same state are added up, as in a decision diagram,
so the work grows with the number of states, and not with the combinations of pieces. In a state
where a conjunction has no predicate left, the rule is certain. When a rule is added, its work for
the widest event is measured, and a rule beyond `MAX_WORK` is refused (`checks.py`).

*Keys and probabilities.* The values of integers and decimals are points: all keys from one end to
the other are equally probable. Numbers and times are continuous: a single key has probability 0,
and an interval extends to the next keys outside of it. Keys do not tell `x < 0.5` from `x <= p`,
where p is the float before 0.5; so if x is between 0 and 1, `x < 0.5` and `x <= 0.5` have
probability 0.5 or a rounding error more, and match at the threshold 0.5.
"""
