"""Numbers of texts against Python's own order of their bytes."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.windowing.columnar.arrays.texts import are_short, text_numbers

IDENTIFIERS = st.from_regex(r"\A(user-)?[0-9]{1,8}\Z")
TEXTS = st.text(st.sampled_from("\x01aAzé~€𝄞"), max_size=4)


@given(st.lists(IDENTIFIERS | TEXTS, max_size=40))
@example(["a", "", "aa", "a\x01", "b"])
@example(["", ""])
@example(["\x01", ""])
@example([])
def test_numbers_ascend_as_the_bytes_of_texts_do(texts: list[str]) -> None:
    numbers = text_numbers(pa.array(texts, pa.string()))
    if numbers is None:
        assert max(len(text.encode()) for text in texts) > 7  # seven places always fit
        return
    assert len(numbers) == len(texts)
    by_bytes = sorted(zip((text.encode() for text in texts), numbers.tolist(), strict=True))
    for (text, number), (next_text, next_number) in pairwise(by_bytes):
        assert (number == next_number) if text == next_text else (number < next_number)


@given(st.lists(st.integers(0, 10**8 - 1), min_size=1, max_size=40))
def test_identifiers_of_digits_lie_as_close_as_their_numbers(numbers: list[int]) -> None:
    found = text_numbers(pa.array([f"user-{number:08d}" for number in numbers]))
    assert found is not None
    assert min(found) >= 0 and max(found) <= 10**8


@pytest.mark.parametrize(
    "texts", [["x" * 33], ["a\x00", "a"], [chr(33 + 5 * i % 90) * 30 for i in range(50)]]
)
def test_other_texts_have_no_numbers(texts: list[str]) -> None:
    assert text_numbers(pa.array(texts)) is None


def test_a_byte_of_zero_counts_where_all_are_of_one_length() -> None:
    numbers = text_numbers(pa.array(["a\x00", "aa", "a\x00"]))
    assert numbers is not None
    assert numbers.tolist() == [0, 97, 0]


def test_many_rows_are_numbered_as_few_are() -> None:
    texts = [f"{number % 20_011}" for number in range(30_000)]
    numbers = text_numbers(pa.array(texts))
    assert numbers is not None
    assert [texts[place] for place in numbers.argsort(kind="stable")] == sorted(texts)


def test_longer_texts_may_come_after_many_short_ones() -> None:
    texts = [f"{number}" for number in range(10)] * 2_000 + ["123456789012345"]
    numbers = text_numbers(pa.array(texts))
    assert numbers is not None
    assert (
        numbers[:10].tolist() == sorted(set(numbers[:10].tolist())) and numbers[1] < numbers[-1] < numbers[2]
    )


def test_a_slice_of_texts_knows_its_own_bytes() -> None:
    every = pa.array(["far longer than the others are, and out of sight", "b", "a", "c"], pa.large_string())
    assert are_short([every.slice(1)]) and not are_short([every.slice(0, 1)])
    numbers = text_numbers(every.slice(1))
    assert numbers is not None
    assert numbers.tolist() == [1, 0, 2]
