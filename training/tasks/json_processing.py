"""JSON processing: join orders with customers, sum them up, follow who recommended whom."""

from __future__ import annotations

import json
import random
from typing import Final, NamedTuple

from training.tasks.difficulty import Difficulty, distractors, task_name
from training.tasks.writing import TaskFiles, generator, insert, words

NEEDS: Final = ("jq",)

REGIONS: Final = words("coast delta forest harbor highland island lake meadow")
NAMES: Final = words("abel bora cilo dana edin fara gero hana ilan jora kemi lena miro nela")

INSTRUCTION: Final = """\
# Sum up orders in JSON

Each file `/app/orders/ID.json` is one order: its `id`, the id of its `customer`, its `status`, its
`lines` and sometimes a `discount_cents`. What an order is worth, in cents: the sum of `count` times
`cents` over its lines, minus its discount if it has one. Only orders with the status `paid` count.
Each file `/app/customers/ID.json` is one customer. (`jq` is here.)

Write three files:

1. `/app/totals.json`: one JSON object, from the `region` of customers to what the orders of that
   region are worth together. Regions without an order that counts are not in it.
2. `/app/best.json`: one JSON object `{{"order": ID, "cents": N}}`: the order that counts and is
   worth the most, and what it is worth.
3. `/app/mail.txt`: one line, a mail address. Begin with the customer of that best order; go from a
   customer to the one that its `referred_by` names, {hops}; the address is the
   `mail` in the `contact` of the one where you arrive.

How the JSON is laid out does not matter. Leave the folders `orders` and `customers` as they are.
"""

CHECKS: Final = """\
# Otherwise jq would take over definitions from a file in the home; nobody can write here.
export HOME=/proc/none

# equal FILE EXPECTED: one JSON text of the same value.
equal() {
  plain "$1" || return
  jq -n -e --slurpfile found "$1" --slurpfile right "$2" '$found == $right' > /dev/null 2>&1
}

check totals equal /app/totals.json /tests/totals.json
check best equal /app/best.json /tests/best.json
check mail same /app/mail.txt /tests/mail.txt
"""


class Order(NamedTuple):
    """One order; a discount of 0 is not written down."""

    key: str
    customer: str
    status: str
    lines: list[tuple[str, int, int]]
    discount: int

    @property
    def cents(self) -> int:
        """What it is worth."""
        return sum(count * cents for _, count, cents in self.lines) - self.discount


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is a customer who was recommended by another."""
    rng = generator("json_processing", seed)
    customers = [f"c{number}" for number in rng.sample(range(1000, 10_000), rng.randint(9, 13))]
    regions = rng.sample(REGIONS, 4)
    region_of = {key: rng.choice(regions) for key in customers}
    orders = _orders(rng, customers)
    paid = [order for order in orders if order.status == "paid"]
    best = max(paid, key=lambda order: order.cents)
    totals: dict[str, int] = {}
    for order in paid:
        region = region_of[order.customer]
        totals[region] = totals.get(region, 0) + order.cents

    # The chain begins at the first customer and goes through all of them.
    people = {
        key: {
            "id": key,
            "name": rng.choice(NAMES).title(),
            "region": region_of[key],
            "referred_by": following,
            "contact": {
                "phone": rng.randint(10**6, 10**7),
                "mail": f"{key}@{rng.choice(NAMES)}.test",
            },
        }
        for key, following in zip(customers, [*customers[1:], None], strict=True)
    }
    mails = {key: f"{person['contact']['mail']}\n" for key, person in people.items()}
    steps = difficulty.depth
    # An example that has nothing to do with the chain.
    example = next(order for order in orders if order.customer == customers[-1])
    commands = _commands(example.key, best, customers[: steps + 1])
    return TaskFiles(
        name=task_name("json_processing", seed, difficulty),
        description="Join and sum up JSON documents",
        instruction=INSTRUCTION.format(hops="once" if steps == 1 else f"{steps} times"),
        files={f"orders/{order.key}.json": _text(_document(order)) for order in orders}
        | {f"customers/{key}.json": _text(person) for key, person in people.items()}
        | distractors("json_processing", seed, difficulty, _old_order),
        checks=CHECKS,
        expected={
            "totals.json": _text(totals),
            "best.json": _text({"order": best.key, "cents": best.cents}),
            "mail.txt": mails[customers[steps]],
        },
        commands=commands,
        wasteful=_wasteful(commands, orders[-1].key),
        wrong=_wrong(),
        needs=NEEDS,
    )


def _orders(rng: random.Random, customers: list[str]) -> list[Order]:
    """Orders in random order; the largest is cancelled, the largest paid one is the first's."""
    keys = [f"o{number}" for number in rng.sample(range(1000, 10_000), rng.randint(24, 36))]
    orders = [
        _order(rng, key, rng.choice(customers), rng.choice(("paid", "paid", "open", "cancelled")))
        for key in keys
    ]
    worth = 10**6 + rng.randint(1, 9999)
    orders[0] = Order(keys[0], customers[0], "paid", [("s1000", 2, worth)], rng.randint(1, 99))
    orders[1] = Order(keys[1], customers[-1], "cancelled", [("s1000", 3, worth)], 0)
    rng.shuffle(orders)
    return orders


