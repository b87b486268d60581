"""The cost model as the coordinator sees it, which may have none: then all is free."""

from __future__ import annotations

from muntin.topk.hybrid import CostModel
from muntin.topk.messages import NOTHING, Alert, Busy, Message
from muntin.topk.roster import Addressed, Roster

SLIDES_MAX = 1000  # that may have passed between two ticks


class Costs:
    """Charges what is said, and says whether to go on."""

    def __init__(self, model: CostModel | None, roster: Roster) -> None:
        self.model, self.roster = model, roster

    def charge(self, name: str, message: Message) -> None:
        """A message came from a site."""
        if self.model:
            self.model.charge(name, message)

    def charged(self, out: Addressed) -> Addressed:
        """The messages, charged."""
        for name, message in out:
            self.charge(name, message)
        return out

    def record(self, name: str, message: Alert | Busy) -> None:
        """A site says how much changes there."""
        if self.model:
            self.model.record(name, message)

    def slides(self, count: int, k: int) -> None:
        """So many slides have passed."""
        if self.model:
            for _ in range(min(SLIDES_MAX, count)):
                self.model.slide(len(self.roster.members()), k)

    def survey_begins(self) -> None:
        """A survey must be, whatever it costs."""
        if self.model:
            self.model.survey_begins()

    def survey_ends(self) -> None:
        """Factors follow."""
        if self.model:
            self.model.survey_ends()

    def affords(self, requests: Addressed) -> bool:
        """Whether asking and being answered can be paid; if not, everything is to be pushed."""
        return self.model is None or self.model.refused or self.model.affords(requests)

    def pushing_pays(self, k: int) -> bool:
        """Whether resolving has cost more than pushing would have."""
        if self.model is None or not self.model.should_push(len(self.roster.members()), k):
            return False
        if NOTHING in self.roster.top and not self.model.everything:
            if self.model.refused:
                return False
            self.model.push_everything()  # no lines can be drawn below nothing
        return True

    def everything(self) -> bool:
        """Whether pushing means every change."""
        return self.model is not None and self.model.everything
