"""Rows and their changes as people read them."""

from slackwater.inspection.change_text import change_text, pair_text, source_row_text


def test_whole_numbers_of_a_source_row_stand_as_they_are() -> None:
    assert source_row_text({"carrier": "EV", "flight": 4368, "tailnum": None}) == "carrier EV, flight 4368"


def test_bytes_of_a_source_row_are_shown_as_the_text_that_they_hold() -> None:
    values = {"key": b"7421", "value": b'{"at": 1}', "image": b"\x89PNG"}
    assert source_row_text(values) == 'key 7421, value {"at": 1}, image 89504e47'


def test_a_change_names_the_results_that_differ() -> None:
    correction = {
        "old": {"n": 1200, "mean": 1.5},
        "new": {"n": 1201, "mean": 1.5},
        "firing": 2,
        "kind": "late",
    }
    assert change_text(correction) == "n 1,200 → 1,201"


def test_numbers_that_differ_only_in_late_digits_are_told_apart() -> None:
    assert pair_text(0.1, 0.1 + 1e-12) == f"0.1 → {0.1 + 1e-12!r}"
