"""The tracer and the instruments, available once the application has configured OpenTelemetry."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from opentelemetry import metrics, trace
from opentelemetry.util.types import AttributeValue

from podium.types.outcome import Call

SCOPE = "podium"
"""The instrumentation scope."""
TOKEN_BUCKETS = (*(4**power for power in range(14)),)
SECOND_BUCKETS = (*(0.01 * 2**power for power in range(14)),)
"""Histogram boundaries of the conventions, in seconds."""


@dataclass(frozen=True, slots=True)
class Instruments:
    """A tracer, and the instruments that measure calls."""

    tracer: trace.Tracer
    tokens: metrics.Histogram
    seconds: metrics.Histogram
    cost: metrics.Counter

    def measure(
        self, labels: Mapping[str, AttributeValue], *, seconds: float, spent: Call | None, error: str | None
    ) -> None:
        """Record one call.

        Args:
            labels: the attributes of the measurements.
            seconds: the duration of the call.
            spent: the call with its usage and cost; `None` if a nested run records them. Estimated tokens and
                an unknown cost are not recorded.
            error: the code of the failure; `None` for success.
        """
        self.seconds.record(seconds, {**labels, "error.type": error} if error is not None else labels)
        if spent is None:
            return
        if not spent.usage.estimated:
            for kind, count in (("input", spent.usage.input_tokens), ("output", spent.usage.output_tokens)):
                if count:
                    self.tokens.record(count, {**labels, "gen_ai.token.type": kind})
        if spent.cost:
            self.cost.add(spent.cost, labels)


def configured() -> Instruments | None:
    """Return the instruments; `None` if OpenTelemetry has only its default, empty providers."""
    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    api = (type(tracers).__module__, type(meters).__module__)
    if api[0].startswith("opentelemetry.trace") and api[1].startswith("opentelemetry.metrics"):
        return None
    return _instruments(tracers, meters)


@lru_cache(maxsize=1)
def _instruments(tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> Instruments:
    meter = meters.get_meter(SCOPE)
    return Instruments(
        tracer=tracers.get_tracer(SCOPE),
        tokens=meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=TOKEN_BUCKETS,
        ),
        seconds=meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=SECOND_BUCKETS,
        ),
        cost=meter.create_counter("podium.cost", unit="{USD}", description="What calls cost."),
    )
