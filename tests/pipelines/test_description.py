"""What a pipeline declares, as a person reads it."""

from datetime import timedelta

from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg
from slackwater.pipelines.description import description_of
from slackwater.pipelines.registry import load


def test_what_is_declared_is_told_in_the_users_words_and_defaults_are_not() -> None:
    pipeline = Pipeline(
        name="orders",
        source=DeltaSource("sources/orders", event_time="at", arrival_time="seen", order_by="row"),
        watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(hours=1)),
        key_by=("shop", "lane"),
        window=TumblingEventTimeWindows.of(timedelta(minutes=90)),
        select={"orders": agg.count(), "paid": agg.sum("price", where="price > 0")},
        start="2024-01-01",
        settle=timedelta(minutes=20),
        schedule="30 6 * * *",
    )
    assert description_of(pipeline) == {
        "source": "DeltaSource(table=sources/orders, event_time=at, arrival_time=seen, order_by=row)",
        "watermarks": "bounded_out_of_orderness(out_of_orderness=1 hour)",
        "key_by": "shop, lane",
        "start": "2024-01-01 00:00",
        "window": "TumblingEventTimeWindows(size=1 h 30 min)",
        "select": "orders: count(), paid: sum(column=price, where=price > 0)",
        "schedule": "30 6 * * *",
        "settle": "20 minutes",
    }


def test_every_example_has_one() -> None:
    for pipeline in load(examples=True).values():
        assert {"source", "watermarks", "key_by", "window"} <= description_of(pipeline).keys()