def _order(rng: random.Random, key: str, customer: str, status: str) -> Order:
    lines = [
        (f"s{rng.randint(1000, 9999)}", rng.randint(1, 9), rng.randint(100, 4999))
        for _ in range(rng.randint(1, 4))
    ]
    return Order(key, customer, status, lines, rng.choice((0, 0, 50, 75)))


def _document(order: Order) -> dict[str, object]:
    lines = [{"sku": sku, "count": count, "cents": cents} for sku, count, cents in order.lines]
    document: dict[str, object] = {
        "id": order.key,
        "customer": order.customer,
        "status": order.status,
        "lines": lines,
    }
    if order.discount:
        document["discount_cents"] = order.discount
    return document


def _text(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def _old_order(rng: random.Random, number: int) -> tuple[str, str]:
    """An order of another year, in another folder."""
    order = _order(rng, f"o{rng.randint(1000, 9999)}", f"c{rng.randint(1000, 9999)}", "paid")
    return f"orders-2019/{order.key}-{number}.json", _text(_document(order))


def _paid(source: str, chosen: str) -> str:
    """The command that writes one object a line: id, customer, worth."""
    return (
        f"jq -c '{chosen}{{id, customer, cents: (([.lines[] | .count * .cents] | add) "
        f"- (.discount_cents // 0))}}' {source} > /tmp/paid.jsonl"
    )


PAID: Final = 'select(.status == "paid") | '
REGION: Final = "jq -s 'map({(.id): .region}) | add' customers/*.json > /tmp/regions.json"
TOTALS: Final = (
    "jq -n --slurpfile region /tmp/regions.json "
    "'reduce inputs as $o ({}; .[$region[0][$o.customer]] += $o.cents)' "
    "/tmp/paid.jsonl > totals.json"
)
LARGEST: Final = "jq -s -c 'max_by(.cents)' /tmp/paid.jsonl > /tmp/best.json"


def _person(key: str) -> str:
    """The beginning of a command that asks for something of a customer."""
    return f'jq -r \'select(.id == "{key}")'


def _commands(example: str, best: Order, people: list[str]) -> list[str]:
    return [
        "ls orders | head -n 3",
        f"cat orders/{example}.json",
        _paid("orders/*.json", PAID),
        REGION,
        TOTALS,
        LARGEST,
        "cat /tmp/best.json",
        f'echo \'{{"order": "{best.key}", "cents": {best.cents}}}\' > best.json',
        *(f"{_person(key)} | .referred_by' customers/*.json" for key in people[:-1]),
        f"{_person(people[-1])} | .contact.mail' customers/*.json > mail.txt",
        "cat totals.json best.json mail.txt",
    ]


def _wasteful(commands: list[str], key: str) -> list[str]:
    return insert(
        commands,
        (1, "ls orders | wc -l"),
        (2, f"jq keys orders/{key}.json"),
        (2, _paid("orders/*.json", "")),
        (2, "wc -l /tmp/paid.jsonl > /tmp/lines.txt"),
        (4, "jq length /tmp/regions.json"),
        (5, "jq -r '[.[]] | add' totals.json > /tmp/sum.txt"),
        (6, "jq -s 'min_by(.cents)' /tmp/paid.jsonl > best.json"),
    )


def _wrong() -> list[str]:
    """Takes orders of every status."""
    return [
        "ls orders customers | head -n 8",
        _paid("orders/*.json", ""),
        REGION,
        TOTALS,
        LARGEST,
        "jq '{order: .id, cents}' /tmp/best.json > best.json",
        'jq -r .contact.mail "customers/$(jq -r .customer /tmp/best.json).json" > mail.txt',
    ]
