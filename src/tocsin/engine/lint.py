"""Find rules that are redundant, that never or always hold, or that the data cannot satisfy.

A rule is redundant if another one covers it: whatever satisfies it satisfies the other. `by` names
one that no other rule covers, so that all duplicates and covered rules can be deleted at once. Of
rules that cover each other, the oldest stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.covering.inclusion import NO_RESIDUALS, ResidualNumbers, domain_of
from tocsin.covering.redundant import Redundancy, write_always, write_equal
from tocsin.engine.data_range import Values, describe, find_unreachable, values_of
from tocsin.engine.explain import conjunction_text, predicate_at
from tocsin.engine.segment import concatenate_metadata
from tocsin.engine.threads import threads_for, work_in_ranges
from tocsin.errors import RuleError, shorten, suggest
from tocsin.jit import freeze, freeze_fields
from tocsin.model.conjunctions import Conjunctions, concatenate
from tocsin.model.events import Events
from tocsin.model.residuals import Residual
from tocsin.model.wording import predicate_text

if TYPE_CHECKING:
    from tocsin.engine.version import Version

_ON_SPARK = "use tocsin.spark.lint, which also takes the rules as a DataFrame"
_LONGEST = 200  # characters of a shape in a finding, chosen; polygons may have thousands
FINDINGS = ("duplicate", "covered", "never", "always", "out of range")


class _Findings(NamedTuple):
    """Findings of one kind: numbers of rules, of those they name, and details."""

    rule: np.ndarray
    by: np.ndarray  # -1 if there is none
    detail: Sequence[str]


class Linter:
    """The rules of a version, ready to be compared; a slice of them at a time."""

    def __init__(self, version: Version, same: Sequence[str] = ()):
        self._version = version
        self._metadata = (
            concatenate_metadata([live.live_metadata() for live in version.segments])
            if version.segments
            else None
        )
        positions = version.positions()
        self.size = len(positions)
        c = concatenate([live.live_conjunctions() for live in version.segments])
        self._c: Conjunctions = c._replace(
            rule=freeze(np.searchsorted(positions, c.rule), np.int32)
        )
        self._redundancy = Redundancy(
            self._c,
            self.size,
            domain_of(version.attributes.kinds[: version.attribute_count]),
            self._thresholds(),
            self._groups(same),
            self._number_residuals(positions),
        )
        always, redundancy = np.empty(self.size, np.int32), self._redundancy
        write_always(self._c, redundancy.residuals, redundancy.rules, redundancy.domain, always)
        # With a threshold, an event whose values are uncertain need not satisfy it.
        self._always = (always == 1) & (self._redundancy.rules.at_least == 0)

    def lint(
        self,
        first: int,
        stop: int,
        values: Mapping[int, Values] | None = None,
        threads: int | None = None,
    ) -> pa.Table:
        """Return the findings about the rules from `first` up to `stop`, in their order.

        `values` are those of the data, by attribute.
        """
        rules = np.arange(first, stop)
        kinds = {
            "never": self._find_never(rules),
            "always": self._find_always(rules),
            **self._find_redundant(rules, threads),
        }
        if values is not None and len(rules):
            kinds["out of range"] = self._find_unreachable(rules, values)
        found = [(name, kinds[name]) for name in FINDINGS if name in kinds]
        return self._table(found)

    def _find_never(self, rules: np.ndarray) -> _Findings:
        first = self._redundancy.rules.first
        never = rules[first[rules] == first[rules + 1]]
        return _Findings(never, np.full(len(never), -1), ["no event can satisfy it"] * len(never))

    def _find_always(self, rules: np.ndarray) -> _Findings:
        found = rules[self._always[rules]]
        return _Findings(found, np.full(len(found), -1), ["all events satisfy it"] * len(found))

    def _find_redundant(self, rules: np.ndarray, threads: int | None) -> dict[str, _Findings]:
        redundancy, by = self._redundancy, np.full(self.size, -1, np.int32)
        is_searched = np.zeros(self.size, bool)
        left = np.union1d(rules, np.flatnonzero(self._always))
        while len(left):  # then those that cover rules of this slice, to follow chains to their end
            is_searched[left] = True
            self._search(left, by, threads)
            covering = np.unique(by[left])
            left = covering[(covering >= 0) & ~is_searched[covering]]
        self._use_always(by, is_searched)
        while (further := np.where(by >= 0, by[by], -1)).max(initial=-1) >= 0:
            by = np.where(further >= 0, further, by)
        found = rules[by[rules] >= 0]
        equal = np.empty(len(found), np.int32)
        write_equal(
            redundancy.conjunctions,
            redundancy.residuals,
            redundancy.rules,
            redundancy.domain,
            freeze(found, np.int64),
            freeze(by, np.int32),
            equal,
        )
        is_equal = (equal == 1) | (self._always[found] & self._always[by[found]])
        both = {"duplicate": found[is_equal], "covered": found[~is_equal]}
        return {
            name: _Findings(numbers, by[numbers], self._conditions(by[numbers]))
            for name, numbers in both.items()
        }

    def _search(self, rules: np.ndarray, by: np.ndarray, threads: int | None) -> None:
        def search(first: int, stop: int) -> int:
            self._redundancy.find(rules[first:stop], by)
            return 0

        work_in_ranges(len(rules), threads_for(len(rules), threads), search)

    def _use_always(self, by: np.ndarray, is_searched: np.ndarray) -> None:
        """Let a rule that always holds cover the rules of its group that nothing else covers."""
        group, first = self._redundancy.rules.group, self._redundancy.rules.first
        always = np.flatnonzero(self._always & (by < 0))
        groups, oldest = np.unique(group[always], return_index=True)
        oldest = always[oldest]
        is_left = is_searched & (by < 0) & (first[1:] > first[:-1])
        is_left[oldest] = False
        for number, rule in zip(groups, oldest, strict=True):
            by[is_left & (group == number)] = rule

    def _find_unreachable(self, rules: np.ndarray, values: Mapping[int, Values]) -> _Findings:
        version, c = self._version, self._c
        row_of, texts = np.full(c.size, -1), {}  # a row that cannot hold, of each conjunction
        for attribute in np.unique(c.attribute).tolist():
            rows = find_unreachable(c, attribute, values[attribute])
            row_of[np.searchsorted(c.offsets, rows, side="right") - 1] = rows
            kind, name = version.attributes.kind(attribute), version.attributes.name(attribute)
            texts[attribute] = describe(values[attribute], name, kind)
        details: dict[int, str] = {}
        first = self._redundancy.rules.first
        for rule in np.unique(c.rule[row_of >= 0]).tolist():
            if not rules[0] <= rule <= rules[-1]:
                continue
            own = row_of[first[rule] : first[rule + 1]]
            row = int(own[own >= 0][0])
            attribute = int(c.attribute[row])
            text = predicate_text(
                version.attributes.sql(attribute),
                version.attributes.kind(attribute),
                predicate_at(c, row),
                version.categories,
            )
            prefix = "one alternative: " if (own < 0).any() else ""
            details[rule] = f"{prefix}{text}, but {texts[attribute]}"
        found = np.array(list(details), np.int64)
        return _Findings(found, np.full(len(found), -1), list(details.values()))

    def _conditions(self, rules: np.ndarray) -> list[str]:
        """Return the conditions of rules: their texts, or those of their only conjunctions."""
        if self._metadata is None:
            return []
        distinct, at = np.unique(rules, return_inverse=True)
        version, first = self._version, self._redundancy.rules.first
        texts = self._metadata.where.take(pa.array(distinct)).to_pylist()
        for i, rule in enumerate(distinct.tolist()):
            if texts[i] is None:
                number = int(first[rule])
                residuals = self._residuals_of(rule, 0)
                text = conjunction_text(
                    self._c, number, residuals, version.attributes, version.categories
                )
                texts[i] = shorten(text, _LONGEST) if residuals else text
        return [texts[i] for i in at.tolist()]

    def _number_residuals(self, positions: np.ndarray) -> ResidualNumbers:
        """Return the residuals of all conjunctions; equal shapes have equal numbers by now."""
        residuals = None if self._metadata is None else self._metadata.residuals
        if residuals is None:
            return NO_RESIDUALS
        tests = residuals.tests
        number = np.unique(
            np.column_stack([tests.x, tests.y, tests.shape, tests.negated]),
            axis=0,
            return_inverse=True,
        )[1]
        c = self._c._replace(rule=freeze(positions[self._c.rule], np.int32))
        rows, offsets = residuals.rows_of(c)
        return freeze_fields(ResidualNumbers, offsets=offsets, number=number.reshape(-1)[rows])

    def _residuals_of(self, rule: int, number: int) -> list[Residual]:
        """Return the residuals of the n-th conjunction of a rule."""
        if self._metadata is None or self._metadata.residuals is None:
            return []
        return self._metadata.residuals.of_conjunction(int(self._metadata.positions[rule]), number)

    def _thresholds(self) -> np.ndarray:
        if self._metadata is None or not len(self._metadata.at_least):
            return np.zeros(self.size)
        return self._metadata.at_least

    def _groups(self, same: Sequence[str]) -> np.ndarray:
        """Return a number for each rule; rules of one number have the same values in `same`."""
        groups = np.zeros(self.size, np.int64)
        known = self._version.payload_schema.names
        if isinstance(same, str) or not isinstance(same, Iterable):
            raise RuleError(f"same takes names of payload columns in a list, as in [{same!r}]")
        for name in same:
            if name not in known:
                raise RuleError(f"the rules have no payload column {name!r}{suggest(name, known)}")
        if self._metadata is None or not same:
            return groups
        payload = self._metadata.payload_as(self._version.payload_schema)
        for name in same:
            try:
                codes = pc.dictionary_encode(payload.column(name), null_encoding="encode")
            except pa.ArrowNotImplementedError:
                raise RuleError(
                    f"payload column {name!r} is of type {payload.column(name).type}, whose values "
                    "cannot be compared; use a plain column"
                ) from None
            own = np.asarray(codes.combine_chunks().indices)
            groups = np.unique(np.column_stack([groups, own]), axis=0, return_inverse=True)[1]
            groups = groups.reshape(-1)
        return groups

    def _table(self, found: Sequence[tuple[str, _Findings]]) -> pa.Table:
        ids = self._metadata.ids if self._metadata is not None else pa.array([], pa.string())
        ids = ids.cast(self._version.id_type or pa.string())
        rule = np.concatenate([each.rule for _, each in found]).astype(np.int64)
        by = np.concatenate([each.by for _, each in found]).astype(np.int64)
        counts = [len(each.rule) for _, each in found]
        kind = np.repeat(np.array([name for name, _ in found]), counts)
        order = pa.array(np.argsort(rule, kind="stable"))
        table = pa.table(
            {
                "rule": ids.take(pa.array(rule)),
                "finding": pa.array(kind, pa.string()),
                "by": ids.take(pa.array(by, mask=by < 0)),
                "detail": pa.array(
                    [text for _, each in found for text in each.detail], pa.string()
                ),
            }
        )
        return table.take(order)


def lint(
    version: Version, events: Any = None, same: Sequence[str] = (), threads: int | None = None
) -> pa.Table:
    """Return the findings about all rules of a version; see `Rules.lint`."""
    values = None if events is None else read_values(version, events)
    linter = Linter(version, same)
    return linter.lint(0, linter.size, values, threads)


def read_values(version: Version, events: Any) -> dict[int, Values]:
    """Return the values of all attributes that rules test."""
    used = version.tested_attributes()
    read = Events.read(events, version.attributes, used, version.categories, on_spark=_ON_SPARK)
    return {each: values_of(read, each, version.attributes.kind(each)) for each in used}
