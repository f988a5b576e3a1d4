"""SQLite: load a dump, settle invoices whose payments were written twice, ask who owes most."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Final, NamedTuple

from training.tasks.difficulty import Difficulty, distractors, task_name
from training.tasks.writing import TaskFiles, generator, insert, words

NEEDS: Final = ("sqlite3",)
HOLDERS: Final = words("abel bora cilo dana edin fara gero hana ilan jora kemi lena miro nela")
SCHEMA: Final = """\
CREATE TABLE accounts(id TEXT PRIMARY KEY, holder TEXT NOT NULL, moved_to TEXT);
CREATE TABLE invoices(id TEXT PRIMARY KEY, account TEXT NOT NULL, cents INTEGER NOT NULL,
  status TEXT NOT NULL);
CREATE TABLE payments(ref TEXT NOT NULL, invoice TEXT NOT NULL, cents INTEGER NOT NULL);
"""

INSTRUCTION: Final = """\
# Settle invoices in a database

`/app/shop.sql` holds three tables as SQL. Load it into a new SQLite database `/app/shop.db`
(`sqlite3` is here). Some payments were written twice: rows of `payments` with the same `ref` are
the same payment, which counts once.

1. In the database, set the `status` of every invoice: `settled` if its payments together are at
   least its `cents`, otherwise `open`. Change no other value and no other row of the three tables.
2. Write `/app/open.csv`: first the line `account,invoices,cents`, then a line for each account that
   has open invoices, in byte order of its id: the id, how many open invoices it has, and how many
   cents are still missing on them together.
3. Write `/app/debtor.txt`: one line, the id of an account, one space, its holder. Begin with the
   account that misses the most cents; go to the account that its `moved_to` names,
   {hops}, and write down where you arrive.
"""

CHECKS: Final = """\
# A copy of our own, with what its log holds: to ask the original could change it.
own=$(mktemp -d -p /logs/verifier)
for file in shop.db shop.db-wal; do ! plain "/app/$file" || cp "/app/$file" "$own/"; done

# table NAME COLUMNS: whether a table, and no view of that name, has the rows that it should.
# Without -init, sqlite3 would begin with the commands of a file in the home of whoever asks.
table() {
  [ -s "$own/shop.db" ] || return
  sqlite3 -batch -safe -init /dev/null "$own/shop.db" > "$own/rows.txt" 2> /dev/null << END
SELECT type FROM sqlite_master WHERE name = '$1';
SELECT $2 FROM $1 ORDER BY $2;
END
  { echo table; cat "/tests/$1.txt"; } | cmp -s - "$own/rows.txt"
}

check accounts table accounts id,holder,moved_to
check payments table payments ref,invoice,cents
check invoices table invoices id,account,cents,status
check open same /app/open.csv /tests/open.csv
check debtor same /app/debtor.txt /tests/debtor.txt
rm -r "$own"
"""


class Invoice(NamedTuple):
    """An invoice and its payments, each with how often it was written down."""

    key: str
    account: str
    cents: int
    payments: list[tuple[str, int, int]]

    @property
    def missing(self) -> int:
        """What is not paid yet; 0 or less: it is settled."""
        return self.cents - sum(cents for _, cents, _ in self.payments)


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is an account that moved."""
    rng = generator("sqlite_query", seed)
    accounts = [f"a{number}" for number in rng.sample(range(1000, 10_000), rng.randint(9, 13))]
    holders = {account: rng.choice(HOLDERS).title() for account in accounts}
    moved = dict(pairwise([*accounts, ""]))  # the chain goes through all of them
    invoices = _invoices(rng, accounts)
    rows = {
        account: (len(missing), sum(missing))
        for account in sorted(accounts)
        if (missing := [i.missing for i in invoices if i.account == account and i.missing > 0])
    }
    arrived = accounts[difficulty.depth]
    hops = "once" if difficulty.depth == 1 else f"{difficulty.depth} times"
    commands = _commands(accounts[: difficulty.depth + 1])
    payments = [
        f"{ref}|{invoice.key}|{cents}\n"
        for invoice in invoices
        for ref, cents, times in invoice.payments
        for _ in range(times)
    ]
    return TaskFiles(
        name=task_name("sqlite_query", seed, difficulty),
        description="Load, correct and query a database",
        instruction=INSTRUCTION.format(hops=hops),
        files={"shop.sql": _dump(rng, holders, moved, invoices, payments)}
        | distractors("sqlite_query", seed, difficulty, _old_dump),
        checks=CHECKS,
        expected={
            "accounts.txt": "".join(f"{a}|{holders[a]}|{moved[a]}\n" for a in sorted(accounts)),
            "payments.txt": "".join(sorted(payments)),
            "invoices.txt": "".join(f"{_row(i)}\n" for i in sorted(invoices)),
            "open.csv": "account,invoices,cents\n"
            + "".join(f"{a},{n},{cents}\n" for a, (n, cents) in rows.items()),
            "debtor.txt": f"{arrived} {holders[arrived]}\n",
        },
        commands=commands,
        wasteful=_wasteful(commands, accounts[-1]),
        wrong=_wrong(),
        needs=NEEDS,
    )


