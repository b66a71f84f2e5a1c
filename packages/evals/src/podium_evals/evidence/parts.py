"""Lists the comparisons on the page of results."""

from dataclasses import dataclass

from podium_evals.arms import SplitName
from podium_evals.recorded import Recordings
from podium_evals.results.named_arms import NEED_PROBES
from podium_evals.results.pools import EASY, HARD, MMLU
from podium_evals.results.report import Setting, every_sample

_KNOWN = (
    "workers",
    "random",
    "random-plan",
    "kind-rule",
    "router",
    "vote-3",
    "vote-5",
    "own-3",
    "equal-budget",
    "mixture",
    "oracle",
    "any-correct",
)
_NEW = ("random", "kind-rule", "router", *NEED_PROBES, "vote-3", "own-3", "any-correct")
_BUNDLES = ("workers", "random", "kind-rule", "router", "vote-3", "own-3", "any-correct")
_PROBES = 3
_PARTS_OF_A_BUNDLE = 6
"""Minimum number of recorded questions for each bundle; a bundle has up to five parts of different kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A comparison of arms on one pool."""

    name: str
    """The name of the part, unique on the page."""
    recording: str
    pool: str
    arms: tuple[str, ...] = _KNOWN
    """Names of arms in `podium_evals.results.ARMS`; the best single worker is always compared."""
    split: SplitName = "questions"
    bundles: int | None = None
    """Maximum number of bundles, which are asked in place of the questions; fewer if there are few
    questions."""
    questions: int | None = None
    """Maximum number of questions that are asked in a fold; `None` asks all."""
    probes: int = 0
    """Number of probes of each new kind: graded questions that arms may read, and that no arm is asked."""
    tiers: bool = False
    """Whether tiers of a router are also measured. This needs the prices of all workers."""

    @property
    def title(self) -> str:
        """The recording and the pool, for tables."""
        recording = {EASY: "easy", HARD: "hard", MMLU: "MMLU-Pro"}.get(self.recording, self.recording)
        return f"{recording}, {self.pool}"

    def setting(self, recordings: Recordings, processes: int) -> Setting:
        """Return the setting of this part's comparison."""
        bundles = self.bundles
        if bundles is not None:
            bundles = max(2, min(bundles, len(recordings) // 2 // _PARTS_OF_A_BUNDLE))
        return Setting(
            split=self.split,
            seeds=every_sample(recordings),
            questions=self.questions,
            probes=self.probes,
            bundles=bundles,
            processes=processes,
        )


_POOLS = ((EASY, "mid"), (EASY, "all"), (HARD, "mid"), (HARD, "all"), (MMLU, "chat"))
_UNPRICED = (MMLU,)
"""Recordings in which some workers have no known price."""

PARTS = (
    *(
        Part(
            name=f"{recording}, {pool}",
            recording=recording,
            pool=pool,
            tiers=recording not in _UNPRICED,
        )
        for recording, pool in _POOLS
    ),
    *(
        Part(
            name=f"{recording}, mid, kinds",
            recording=recording,
            pool="mid",
            arms=_NEW,
            split="kinds",
            probes=_PROBES,
        )
        for recording in (EASY, HARD)  # MMLU-Pro has 14 kinds, too few for claims about other kinds
    ),
    Part(
        name=f"{HARD}, mid, workers",
        recording=HARD,
        pool="mid",
        arms=("kind-rule", "router", "vote-3"),
        split="workers",
        questions=300,
    ),
    *(
        Part(name=f"{recording}, mid, bundles", recording=recording, pool="mid", arms=_BUNDLES, bundles=300)
        for recording in (EASY, HARD)
    ),
)
"""The parts, in the order of the page."""
