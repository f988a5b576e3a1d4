"""What is known about one command's credit: plain containers, in the method's own terms."""

from __future__ import annotations

from typing import Literal, NamedTuple

from depgpo_jax.explain.places import Places

ReaderEffect = Literal["carries", "prints", "irrelevant", "in_place", "only_here"]
"""What a command did for the records that it read; the first two make them relevant.

========== ==================================================================================
carries    it owns relevant records, and the relevance rule lets them pass relevance on
prints     a command that counts reuses what it printed (rules `stdout` and `slice`)
irrelevant it owns no relevant record itself
in_place   it overwrote these very records (rules `paper` and `stdout`)
only_here  it wrote in no other resource (rules `paper` and `stdout`)
========== ==================================================================================
"""

MAKES_RELEVANT: frozenset[ReaderEffect] = frozenset({"carries", "prints"})


class Reader(NamedTuple):
    """A command that read records while they were live.

    Attributes:
        command: its number.
        effect: whether it makes them relevant, and if not, why not.
    """

    command: int
    effect: ReaderEffect


class WrittenRecords(NamedTuple):
    """Records of one command in one resource that had one fate: relevant all, or none.

    Attributes:
        resource: its name.
        places: which lines these were, in the resource as the command left it.
        records: how many.
        relevant: whether they count towards the command's credit.
        inspected: they live at the end in an inspected resource, which makes them relevant.
        readers: who read them while they were live, ascending.
        killer: the command that ended them; None: they live at the end.
        in_place: the killer overwrote them; False: it moved the resource away.
    """

    resource: str
    places: Places
    records: int
    relevant: bool
    inspected: bool
    readers: tuple[Reader, ...]
    killer: int | None
    in_place: bool

    @property
    def consumers(self) -> tuple[int, ...]:
        """The commands that make these records relevant by having read them, ascending."""
        return tuple(reader.command for reader in self.readers if reader.effect in MAKES_RELEVANT)


class ReadPath(NamedTuple):
    """What a read-only command earns from one writer: `value = credit * beta ** distance`.

    Attributes:
        path: a shortest path to the writer, from the first command after the read-only one to the
            writer itself. Of several, the one with the smallest numbers first.
        credit: the writer's credit.
        value: what it adds to the read-only command's credit.
    """

    path: tuple[int, ...]
    credit: float
    value: float

    @property
    def writer(self) -> int:
        """The command at the end of the path, which owns a relevant record."""
        return self.path[-1]

    @property
    def distance(self) -> int:
        """The number of dependency edges."""
        return len(self.path)


class Edge(NamedTuple):
    """A dependency: `consumer` read what `producer` wrote or printed.

    Attributes:
        producer: the earlier command.
        consumer: the later command.
        resources: where it read live records of the producer, in order of first write.
        stdout: it reuses a value that the producer printed.
    """

    producer: int
    consumer: int
    resources: tuple[str, ...]
    stdout: bool


class Why(NamedTuple):
    """Why a command has its credit.

    Exactly one of `written` and `paths` can hold something: a command with records is paid for
    them alone, one without for what its output led to.

    Attributes:
        command: its number in the trace.
        step: the step it belongs to.
        recorded: the tracer could follow it.
        credit: its credit (method, section 4), as computed on the device.
        relevant: how many of its records are relevant.
        records: how many records it wrote; 0: it is read-only.
        written: its records by resource and fate, relevant ones first.
        paths: where its read credit comes from, the largest share first; their values sum to it.
        inputs: what it depends on, earliest first.
        outputs: who depends on it, earliest first.
        step_credit: the credit of its step (section 5).
        step_factor: how much the step stands out.
        token_weight: the weight of each of the step's tokens (section 6).
        fallback: nothing tells the steps apart, so every weight is 1.
    """

    command: int
    step: int
    recorded: bool
    credit: float
    relevant: int
    records: int
    written: tuple[WrittenRecords, ...]
    paths: tuple[ReadPath, ...]
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    step_credit: float
    step_factor: float
    token_weight: float
    fallback: bool
