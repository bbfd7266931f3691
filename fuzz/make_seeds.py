#!/usr/bin/env python3
"""Writes the seeds of the targets in fuzz/corpus that neither make_archive.py nor `hearth-wire`'s make_corpus writes.

The formats are written down here a second time, independently of the program's own writers. Signatures are zeros or
fixed bytes: the targets that need valid ones sign for themselves. Run it from anywhere; it needs nothing but Python.
"""

import base64
import json
import pathlib
import struct
import zlib

CORPUS = pathlib.Path(__file__).parent / "corpus"
START_MS = 1_700_000_000_000
# Test 1 of RFC 8032, section 7.1.
SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def u16(*values):
    return b"".join(struct.pack("<H", value) for value in values)


def u32(*values):
    return b"".join(struct.pack("<I", value) for value in values)


def u64(*values):
    return b"".join(struct.pack("<Q", value & (2**64 - 1)) for value in values)


def piece(message):
    return u16(len(message)) + message


def steps(*messages):
    """Messages of `fuzz::pieces`: each is a step's byte and its bytes."""
    return b"".join(piece(bytes([step]) + message) for step, message in messages)


def base58(data):
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = BASE58[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def bech32m(prefix, data):
    def polymod(values):
        check = 1
        for value in values:
            top = check >> 25
            check = (check & 0x1FFFFFF) << 5 ^ value
            for bit, term in enumerate([0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3]):
                check ^= term if top >> bit & 1 else 0
        return check

    bits = "".join(f"{byte:08b}" for byte in data)
    bits += "0" * (-len(bits) % 5)
    words = [int(bits[at:at + 5], 2) for at in range(0, len(bits), 5)]
    expanded = [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix]
    check = polymod(expanded + words + [0] * 6) ^ 0x2BC830A3
    words += [check >> 5 * (5 - n) & 31 for n in range(6)]
    return prefix + "1" + "".join("qpzry9x8gf2tvdw0s3jn54khce6mua7l"[word] for word in words)


def varint(number):
    out = b""
    while number >= 0x80:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


class Encoded(bytes):
    """An item of RLP that is encoded already."""


def rlp(item):
    def head(length, short):
        if length < 56:
            return bytes([short + length])
        size = length.to_bytes((length.bit_length() + 7) // 8, "big")
        return bytes([short + 55 + len(size)]) + size

    if isinstance(item, Encoded):
        return bytes(item)
    if isinstance(item, int):
        item = item.to_bytes((item.bit_length() + 7) // 8, "big")
    if isinstance(item, list):
        content = b"".join(map(rlp, item))
        return head(len(content), 0xC0) + content
    return item if len(item) == 1 and item[0] < 0x80 else head(len(item), 0x80) + item


def existing(target):
    return [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]


def write(target, **seeds):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in seeds.items():
        (folder / name.replace("_", "-")).write_bytes(content.encode() if isinstance(content, str) else content)


def key(n):
    return bytes([n]) * 32


# Accounts.

def vote_state(version):
    votes = [(b"" if version == 1 else b"\1") + u64(100 + n) + u32(31 - n) for n in range(3)]
    out = u32(version) + key(1) + key(2)
    out += b"\5" if version < 3 else key(3) + key(4) + u16(500) + bytes(10) + b"\0"
    out += u64(len(votes)) + b"".join(votes) + b"\1" + u64(99) + u64(1) + u64(7) + key(5)
    out += b"" if version == 3 else bytes(32 * 48 + 9)
    return out + u64(1) + u64(7, 50, 40) + u64(102, START_MS // 1000)


def stake_state():
    meta = u64(2_282_880) + key(1) + key(1) + u64(0, 0) + key(0)
    return u32(2) + meta + key(2) + u64(10**9, 1, 2**64 - 1) + struct.pack("<d", 0.25) + u64(77) + bytes(4)


def accounts():
    nonce = u32(1, 1) + key(1) + key(2) + u64(5000)
    table = u32(1) + u64(2**64 - 1, 7) + b"\0\1" + key(1) + u16(0) + key(8) + key(9)
    program_data = u32(3) + u64(200) + b"\1" + key(9) + b"code"
    write("account_state", vote_1=b"\0" + vote_state(1), vote_2=b"\0" + vote_state(2), vote_3=b"\0" + vote_state(3),
          stake=b"\1" + stake_state(), program=b"\2" + u32(2) + key(7), program_data=b"\2" + program_data,
          loader_v4=b"\3" + u64(200) + key(7) + u64(1) + b"code", feature=b"\4\1" + u64(9), table=b"\5" + table)
    mint = u32(1) + key(1) + u64(1000) + b"\6\1" + u32(0) + key(0)
    token = key(1) + key(2) + u64(50) + u32(0) + key(0) + b"\1" + u32(0) + u64(0, 0) + u32(0) + key(0)
    write("solana_account", nonce=b"\0" + nonce, vote=b"\1" + vote_state(3), stake=b"\2" + stake_state(),
          table=b"\3" + table, program=b"\4" + u32(2) + key(7), program_data=b"\4" + program_data,
          config=b"\5\1" + key(3) + b"\1" + u64(2) + b"{}", sysvar=b"\6" + u64(1, 2, 3, 4, 5), mint=b"\7" + mint,
          token=b"\7" + token)
    history = [u64(epoch, 10**9, 10**8, 10**7) for epoch in range(9, 0, -1)]
    write("sysvar", clock=b"\0" + u64(9, START_MS, 1, 2, START_MS), stake_history=b"\1" + u64(9) + b"".join(history),
          slot_history=b"\2" + u64(5000) + b"\1" + u64(16384) + bytes(range(64)))


# Solana's network.

def transaction(keys, data, accounts_of_call=b"\1\0", program=2):
    count = bytes([len(accounts_of_call)]) + accounts_of_call + varint(len(data)) + data
    message = b"\1\0\1" + bytes([len(keys)]) + b"".join(keys) + key(0xBB) + b"\1" + bytes([program]) + count
    return b"\1" + bytes(64) + message


def messages():
    vote_program = bytes.fromhex("0761481d357474bb7c4d7624ebd3bdb3d8355e73d11043fc0da3538000000000")
    tower = u64(90) + b"\2" + varint(10) + b"\2" + varint(1) + b"\1" + key(6) + b"\1" + u64(1_700_000_000) + key(7)
    write("vote", tower_sync=transaction([key(1), key(2), vote_program], u32(14) + tower),
          no_time=transaction([key(1), key(2), vote_program], u32(14) + u64(2**64 - 1) + b"\1\5\1" + key(6) + b"\0" + key(7)),
          switch=transaction([key(1), key(2), vote_program], u32(15) + tower + key(0)),
          transfer=transaction([key(1), key(2), key(0)], u32(2) + u64(5)))
    write("ip_echo", request=u32(0) + u16(8000, 0, 1, 2, 3, 4, 5, 65535) + b"\n", answer=u32(0, 0) + b"\x0a\0\0\1\1" + u16(7) + bytes(12),
          answer_6=u32(0, 1) + bytes(15) + b"\1\0" + bytes(6))
    write("text_and_numbers", address=base58(PUBLIC), zeros="1" * 32, signature=base58(bytes(range(1, 65))),
          number=b"\xff\xff\3" + key(9))

    socket = b"\1" + u32(0) + b"\x0a\0\0\2" + b"\2\0\0" + varint(8000) + b"\x0a\0" + varint(1) + b"\0"
    version = varint(4) + varint(2) + varint(2) + u32(1, 2) + varint(3)

    def contact(n, later=0):
        clock = varint(START_MS + later) + u64(START_MS * 1000 + n)
        return u32(11) + key(n) + clock + u16(0x5A5A) + version + socket

    def lowest(n, slot):
        return u32(2) + b"\0" + key(n) + u64(0, slot, 0, 0, START_MS)

    snapshots = u32(10) + key(1) + u64(40) + key(8) + u64(1) + u64(60) + key(9) + u64(START_MS)
    gossip_vote = u32(1) + b"\0" + key(2) + transaction([key(2), key(5), vote_program], u32(14) + tower) + u64(START_MS)
    duplicate = [u32(9) + u16(0) + key(1) + u64(START_MS, 50) + u32(0) + b"\5" + bytes([2, n]) + u64(30) + bytes(30) for n in range(2)]
    raw = [(sender, message) for sender, message in enumerate(existing("gossip"))]
    joins = [(0x80 + n, piece(contact(n + 1))) for n in range(3)]
    write("gossip_node", raw=steps(*[(n % 0x80, message) for n, message in raw]), contacts=steps(*joins, (0xD0, u16(500)), *joins),
          pulls=steps((0xB0, contact(1)), (0xC0, b""), (0xB0, contact(1, 900)), (0xD0, u16(2000)), (0xB1, contact(2))),
          values=steps(joins[0], (0x80, piece(lowest(1, 7)) + piece(lowest(1, 8))), (0xA1, piece(lowest(2, 9))),
                       (0x80, piece(snapshots)), (0x81, piece(gossip_vote)), (0xD0, u16(30_000))),
          proof=steps(joins[0], *[(0x80, piece(part)) for part in duplicate], (0xD0, u16(16_000))))

    asks = [(0x60 + n, u64(slot) + u32(index)) for n in range(4) for slot, index in [(2, 0), (9, 40)]]
    write("repair_server", raw=steps(*[(n % 0x60, message) for n, message in enumerate(existing("repair"))]),
          unproved=steps(*asks), proved=steps(asks[0], (0xC0, b""), *asks, (0xE0, u16(5000)), *asks),
          much=steps(asks[0], (0xC0, b""), *[(0x62, u64(3) + u32(n)) for n in range(40)]))

    shreds = existing("shred")
    write("shred_receiver", unsigned=steps(*[(0, shred) for shred in shreds]), signed=steps(*[(1 + 4 * n, shred) for n, shred in enumerate(shreds)]),
          repaired=steps(*[(3, shred + u32(n)) for n, shred in enumerate(shreds[:3])], *[(3, shred) for shred in shreds]))
    entries = bytes(range(256)) * 20
    write("shred_block", whole=bytes(16) + entries, half=b"\1\0" * 8 + entries, damaged=b"\x10\1\2\4" * 4 + entries,
          two_sets=b"\1\2\4\x08" * 4 + bytes(33_000), empty=bytes(16))

    connect, tick, later = (2, b""), (7, b""), (0x67, b"")
    sends = [(3, bytes([n]) * (100 * n + 1)) for n in range(1, 6)]
    write("quic_server", honest=steps(connect, tick, *sends, tick), lossy=steps(connect, (5, b"\1\0\0\0" * 4), tick, *sends, (5, b"\1\0\2\0" * 8), later, later),
          damaged=steps(connect, (5, b"\4\x20\3\x80\5\xff\6\x10"), tick, *sends, (6, b"\4\x40" * 6), later),
          crowd=steps(*[connect] * 12, tick, *sends, later, later, later),
          raw=steps((0, b"\xc0\0\0\0\1\x08" + bytes(8) + b"\0\0\x44\x9e" + bytes(1186)), (8, b"\xff" * 40), (16, b"\x40" + bytes(30)), connect))


# Files.

def files():
    write("key_file", good=json.dumps(list(SEED + PUBLIC)), other=json.dumps([7] * 64), short="[1, 2, 3]")
    config = """name = "a"
[layout]
affinity = "0-3,f2,0*6"
blocklist_cores = "2h"
net_tile_count = 1
park_after_micros = 50
[hugetlbfs]
max_page_size = "huge"
[ledger]
limit_size = 1000000000
[gossip]
enabled = true
entrypoints = ["10.0.0.1:8001"]
[rpc]
port = 8899
[tiles.quic]
max_concurrent_connections = 512
[development]
slots = "clock"
[development.genesis]
slots_per_epoch = 64
"""
    write("node_config", some=config, wrong="[layuot]\naffinity = 3\n[[rpc]]\nport = -1\n", empty="", twice="[rpc]\nport = 1\nport = 2\n")
    comet = 'proxy_app = "a"\nabci = "b"\nlog_level = "info"\n'
    sections = {"rpc": ["laddr"], "p2p": ["laddr", "pex", "addr_book_strict", "allow_duplicate_ip", "flush_throttle_timeout", "send_rate",
                                          "recv_rate", "max_packet_msg_payload_size"],
                "mempool": ["type", "recheck", "size", "cache_size"], "consensus": ["peer_gossip_sleep_duration", "timeout_commit"],
                "tx_index": ["indexer"]}
    comet += "".join(f"[{name}]\n# A comment.\n" + "".join(f'{k} = "x"\n' for k in keys) for name, keys in sections.items())
    write("comet_config", whole=comet, part=comet[:200])

    def frame(place, data):
        size = u32(len(data))
        return size + u32(zlib.crc32(u64(place) + size)) + u32(zlib.crc32(data)) + data

    log = b""
    for n in range(5):
        log += frame(len(log), bytes([n]) * n * 7)
    write("log_file", whole=log, torn=log[:-3], zeros=log + bytes(50), damaged=log[:40] + b"\xff" + log[41:])
    records = b"".join(piece(bytes([n]) * n * 9) for n in range(6))
    write("log_damage", whole=bytes(2) + b"\4" * 7 + records, cut=u16(70) + b"\0" + bytes(6) + records, flipped=u16(30) + b"\1" + u16(80) + b"\2" + u16(12) + b"\x81" + records)

    zero = base58(key(0))
    block = {"slot": 0, "parent": 0, "height": 0, "leader": zero, "blockhash": zero, "bank_hash": zero, "time": START_MS // 1000,
             "capitalization": 10**18, "txs": []}
    landed = {"tx": base64.b64encode(transaction([key(1), key(2), key(0)], u32(2) + u64(5))).decode(), "err": {"InstructionError": [0, {"Custom": 1}]},
              "fee": 5000, "units": 150, "logs": ["Program 11111111111111111111111111111111 invoke [1]"], "changed": {zero: "", base58(key(1)): "ab"}}
    refused = {"tx": landed["tx"], "err": "BlockhashNotFound", "after": 0}
    reward = {"key": zero, "lamports": -5, "balance": 7, "kind": "Fee"}
    second = block | {"slot": 1, "height": 1, "txs": [landed], "refused": [refused], "rewards": [reward]}
    third = block | {"slot": 4, "parent": 1, "height": 2, "hard_fork": True}
    write("recorded_blocks", three="".join(json.dumps(line) + "\n" for line in [block, second, third]), one=json.dumps(block),
          disorder=json.dumps(block) + "\n" + json.dumps(third))


# The EVM chain.

def ethereum():
    sender, to, r, s = key(0x33), bytes([0x22]) * 20, key(0x44), key(0x11)
    legacy = rlp([0, 10**9, 21_000, to, 5, b"", 31_337 * 2 + 35, r, s])
    old = rlp([1, 10**9, 60_000, b"", 0, b"\x60\0\x60\0", 27, r, s])
    access = [[to, [key(1), key(2)]]]
    listed = b"\1" + rlp([31_337, 1, 10**9, 50_000, to, 0, b"data", access, 1, r, s])
    dynamic = b"\2" + rlp([31_337, 2, 1, 10**10, 21_000, to, 7, b"", [], 0, r, s])
    blob = b"\3" + rlp([31_337, 3, 1, 10**10, 21_000, to, 0, b"", [], 10**9, [b"\1" + key(9)[:31]], 1, r, s])
    code = b"\4" + rlp([31_337, 4, 1, 10**10, 80_000, to, 0, b"", access, [[31_337, to, 0, 1, r, s]], 0, r, s])
    sidecar = rlp([Encoded(blob[1:]), [bytes(131_072)][:0], [bytes(48)], [bytes(48)]])
    write("evm_transaction", legacy=legacy, old=old, listed=listed, dynamic=dynamic, blob=blob, code=code, network_blob=b"\3" + sidecar)

    empty_root = bytes.fromhex("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421")
    empty_list = bytes.fromhex("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347")

    def header(number, *more):
        return [key(number), empty_list, to, key(1), empty_root, empty_root, bytes(256), 0, number, 30_000_000, 0, 1000 + number, b"", key(2), bytes(8), *more]

    old_block = rlp([header(1), [Encoded(legacy)], []])
    london = rlp([header(1, 10**9), [Encoded(legacy), dynamic], []])
    shanghai = rlp([header(1, 10**9, empty_root), [], [], [[0, 1, to, 5]]])
    prague = rlp([header(2, 10**9, empty_root, 0, 0, key(3), key(4)), [blob, code], [], []])
    ommer = rlp([header(9), [], [header(8), header(7)]])
    write("evm_blocks", old=old_block, london=london, several=london + shanghai + prague, ommers=ommer, cut=prague[:-9])

    rules = {name: 0 for name in ["homesteadBlock", "eip150Block", "eip155Block", "eip158Block", "byzantiumBlock", "constantinopleBlock",
                                  "petersburgBlock", "istanbulBlock", "berlinBlock", "londonBlock", "mergeNetsplitBlock", "shanghaiTime",
                                  "cancunTime"]}
    config = {"chainId": 7, **rules, "terminalTotalDifficulty": 0, "blobSchedule": {"cancun": {"target": 3, "max": 6, "baseFeeUpdateFraction": 3338477}}}
    account = {"balance": "0x1", "nonce": "0x1", "code": "0x6001", "storage": {"0x" + "00" * 32: "0x" + "01" * 32}}
    genesis = {"config": config, "alloc": {"0x" + "22" * 20: account, "33" * 20: {"balance": "5"}}, "gasLimit": "0x1c9c380",
               "difficulty": "0x0", "timestamp": "0x5", "extraData": "0x00", "baseFeePerGas": "0x7"}
    outputs = genesis | {"hearthOutputs": {"version": 1, "items": ["0x00"]}, "hearthClockOffset": 5}
    least = {"config": {"chainId": 1}, "alloc": {}}
    write("evm_genesis", whole=json.dumps(genesis), outputs=json.dumps(outputs), least=json.dumps(least), number=json.dumps(genesis | {"number": "0x1"}))

    outputs = [[b"", 90, key(5), b"memo"], [key(6), 3, key(5), b""]]
    witnesses = [[PUBLIC, bytes(64)]]

    def utxo(kind, detail):
        return b"\x68" + rlp([[31_337, kind, [[key(1), 0], [key(2), 7]], outputs, 5_000, detail], witnesses])

    write("utxo_transaction", transfer=utxo(1, []), issue=utxo(2, [b"GOLD", 2, 1, PUBLIC, 1000]), more=utxo(2, [key(6), 10]), prism=utxo(3, [to, 10**9]))
    write("utxo_text", owner=b"\0" + bech32m("hearth", PUBLIC).encode(), amount=b"\x09" + b"12.000000001", whole=b"\0" + b"18446744073709551615", digits=b"\x12.5")
    write("comet_envelope", one=b"\x9e\1" + varint(len(legacy)) + legacy, many=b"\x9e\1" + b"".join(varint(len(tx)) + tx for tx in [legacy, dynamic, b""]),
          plain=legacy, later=b"\x9e\2\0")
    entry = b"\1" + to + struct.pack(">Q", 5) + key(1) + struct.pack(">I", 3) + b"\x60\0\0"
    chunk = b"\3" + struct.pack(">I", 4) + b"part" + b"\4" + struct.pack(">I", 2) + b"ab" + entry + b"\2" + key(0) + key(9) + b"\2" + key(1) + key(9)
    write("comet_chunk", entries=chunk, accounts=entry + b"\1" + key(0x23)[:20] + bytes(8) + bytes(32) + bytes(4), header=rlp(header(1, 10**9)), cut=chunk[:-5])

    def field(number, content):
        if isinstance(content, int):
            return varint(number << 3) + varint(content)
        return varint(number << 3 | 2) + varint(len(content)) + content

    def abci(number, content=b""):
        message = field(number, content)
        return varint(len(message)) + message

    time = field(1, START_MS // 1000)
    check_tx = field(1, legacy)
    query = [field(1, b"\0" * 20) + field(2, path.encode()) + field(3, 1) + field(4, 1) for path in ["/store", "balance", "/app/version", "/p2p/filter/addr"]]
    prepare = field(1, 1 << 20) + field(2, legacy) + field(2, dynamic) + field(5, 1) + field(6, time) + field(8, bytes(20))
    process = field(1, legacy) + field(4, key(3)) + field(5, 1) + field(6, time) + field(8, bytes(20))
    write("abci_frames", hello=abci(1, field(1, b"hello")) + abci(2) + abci(3, field(1, b"0.38")), check=abci(8, check_tx) + abci(8, check_tx + field(2, 1)),
          queries=b"".join(abci(6, one) for one in query), proposals=abci(16, prepare) + abci(17, process) + abci(2),
          snapshots=abci(12) + abci(14, field(1, 5) + field(2, 1)), answers=abci(3) + abci(9, field(1, 3) + field(3, b"no")) + abci(21, field(2, field(1, 0))))


# JSON-RPC.

def call(method, *params, number=1):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


def texts(target, calls):
    single = {f"{n:02}-{call['method'].replace('_', '-').lower()}": json.dumps(call) for n, call in enumerate(calls)}
    odd = {"batch": json.dumps(calls[:4]), "no-json": "{\"id\": 1", "empty-batch": "[]", "null": "null",
           "deep": "[" * 200 + "]" * 200, "notification": json.dumps({"jsonrpc": "2.0", "method": calls[0]["method"]}),
           "ids": "[{\"jsonrpc\":\"2.0\",\"id\":1e999,\"method\":\"x\"},{\"jsonrpc\":\"2.0\",\"id\":\"\\ud800\",\"method\":\"y\"},{\"id\":{}}]"}
    write(target, **single, **odd)


def servers():
    a, b = base58(key(0x5A)), base58(PUBLIC)
    tx = base64.b64encode(transaction([key(1), key(2), key(0)], u32(2) + u64(5))).decode()
    signature = base58(bytes(range(1, 65)))
    processed = {"commitment": "processed"}
    texts("solana_rpc", [
        call("getAccountInfo", a, {"encoding": "jsonParsed", **processed, "dataSlice": {"offset": 1, "length": 2}}), call("getBalance", b), call("getSlot"),
        call("getMultipleAccounts", [a, b], {"encoding": "base64+zstd"}),
        call("getProgramAccounts", base58(key(0)), {"filters": [{"dataSize": 0}, {"memcmp": {"offset": 0, "bytes": "1"}}], "withContext": True}),
        call("getBlock", 0, {"transactionDetails": "full", "maxSupportedTransactionVersion": 0}), call("getBlocks", 0, 1), call("getSignaturesForAddress", a, {"limit": 3}),
        call("getTokenAccountsByOwner", a, {"programId": "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"}), call("sendTransaction", tx, {"encoding": "base64", "skipPreflight": True}),
        call("simulateTransaction", tx, {"encoding": "base64", "sigVerify": False, "replaceRecentBlockhash": True, "accounts": {"addresses": [a], "encoding": "base64"}}),
        call("getFeeForMessage", tx, processed), call("getLeaderSchedule", 0, {"identity": a}), call("getInflationReward", [a], {"epoch": 0}),
        call("getSignatureStatuses", [signature], {"searchTransactionHistory": True}), call("getTransaction", signature, "json"),
        call("getLargestAccounts", {"filter": "circulating"}), call("requestAirdrop", a, 5), call("getEpochInfo", {"minContextSlot": 9}),
    ])
    account, data = "0x" + "11" * 20, "0x6001600055"
    hash_ = "0x" + "ab" * 32
    to_call = {"from": account, "to": "0x" + "22" * 20, "data": data, "gas": "0x5208", "value": "0x1"}
    texts("ethereum_rpc", [
        call("eth_blockNumber"), call("eth_getBalance", account, "latest"), call("eth_call", to_call, "latest", {account: {"balance": "0x5", "stateDiff": {hash_: hash_}}}),
        call("eth_estimateGas", to_call), call("eth_getProof", account, ["0x0", hash_], "latest"), call("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "topics": [[hash_], None]}),
        call("eth_feeHistory", "0x4", "latest", [10, 90.5]), call("eth_getBlockByNumber", "0x0", True), call("eth_sendRawTransaction", "0x02f86c8201c4"),
        call("eth_createAccessList", to_call, "pending"), call("eth_newFilter", {"address": account}), call("eth_getFilterChanges", "0x1"),
        call("eth_simulateV1", {"blockStateCalls": [{"calls": [to_call], "blockOverrides": {"number": "0x5"}}], "validation": True}, "latest"),
        call("debug_traceCall", to_call, "latest", {"tracer": "callTracer"}), call("eth_getTransactionByHash", hash_), call("txpool_content"), call("web3_sha3", data),
        call("eth_getStorageAt", account, "0x0", {"blockHash": hash_, "requireCanonical": True}), call("trace_block", "latest"),
    ])

    def frames(*calls):
        return steps(*[(0x81, json.dumps(one).encode()) for one in calls])

    write("solana_websocket", account=frames(call("accountSubscribe", a, processed | {"encoding": "jsonParsed"}), call("accountUnsubscribe", 0)),
          several=frames(call("logsSubscribe", {"mentions": [a]}), call("programSubscribe", a), call("signatureSubscribe", signature), call("slotSubscribe"), call("rootSubscribe")),
          frames=steps((0x01, b"{\"id\":"), (0x80, b"1}"), (0x89, b"ping"), (0x8A, b""), (0x82, b"[]")), close=steps((0x88, struct.pack(">H", 1000) + b"bye")),
          broken=steps((0xFF, b"x"), (0x81, b"\xff\xfe")), raw=steps((0x81, b"[]"), (0, b"\x81\xfe\xff\xff\0\0")))
    write("ethereum_websocket", heads=frames(call("eth_subscribe", "newHeads"), call("eth_subscribe", "logs", {"topics": []}), call("eth_unsubscribe", "0x1")),
          pending=frames(call("eth_subscribe", "newPendingTransactions", True), call("eth_subscribe", "syncing"), call("eth_blockNumber")),
          frames=steps((0x01, b"{\"id\":"), (0x80, b"1}"), (0x89, b"ping"), (0x82, b"[]")), close=steps((0x88, struct.pack(">H", 1000))), raw=steps((0, b"\x81\xff" + b"\xff" * 8)))


def main():
    accounts()
    messages()
    files()
    ethereum()
    servers()


main()
