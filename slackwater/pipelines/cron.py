"""The times of a schedule: cron expressions and presets such as ``@daily``, by the clocks of a time zone.

croniter, which Airflow uses as well, reads the expressions; where clocks change, the rules are the same as in
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
        zone: of the clocks, see `instant_of`. If the expression fires in every hour, it does so twice in an
            hour that the clocks show twice.

    Raises (every method):
        NotACron: the expression can't be read.
    """

    expression: str
    zone: tzinfo = UTC

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after `moment`, in UTC; None if there is none, as on 31 February."""
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
    """The instant, in UTC, at which clocks of a zone show a naive time. As in Airflow, a time that they skip
    is moved by the length of the gap, and a time that they show twice means the second one.
    """
    return max(clock.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
