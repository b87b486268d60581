"""The line of progress: how far behind a run is."""

from muntin.cli.view import behind

SECOND = 1_000_000
DAY = 86_400 * SECOND
NOW = 1_700_000_000 * SECOND


def test_how_far_behind():
    assert behind({"orders": {"0": 2_000, "1": 5}}, NOW - DAY, NOW, False) == [
        "2,005 records behind"
    ]
    assert behind({"orders": {"0": 1}}, None, NOW, False) == ["1 record behind"]
    assert behind({}, NOW - 7_500 * SECOND - 3, NOW, False) == ["2 hours behind the clock"]
    assert behind({}, NOW - 3 * DAY - 1, NOW, False) == ["3 days behind the clock"]
    assert behind({}, NOW + SECOND, NOW, False) == ["0 seconds behind the clock"]
    for newest, once in ((None, False), (NOW - DAY, True), (NOW - 5_000 * DAY, False)):
        assert behind({}, newest, NOW, once) == []
