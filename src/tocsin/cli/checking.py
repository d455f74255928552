"""`tocsin rules check`: what is wrong with the rules of a file or a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tocsin.errors import RuleError, TocsinError
from tocsin.files.paths import reading, rename_rows
from tocsin.files.rules import open_schema, read_rows


class Report(NamedTuple):
    """What a check has found."""

    rules: int
    findings: list[str]  # errors and warnings, in the order of the rules
    errors: int

    def summary(self) -> str:
        """Return the last line of the report."""
        counts = {"rule": self.rules, "error": self.errors}
        counts["warning"] = len(self.findings) - self.errors
        rules, errors, warnings = (f"{n:,} {word}{'s' * (n != 1)}" for word, n in counts.items())
        return f"{rules}: {errors}, {warnings}"


def check(source: Path | str, schema: str | None) -> Report:
    """Check the rules of a file, or the conditions of a store's rules."""
    if isinstance(source, str) or source.is_dir():
        if schema is not None:
            raise TocsinError("--schema is for a file of rules; a store has its own schema")
        return _check_store(source)
    return _check_file(source, schema)


def _check_file(path: Path, schema: str | None) -> Report:
    from tocsin.engine.rules import Rules
    from tocsin.model.condition import ConditionReader
    from tocsin.model.rule_checks import check_rules

    rules = Rules(open_schema(path, schema))
    with reading(path, RuleError):
        rows, name_row = read_rows(path, rules)
        count, found = check_rules(rows, ConditionReader(rules.schema))
    findings = [
        f"{name_row(each.row)} (rule {each.id!r}): {'error' if each.is_error else 'warning'}: "
        + rename_rows(each.message, name_row)
        for each in found
    ]
    return Report(count, findings, sum(each.is_error for each in found))


def _check_store(path: Path | str) -> Report:
    from tocsin.engine.rules import Rules
    from tocsin.model.condition import ConditionReader
    from tocsin.model.rule_checks import check_rules

    version = Rules.open(path).snapshot()
    rows: list[dict[str, Any]] = []
    for live in version.segments:
        metadata = live.live_metadata()
        pairs = zip(metadata.ids.to_pylist(), metadata.where.to_pylist(), strict=True)
        # Boxes and long rows have no text.
        rows += [{"id": id_, "where": where} for id_, where in pairs if where is not None]
    _, found = check_rules(rows, ConditionReader(version.schema))
    findings = [
        f"rule {each.id!r}: {'error' if each.is_error else 'warning'}: {each.message}"
        for each in found
    ]
    return Report(len(version), findings, sum(each.is_error for each in found))