def _invoices(rng: random.Random, accounts: list[str]) -> list[Invoice]:
    """Invoices in random order; the first account misses most, but seems to have paid."""
    keys = [f"i{number}" for number in rng.sample(range(1000, 10_000), rng.randint(36, 48))]
    refs = iter(rng.sample(range(10_000, 100_000), 4 * len(keys)))
    invoices = []
    for key in keys:
        cents = rng.randint(1000, 60_000)
        parts = rng.choice(((), (0.4,), (0.5, 0.5), (0.3, 0.8), (1.0,), (0.5,)))
        payments = [
            (f"p{next(refs)}", round(cents * part), rng.choice((1, 1, 1, 2))) for part in parts
        ]
        invoices.append(Invoice(key, rng.choice(accounts), cents, payments))
    worth = 10**6 + rng.randint(1, 9999)
    invoices[0] = Invoice(keys[0], accounts[0], worth, [(f"p{next(refs)}", worth // 2 + 1, 2)])
    # Somebody who misses something for certain, even if the first account seems not to.
    invoices[1] = Invoice(keys[1], accounts[-1], 400_000 + rng.randint(1, 9999), [])
    rng.shuffle(invoices)
    return invoices


def _quoted(text: str | None) -> str:
    return f"'{text}'" if text else "NULL"


def _row(invoice: Invoice) -> str:
    status = "open" if invoice.missing > 0 else "settled"
    return f"{invoice.key}|{invoice.account}|{invoice.cents}|{status}"


def _dump(
    rng: random.Random,
    holders: dict[str, str],
    moved: dict[str, str],
    invoices: list[Invoice],
    payments: list[str],
) -> str:
    lines = [
        f"INSERT INTO accounts VALUES('{account}','{holder}',{_quoted(moved.get(account))});\n"
        for account, holder in sorted(holders.items())
    ]
    lines += [
        f"INSERT INTO invoices VALUES('{i.key}','{i.account}',{i.cents},'new');\n" for i in invoices
    ]
    shuffled = rng.sample(payments, len(payments))
    for ref, invoice, cents in (row.strip().split("|") for row in shuffled):
        lines.append(f"INSERT INTO payments VALUES('{ref}','{invoice}',{cents});\n")
    return f"{SCHEMA}BEGIN;\n{''.join(lines)}COMMIT;\n"


def _old_dump(rng: random.Random, number: int) -> tuple[str, str]:
    """The tables of another year."""
    accounts = [f"a{key}" for key in rng.sample(range(1000, 10_000), 5)]
    invoices = [
        Invoice(f"i{key}", rng.choice(accounts), rng.randint(1000, 60_000), [])
        for key in rng.sample(range(1000, 10_000), 8)
    ]
    holders = {account: rng.choice(HOLDERS).title() for account in accounts}
    return f"old/shop-{number + 1}.sql", _dump(rng, holders, {}, invoices, [])


PAID: Final = "SELECT invoice, SUM(cents) AS paid FROM {source} GROUP BY invoice"
ONCE: Final = PAID.format(source="(SELECT DISTINCT ref, invoice, cents FROM payments)")
TWICE: Final = PAID.format(source="payments")
UPDATES: Final = (
    "{ echo \"UPDATE invoices SET status = 'open';\"; "
    "sed \"s/.*/UPDATE invoices SET status = 'settled' WHERE id = '&';/\" /tmp/settled.txt; } "
    "> /tmp/updates.sql"
)
TABLE: Final = "{ echo account,invoices,cents; cat /tmp/rows.csv; } > open.csv"
LARGEST: Final = "sort -t , -k 3,3nr /tmp/rows.csv | head -n 1"


def _settled(paid: str) -> str:
    return (
        f'sqlite3 shop.db "SELECT id FROM invoices JOIN ({paid}) ON invoice = id '
        'WHERE paid >= cents ORDER BY id" > /tmp/settled.txt'
    )


def _missing(paid: str) -> str:
    return (
        'sqlite3 -separator , shop.db "SELECT account, COUNT(*), SUM(cents - IFNULL(paid, 0)) '
        f"FROM invoices LEFT JOIN ({paid}) ON invoice = id WHERE status = 'open' "
        'GROUP BY account ORDER BY account" > /tmp/rows.csv'
    )


def _commands(accounts: list[str]) -> list[str]:
    return [
        "head -n 5 shop.sql",
        "sqlite3 shop.db < shop.sql",
        _settled(ONCE),
        UPDATES,
        "sqlite3 shop.db < /tmp/updates.sql",
        _missing(ONCE),
        TABLE,
        LARGEST,
        *(
            f"sqlite3 shop.db \"SELECT moved_to FROM accounts WHERE id = '{account}'\""
            for account in accounts[:-1]
        ),
        "sqlite3 -separator ' ' shop.db "
        f"\"SELECT id, holder FROM accounts WHERE id = '{accounts[-1]}'\" > debtor.txt",
        "cat open.csv debtor.txt",
    ]


def _wasteful(commands: list[str], account: str) -> list[str]:
    return insert(
        commands,
        (1, "grep -c payments shop.sql"),
        (2, _settled(TWICE)),
        (2, "wc -l /tmp/settled.txt"),
        (5, "sqlite3 shop.db 'SELECT status, COUNT(*) FROM invoices GROUP BY 1' > open.csv"),
        (5, f"sqlite3 shop.db \"SELECT * FROM invoices WHERE account = '{account}'\""),
    )


def _wrong() -> list[str]:
    """Counts payments as often as they were written down."""
    hop = "SELECT n.id, n.holder FROM accounts a JOIN accounts n ON n.id = a.moved_to"
    return [
        "sqlite3 shop.db < shop.sql",
        _settled(TWICE),
        UPDATES,
        "sqlite3 shop.db < /tmp/updates.sql",
        _missing(TWICE),
        TABLE,
        f"sqlite3 -separator ' ' shop.db \"{hop} WHERE a.id = '$({LARGEST} | cut -d , -f 1)'\" "
        "> debtor.txt",
    ]
