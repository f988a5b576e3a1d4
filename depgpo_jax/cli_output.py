"""How `depgpo credit` writes its results: JSON Lines, or one row a step as CSV or Parquet.

Numbers are float32 results, written as the shortest decimal text that reads back as the same
float32.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
import numpy as np

from depgpo_jax.errors import DepgpoError, MissingExtraError
from depgpo_jax.padding import LARGEST

if TYPE_CHECKING:
    from depgpo_jax.batch import TraceCredit
    from depgpo_jax.traces import Trace

STEP_FIELDS = ("step_credit", "step_factor", "token_weight")
ROLLOUT_FIELDS = (
    "relevant_fraction",
    "on_path_fraction",
    "max_weight_seen",
    "effective_fraction",
)
COLUMNS = (
    "trace_id",
    "group_id",
    "step",
    "loss_tokens",
    *STEP_FIELDS,
    "advantage",
    "step_advantage",
    "fallback",
    *ROLLOUT_FIELDS,
)


class Scored(NamedTuple):
    """One trace's results, in the words and units of the output.

    Attributes:
      trace_id: the trace's own id.
      group_id: its group's id; the trace's own where it names none.
      loss_tokens: [T] loss tokens of each step.
      command_credit: [N] credit of each command.
      step_credit: [T] its sum over a step's commands.
      step_factor: [T] how much a step stands out.
      token_weight: [T] the weight of each of a step's tokens.
      advantage: the rollout's group advantage, or None.
      step_advantage: [T] weight times advantage, or None.
      fallback: whether all weights are 1 because nothing tells the steps apart.
      relevant_fraction: relevant records in all records.
      on_path_fraction: recorded commands with credit in all recorded commands.
      max_weight_seen: largest weight over steps with loss tokens.
      effective_fraction: share of tokens that equal weights of the same variance would need.
    """

    trace_id: str
    group_id: str
    loss_tokens: list[int]
    command_credit: list[float]
    step_credit: list[float]
    step_factor: list[float]
    token_weight: list[float]
    advantage: float | None
    step_advantage: list[float] | None
    fallback: bool
    relevant_fraction: float
    on_path_fraction: float
    max_weight_seen: float
    effective_fraction: float


def shortest(values: np.ndarray) -> list[float]:
    """The float64 numbers whose shortest text is also the shortest text of these float32."""
    single = np.asarray(values, np.float32) + np.float32(0.0)  # turns -0 into 0
    if not np.isfinite(single).all():
        raise DepgpoError(
            "the result holds a number that is not finite. Please report this with the trace."
        )
    return [float(text) for text in single.astype(str)]


def scored(trace: Trace, credit: TraceCredit, advantage: float | None) -> Scored:
    """A trace's results in the words and units of the output.

    Args:
        trace: the trace.
        credit: its credit.
        advantage: its group advantage, or None.

    Returns:
        The results, each float32 as the number whose shortest text is the float32's.

    Raises:
        DepgpoError: a number is not finite, which no valid trace leads to.
    """
    parts = [credit.command_credit, *(getattr(credit, name) for name in STEP_FIELDS)]
    parts.append(np.array([getattr(credit, name) for name in ROLLOUT_FIELDS]))
    if advantage is not None:
        # In float64 and cut, since a weight may carry a huge advantage beyond float32.
        product = credit.token_weight.astype(np.float64) * advantage
        parts += [np.array([advantage]), np.clip(product, -LARGEST, LARGEST)]
    # One conversion for all, because its cost is by the call.
    numbers = iter(shortest(np.concatenate(parts)))
    command_credit, step_credit, step_factor, token_weight, rollout, *rest = (
        list(islice(numbers, len(part))) for part in parts
    )
    return Scored(
        trace_id=trace.trace_id,
        group_id=trace.group,
        loss_tokens=[step.loss_tokens for step in trace.steps],
        command_credit=command_credit,
        step_credit=step_credit,
        step_factor=step_factor,
        token_weight=token_weight,
        advantage=rest[0][0] if rest else None,
        step_advantage=rest[1] if rest else None,
        fallback=credit.fallback,
        **dict(zip(ROLLOUT_FIELDS, rollout, strict=True)),
    )


class Sink(Protocol):
    """Takes results batch by batch."""

    def write(self, batch: Sequence[Scored]) -> None:
        """Writes one batch, in order."""
        ...

    def close(self) -> None:
        """Writes what stands at the end of the format; the stream itself stays open."""
        ...


@contextmanager
def open_sink(stream: IO[bytes], ending: str) -> Generator[Sink]:
    """The sink of a format; it is closed at the end of the block, also of one that fails.

    Args:
        stream: where the bytes go.
        ending: .csv or .parquet; anything else means JSON Lines.

    Returns:
        A sink that writes to the stream.

    Raises:
        MissingExtraError: Parquet without pyarrow.
    """
    kinds = {".csv": _CsvSink, ".parquet": _ParquetSink}
    sink = kinds.get(ending, _JsonSink)(stream)
    try:
        yield sink
    except BaseException:
        # Else the writers would try it when they are collected, on a stream that is closed.
        with suppress(Exception):
            sink.close()
        raise
    sink.close()


class _JsonSink:
    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._encode = msgspec.json.Encoder().encode

    def write(self, batch: Sequence[Scored]) -> None:
        for scored in batch:
            fields = scored._asdict()
            del fields["loss_tokens"]
            self._stream.write(self._encode(fields) + b"\n")

    def close(self) -> None:
        pass


class _CsvSink:
    def __init__(self, stream: IO[bytes]) -> None:
        self._text = io.TextIOWrapper(stream, "utf-8", newline="")
        self._rows = csv.writer(self._text, lineterminator="\n")
        self._rows.writerow(COLUMNS)

    def write(self, batch: Sequence[Scored]) -> None:
        for scored in batch:
            columns = _step_columns(scored)
            columns["fallback"] = ["true" if scored.fallback else "false"] * len(columns["step"])
            self._rows.writerows(zip(*columns.values(), strict=True))

    def close(self) -> None:
        self._text.detach()


class _ParquetSink:
    def __init__(self, stream: IO[bytes]) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingExtraError("parquet", "Writing a .parquet file") from error
        types = {"trace_id": pa.string(), "group_id": pa.string()}
        types |= {"step": pa.int32(), "loss_tokens": pa.int64()}
        types |= {"fallback": pa.bool_()}
        self._schema = pa.schema([(name, types.get(name, pa.float32())) for name in COLUMNS])
        self._table = pa.Table.from_pydict
        self._writer = pq.ParquetWriter(stream, self._schema)

    def write(self, batch: Sequence[Scored]) -> None:
        columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        for scored in batch:
            for name, values in _step_columns(scored).items():
                columns[name] += values
        self._writer.write_table(self._table(columns, schema=self._schema))

    def close(self) -> None:
        try:
            self._writer.close()
        finally:
            self._writer.is_open = False  # no second try when it is collected


def _step_columns(scored: Scored) -> dict[str, Sequence[Any]]:
    """One row a step; what belongs to the whole rollout is repeated on each."""
    steps = len(scored.loss_tokens)
    columns: dict[str, Sequence[Any]] = {
        "trace_id": [scored.trace_id] * steps,
        "group_id": [scored.group_id] * steps,
        "step": range(steps),
        "loss_tokens": scored.loss_tokens,
        **{name: getattr(scored, name) for name in STEP_FIELDS},
        "advantage": [scored.advantage] * steps,
        "step_advantage": scored.step_advantage or [None] * steps,
        "fallback": [scored.fallback] * steps,
        **{name: [getattr(scored, name)] * steps for name in ROLLOUT_FIELDS},
    }
    return columns
