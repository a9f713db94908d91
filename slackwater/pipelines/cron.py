"""The times of a schedule: cron expressions and presets such as ``@daily``, by the clocks of a time zone.

croniter, by which Airflow schedules, reads the expressions; the rules for clocks that change are those of
Airflow's `CronMixin._get_next`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Any

PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}


class NotACron(ValueError):
    """An expression that Airflow does not take."""


@dataclass(frozen=True)
class Cron:
    """The times at which a cron expression or preset fires.

    Attributes:
        expression: as Airflow takes it: five fields, with seconds six, with years seven; or a preset.
        zone: whose clocks count, see `instant_of`. Where every hour counts, one that they show twice counts
            twice.

    Raises (every method):
        NotACron: the expression can't be read.
    """

    expression: str
    zone: tzinfo = UTC

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after `moment`, of UTC; None where there is none, as on 31 February."""
        from croniter import CroniterBadDateError

        moment = moment.astimezone(UTC)
        clock = moment.astimezone(self.zone).replace(tzinfo=None, fold=0)
        try:
            following: datetime = self._times.get_next(datetime, start_time=clock)
        except CroniterBadDateError:
            return None
        if self._times.expanded[1] == ["*"]:
            return moment + (following - clock)
        return instant_of(following, self.zone)

    @cached_property
    def _times(self) -> Any:
        from croniter import CroniterBadCronError, croniter  # takes a tenth of a second

        try:
            return croniter(PRESETS.get(self.expression, self.expression))
        except CroniterBadCronError as error:
            raise NotACron(f"{self.expression!r} is no cron expression: {error}") from error


def instant_of(clock: datetime, zone: tzinfo) -> datetime:
    """The instant, of UTC, at which clocks of a zone show a naive time. One that they skip is as much later,
    and of one that they show twice it is the second, as for Airflow.
    """
    return max(clock.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
