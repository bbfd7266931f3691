#!/usr/bin/env python3
"""Writes fuzz/corpus/archive: small archives of snapshots, unpacked, and one packed by the program `zstd`.

The layouts are written down here a second time, from `solana-runtime` 4.2 (`serde_snapshot.rs`), independently of the
program's own writer. The lattice hash is zeros: the reader of one archive does not sum up its accounts.
"""

import hashlib
import io
import pathlib
import struct
import subprocess
import tarfile

SLOT = 70


def u64(*values):
    return b"".join(struct.pack("<Q", value) for value in values)


def many(items):
    return u64(len(items)) + b"".join(items)


def option(value):
    return b"\0" if value is None else b"\1" + value


def key(n):
    return bytes([n]) * 32


def vote(n):
    return key(n) + u64(n) + u64(1000) + many([bytes([n])] * 5) + key(n + 1) + b"\0" + u64(2**64 - 1)


HISTORY = many([u64(epoch, 5, 6, 7) for epoch in range(2)])
SCHEDULE = u64(32, 32) + b"\0" + u64(0, 0)
LATTICE = bytes(2048)


def bank(bank_hash):
    hashes = [key(n) + u64(5000, n, 9) for n in range(68, SLOT + 1)]
    delegation = key(50) + key(30) + u64(77, 2**64 - 1, 3) + bytes(8)
    return b"".join([
        u64(SLOT), option(key(SLOT)), many(hashes), u64(300),
        many([u64(1, 2)]),  # ancestors
        bank_hash, key(12), u64(SLOT - 1),
        many([u64(20, 1), u64(SLOT, 2)]),  # hard forks
        u64(900, 64 * 71, 3, 123_456, 64 * 71), option(u64(62_500)), u64(64),
        (400_000_000).to_bytes(16, "little"), struct.pack("<q", 1_700_000_000), struct.pack("<d", 78_892_314.984),
        u64(77, SLOT, 2, SLOT - 5), key(40), u64(0, 0),
        u64(10_000, 20_000, 5_000, 100_000) + b"\x32",  # fee-rate governor
        u64(0), u64(0) + SCHEDULE + struct.pack("<d", 0.0) + bytes(17),  # collected rent, rent collector
        SCHEDULE, struct.pack("<6d", 0.08, 0.015, 0.15, 0.05, 7.0, 0.0),
        many([vote(30)]), many([delegation]), u64(0), u64(2), HISTORY,
        many([]), many([]), many([]), many([]), b"\1",
    ])


def accounts_db(storages):
    listed = [u64(slot, 1, number, len(content)) for slot, number, content in storages]
    return many(listed) + u64(0, SLOT) + bytes(64) + u64(1, 2, 3, 4, 5) + many([]) + many([])


def epoch_stakes(epoch):
    stake = key(50) + key(30) + u64(77, 2**64 - 1, 3) + bytes(8) + u64(9)
    nodes = [key(40) + many([key(30), key(31)]) + u64(61)]
    voters = [key(30) + key(40), key(31) + key(41)]
    return b"".join([
        u64(epoch), struct.pack("<I", 0), many([vote(30), vote(31)]), many([stake]), u64(0), u64(epoch - 1), HISTORY,
        u64(61), many(nodes), many(voters),
    ])


def fields(storages):
    def sha256(*parts):
        return hashlib.sha256(b"".join(parts)).digest()

    block = sha256(key(12), u64(3), key(SLOT))
    bank_hash = sha256(sha256(block, LATTICE), u64(2))
    persistence = u64(1) + key(1) + u64(2) + key(2) + u64(3)
    extra = [u64(5000), option(persistence), option(key(3)), many([epoch_stakes(2), epoch_stakes(3)])]
    return bank(bank_hash) + accounts_db(storages) + b"".join(extra) + option(LATTICE) + option(key(60))


def statuses():
    results = [
        struct.pack("<I", 0),
        struct.pack("<II", 1, 7),  # BlockhashNotFound
        struct.pack("<IIBII", 1, 8, 3, 25, 6),  # InstructionError(3, Custom(6))
        struct.pack("<IIBI", 1, 8, 3, 44) + many([b"x"]),  # InstructionError(3, BorshIoError("x"))
        struct.pack("<IIB", 1, 31, 4),  # InsufficientFundsForRent
        struct.pack("<II", 1, 38),  # CommitCancelled
    ]
    entries = [bytes([n]) * 20 + result for n, result in enumerate(results)]
    hashes = [key(9) + u64(4) + many(entries)]
    return many([u64(SLOT - 1) + b"\1" + many(hashes), u64(SLOT) + b"\1" + many([])])


def account(n, lamports, data, is_last=False):
    stored = u64(n, len(data)) + key(n) + u64(lamports, 2**64 - 1) + key(n // 2) + bytes([n % 2]) + b"padding"
    stored += bytes(range(32)) + data
    return stored if is_last else stored + bytes(-len(stored) % 8)


def archive(storages):
    def add(name, content, kind=tarfile.REGTYPE):
        info = tarfile.TarInfo(name)
        info.size, info.type = len(content), kind
        tar.addfile(info, io.BytesIO(content))

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        add("version", b"1.2.0")
        add("snapshots", b"", tarfile.DIRTYPE)
        add("snapshots/status_cache", statuses())
        add(f"snapshots/{SLOT}", b"", tarfile.DIRTYPE)
        add(f"snapshots/{SLOT}/{SLOT}", fields(storages))
        for slot, number, content in storages:
            add(f"accounts/{slot}.{number}", content)
    return out.getvalue()


def main():
    folder = pathlib.Path(__file__).parent / "corpus" / "archive"
    folder.mkdir(parents=True, exist_ok=True)
    first = account(1, 10, b"") + account(2, 20, b"0123456789") + account(3, 0, b"", is_last=True)
    second = account(4, 2**63, bytes(300), is_last=True) + bytes(4) + bytes(4096)
    (folder / "two-files").write_bytes(archive([(3, 100, first), (SLOT, 7, second)]))
    (folder / "no-accounts").write_bytes(archive([]))
    zstd = ["zstd", "--check", "-19"]
    packed = subprocess.run(zstd, input=archive([(3, 100, first)]), stdout=subprocess.PIPE, check=True)
    (folder / "packed").write_bytes(packed.stdout)


main()
