"""The table of APIs for the documentation."""

import pytest

from headrace.wire.apis import ApiKey, declared_keys
from headrace.wire.tables import api_rows, markdown_table, versions_text


def test_every_declared_api_has_a_row_with_its_purpose() -> None:
    rows = api_rows({})

    assert [row.key for row in rows] == sorted(declared_keys())
    assert all(row.purpose and row.served is None for row in rows)


def test_what_is_served_stands_beside_what_is_known() -> None:
    table = markdown_table(api_rows({ApiKey.FETCH: range(4, 18), ApiKey.OFFSET_DELETE: range(1)}))

    assert "| 1 | Fetch | 4–17 | 0–18 | 12 |" in table
    assert "| 47 | OffsetDelete | 0 | 0 | – |" in table
    assert "| 0 | Produce | – | 0–13 | 9 |" in table


def test_serving_what_is_not_declared_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="served but not declared: STOP_REPLICA"):
        api_rows({ApiKey.STOP_REPLICA: range(1)})
    with pytest.raises(ValueError, match="Fetch is served as 0–30"):
        api_rows({ApiKey.FETCH: range(31)})


def test_versions_are_written_as_people_write_them() -> None:
    assert [versions_text(versions) for versions in (None, range(0), range(1), range(2, 5))] == ["–", "–", "0", "2–4"]
