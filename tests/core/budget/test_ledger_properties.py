"""Whatever is reserved, settled, kept and charged in whatever order, the books balance."""

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from podium import Limits
from podium.budget import Spend
from podium.budget.ledger import Kept, Ledger, Reservation
from podium.errors import LimitExceeded

COSTS = st.one_of(st.none(), st.integers(0, 4).map(lambda dimes: dimes / 10))
SPENDS = st.builds(Spend, st.just(1), st.integers(0, 4), st.integers(0, 4), COSTS)
LIMITS = st.builds(
    Limits,
    calls=st.integers(1, 9),
    input_tokens=st.one_of(st.none(), st.integers(1, 9)),
    output_tokens=st.one_of(st.none(), st.integers(1, 9)),
    cost=st.one_of(st.none(), st.integers(1, 9).map(lambda dimes: dimes / 10)),
    unpriced=st.sampled_from((None, 0.0, 0.25)),
)
NAMES = ("calls", "input_tokens", "output_tokens", "cost")


class Books(RuleBasedStateMachine):
    """A tree of ledgers, checked against lists of all that was ever booked in each."""

    ledgers: Bundle[int] = Bundle("ledgers")
    reservations: Bundle[tuple[int, Reservation]] = Bundle("reservations")

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Ledger] = []
        self.above: list[tuple[int, ...]] = []
        self.spent: list[list[tuple[Spend, Spend]]] = []
        """By ledger: what calls came to, and what was set aside for each; for charges, nothing."""
        self.freed: list[list[tuple[Spend, Spend]]] = []
        """The part of `spent` whose reservation was set free before."""
        self.aside: list[list[Spend]] = []
        self.kept: list[list[Spend]] = []
        """By ledger: what is kept from its nested runs."""
        self.unsettled: list[tuple[int, Reservation]] = []

    def _add(self, ledger: Ledger, above: tuple[int, ...]) -> int:
        self.made.append(ledger)
        self.above.append((len(self.above), *above))
        self.spent.append([])
        self.freed.append([])
        self.aside.append([])
        self.kept.append([])
        return len(self.made) - 1

    @initialize(target=ledgers, limits=LIMITS)
    def start(self, limits: Limits) -> int:
        return self._add(Ledger(limits, 0.0), ())

    @rule(target=ledgers, parent=ledgers, limits=LIMITS)
    def nest(self, parent: int, limits: Limits) -> int:
        return self._add(self.made[parent].nested(limits, 1, 0.0), self.above[parent])

    @rule(target=reservations, number=ledgers, worst=SPENDS)
    def reserve(self, number: int, worst: Spend) -> tuple[int, Reservation]:
        """Reserve, and see that it is refused just when it does not fit."""
        fits = all(self._fits(one, worst, number) for one in self.above[number])
        try:
            reservation = self.made[number].reserve(worst)
        except LimitExceeded as refused:
            assert not fits
            assert f"Limits.{refused.limit}" in str(refused)  # noqa: PT017 - refusing is one of two right answers
            return number, Reservation(Spend(), settled=True)
        assert fits
        for one in self.above[number]:
            self.aside[one].append(worst)
        self.unsettled.append((number, reservation))
        return number, reservation

    def _fits(self, number: int, worst: Spend, nested: int) -> bool:
        limits = self.made[number].limits
        if worst.cost is None and limits.cost is not None and limits.unpriced is None:
            return False
        keeping = [one for one in self.above[nested] if one >= number]
        booked = [*self.aside[number], *[amount for one in keeping for amount in self._held(one, nested)]]
        return all(
            most is None
            or not self._count(number, name, worst)
            or round(
                self._spent(number, name)
                + sum(self._count(number, name, one) for one in booked)
                + self._count(number, name, worst),
                6,
            )
            <= most
            for name, most in ((name, getattr(limits, name)) for name in NAMES)
        )

    def _count(self, number: int, name: str, amount: Spend) -> float:
        value = getattr(amount, name)
        return float((self.made[number].limits.unpriced or 0.0) * amount.calls if value is None else value)

    def _spent(self, number: int, name: str) -> float:
        return sum(self._counted(number, name, came, worst) for came, worst in self.spent[number])

    def _counted(self, number: int, name: str, came: Spend, worst: Spend) -> float:
        """Return what a call counts as; one whose cost turned out unknown, as what was set aside."""
        return self._count(number, name, worst if getattr(came, name) is None and worst.calls else came)

    @rule(item=consumes(reservations), spent=SPENDS, exact=st.booleans())
    def settle(self, item: tuple[int, Reservation], spent: Spend, *, exact: bool) -> None:
        """Settle to anything, more than the worst case too, and once more to something else."""
        if item not in self.unsettled:
            return  # it had been refused
        self.unsettled.remove(item)
        number, reservation = item
        came = reservation.amount if exact else spent
        self.made[number].settle(reservation, came)
        self.made[number].settle(reservation, Spend(5, 5, 5, 5.0))
        for one in self.above[number]:
            if reservation.released:
                self.freed[one].append((came, reservation.amount))
            else:
                self.aside[one].remove(reservation.amount)
            self.spent[one].append((came, reservation.amount))

    @rule(item=reservations)
    def release(self, item: tuple[int, Reservation]) -> None:
        """Set free what was set aside for a call that goes on, as often as one likes."""
        number, reservation = item
        if item in self.unsettled and not reservation.released:
            for one in self.above[number]:
                self.aside[one].remove(reservation.amount)
        self.made[number].release(reservation)

    @rule(number=ledgers, kept=st.lists(SPENDS, max_size=2))
    def keep(self, number: int, kept: list[Spend]) -> None:
        self.made[number].keep(lambda: Kept(kept))
        self.kept[number] = kept

    def _held(self, number: int, nested: int) -> list[Spend]:
        """Return what a run may not use of what this run keeps."""
        return [] if number == nested else self.kept[number]

    @rule(number=ledgers, spent=SPENDS)
    def charge(self, number: int, spent: Spend) -> None:
        try:
            self.made[number].charge(spent)
        except LimitExceeded as refused:
            assert refused.limit == "unpriced"  # noqa: PT017 - refusing is one of two right answers
            return
        self.spent[number].append((spent, Spend()))

    @invariant()
    def balances(self) -> None:
        """What a ledger tells is the sum of what was booked in it and in all that is nested in it."""
        for number, ledger in enumerate(self.made):
            spent = [came for came, _ in self.spent[number]]
            for told, booked in ((ledger.spent, spent), (ledger.reserved, self.aside[number])):
                assert told.calls == sum(one.calls for one in booked)
                assert told.input_tokens == sum(one.input_tokens for one in booked)
                assert told.output_tokens == sum(one.output_tokens for one in booked)
                costs = [one.cost for one in booked]
                known = [cost for cost in costs if cost is not None]
                assert told.cost == (None if len(known) < len(costs) else round(sum(known), 9))

    @invariant()
    def stays_within_what_calls_were_let_in_for(self) -> None:
        """A limit is passed by what calls came to beyond what was set aside, or was charged."""
        for number, ledger in enumerate(self.made):
            for name in NAMES:
                most = getattr(ledger.limits, name)
                beyond = sum(
                    max(self._counted(number, name, came, worst) - self._count(number, name, worst), 0.0)
                    for came, worst in self.spent[number]
                )
                freed = sum(
                    min(self._counted(number, name, came, worst), self._count(number, name, worst))
                    for came, worst in self.freed[number]
                )
                assert most is None or self._booked(number, name) <= most + beyond + freed + 1e-6

    @invariant()
    def what_is_left_is_the_least_along_the_way_up(self) -> None:
        """A nested run has no more than each outer run, without what the outer run keeps for its steps."""
        for number, ledger in enumerate(self.made):
            for name in NAMES:
                left = [
                    max(getattr(self.made[one].limits, name) - self._booked(one, name) - kept, 0.0)
                    for one in self.above[number]
                    for kept in (
                        sum(
                            self._count(one, name, each)
                            for above in self.above[number]
                            if one <= above
                            for each in self._held(above, number)
                        ),
                    )
                    if getattr(self.made[one].limits, name) is not None
                ]
                told = getattr(ledger.left, name)
                assert told is None if not left else abs(told - min(left)) < 1e-6

    def _booked(self, number: int, name: str) -> float:
        return self._spent(number, name) + sum(self._count(number, name, one) for one in self.aside[number])

    def teardown(self) -> None:
        """Settle what is open; then nothing is reserved anywhere."""
        for number, reservation in self.unsettled:
            self.made[number].settle(reservation, Spend(1))
        assert all(ledger.reserved == Spend() for ledger in self.made)


TestBooks = Books.TestCase
