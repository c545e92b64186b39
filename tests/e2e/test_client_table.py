"""docs/CLIENTS.md says what the tests show."""
import importlib.metadata

import client_table


def test_the_table_has_every_client_that_is_tested(request):
    rows = client_table.read()
    assert {result for _, result in rows.values()} == {"passes"}
    for item in request.session.items:
        key = client_table.key_of(item)
        if key is None:
            continue
        version = importlib.metadata.version(key[0])
        assert rows.get(key) == (version, "passes"), f"{key} {version}: PENSTOCK_WRITE_CLIENTS=1 writes the table"
