"""solana-py and solders, unmodified, against a node: airdrop, transfer, simulate, tokens, subscriptions, history.

reads   RPC_URL: the node's JSON-RPC over HTTP; its WebSocket is one port higher
writes  a line per case and `ok`, or what is wrong with exit code 1
"""

import asyncio
import os
import re

from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed
from solana.rpc.core import RPCException
from solana.rpc.websocket_api import SolanaWsClient
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.rpc.config import RpcTransactionLogsFilterMentions
from solders.system_program import ID as SYSTEM_PROGRAM
from solders.system_program import CreateAccountParams, TransferParams, create_account, transfer
from solders.token import ID as TOKEN_PROGRAM
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

URL = os.environ["RPC_URL"]
WEBSOCKET = re.sub(r":(\d+)$", lambda port: f":{int(port[1]) + 1}", URL.replace("http", "ws"))
SOL = 1_000_000_000
FEE = 5_000
MINT_BYTES = 82
DEADLINE_S = 120


async def signed(client: AsyncClient, instructions: list[Instruction], *signers: Keypair) -> VersionedTransaction:
    latest = (await client.get_latest_blockhash()).value
    message = MessageV0.try_compile(signers[0].pubkey(), instructions, [], latest.blockhash)
    return VersionedTransaction(message, list(signers))


async def send(client: AsyncClient, instructions: list[Instruction], *signers: Keypair):
    """Sends, waits until it is confirmed, and gives the signature."""
    transaction = await signed(client, instructions, *signers)
    signature = (await client.send_transaction(transaction)).value
    status = (await client.confirm_transaction(signature, Confirmed)).value[0]
    assert status.err is None, status
    return signature


async def rich_key(client: AsyncClient, lamports: int) -> Keypair:
    key = Keypair()
    signature = (await client.request_airdrop(key.pubkey(), lamports)).value
    await client.confirm_transaction(signature, Confirmed)
    assert (await client.get_balance(key.pubkey())).value == lamports
    return key


async def a_transfer_is_confirmed(client: AsyncClient) -> None:
    alice, bob = await rich_key(client, 2 * SOL), Keypair().pubkey()
    pay = transfer(TransferParams(from_pubkey=alice.pubkey(), to_pubkey=bob, lamports=SOL))
    simulated = (await client.simulate_transaction(await signed(client, [pay], alice))).value
    assert simulated.err is None and simulated.units_consumed == 150, simulated
    signature = await send(client, [pay], alice)
    assert (await client.get_balance(bob)).value == SOL
    assert (await client.get_balance(alice.pubkey())).value == SOL - FEE
    found = (await client.get_transaction(signature, "jsonParsed", max_supported_transaction_version=0)).value
    assert found.transaction.meta.fee == FEE, found
    block = (await client.get_block(found.slot, "json", max_supported_transaction_version=0)).value
    assert any(signature in t.transaction.signatures for t in block.transactions)
    listed = (await client.get_signatures_for_address(alice.pubkey())).value
    assert [entry.signature for entry in listed][0] == signature


async def an_overdrawn_transfer_is_refused(client: AsyncClient) -> None:
    alice = await rich_key(client, SOL)
    pay = transfer(TransferParams(from_pubkey=alice.pubkey(), to_pubkey=Keypair().pubkey(), lamports=2 * SOL))
    try:
        await client.send_transaction(await signed(client, [pay], alice))
    except RPCException as error:
        assert "custom program error: 0x1" in str(error), error
    else:
        raise AssertionError("it was sent")


def token_instruction(accounts: list[AccountMeta], data: bytes) -> Instruction:
    return Instruction(TOKEN_PROGRAM, data, accounts)


async def tokens_move(client: AsyncClient) -> None:
    owner, mint = await rich_key(client, SOL), Keypair()
    rent = (await client.get_minimum_balance_for_rent_exemption(MINT_BYTES)).value
    params = CreateAccountParams(
        from_pubkey=owner.pubkey(), to_pubkey=mint.pubkey(), lamports=rent, space=MINT_BYTES, owner=TOKEN_PROGRAM
    )
    # InitializeMint2 with 3 decimals and no freeze authority.
    initialize = token_instruction([AccountMeta(mint.pubkey(), False, True)], bytes([20, 3, *bytes(owner.pubkey()), 0]))
    await send(client, [create_account(params), initialize], owner, mint)
    account = get_associated_token_address(owner.pubkey(), mint.pubkey())
    associated = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
    create = Instruction(
        associated,
        b"",
        [
            AccountMeta(owner.pubkey(), True, True),
            AccountMeta(account, False, True),
            AccountMeta(owner.pubkey(), False, False),
            AccountMeta(mint.pubkey(), False, False),
            AccountMeta(SYSTEM_PROGRAM, False, False),
            AccountMeta(TOKEN_PROGRAM, False, False),
        ],
    )
    mint_to = token_instruction(
        [
            AccountMeta(mint.pubkey(), False, True),
            AccountMeta(account, False, True),
            AccountMeta(owner.pubkey(), True, False),
        ],
        bytes([7, *(12_345).to_bytes(8, "little")]),
    )
    await send(client, [create, mint_to], owner)
    assert (await client.get_token_account_balance(account)).value.ui_amount_string == "12.345"
    assert (await client.get_token_supply(mint.pubkey())).value.amount == "12345"


async def changes_are_told(client: AsyncClient) -> None:
    alice, bob = await rich_key(client, SOL), Keypair().pubkey()
    pay = transfer(TransferParams(from_pubkey=alice.pubkey(), to_pubkey=bob, lamports=SOL // 2))
    transaction = await signed(client, [pay], alice)
    signature = transaction.signatures[0]
    async with SolanaWsClient(WEBSOCKET) as websocket:
        landed = await websocket.signature_subscribe(signature=signature, commitment=Confirmed)
        changed = await websocket.account_subscribe(pubkey=bob, commitment=Confirmed, encoding="base64")
        mentions = RpcTransactionLogsFilterMentions(bob)
        logged = await websocket.logs_subscribe(filter_=mentions, commitment=Confirmed)
        slots = await websocket.slot_subscribe()
        await client.send_transaction(transaction)
        wanted = {one.subscription_id: None for one in (landed, changed, logged, slots)}
        while None in wanted.values():
            message = await websocket.recv()
            wanted[message.subscription] = message.result
        assert wanted[landed.subscription_id].value.err is None
        assert wanted[changed.subscription_id].value.lamports == SOL // 2
        assert wanted[logged.subscription_id].value.signature == signature
        assert wanted[slots.subscription_id].slot > 0
        for one in (changed, logged, slots):
            await websocket.unsubscribe(one)


async def the_node_introduces_itself(client: AsyncClient) -> None:
    assert (await client.is_connected())
    epoch = (await client.get_epoch_info()).value
    assert epoch.slot_index == epoch.absolute_slot - epoch.epoch * epoch.slots_in_epoch
    assert len((await client.get_cluster_nodes()).value) == 1
    # Its first vote is confirmed a few slots after the chain begins.
    while not (votes := (await client.get_vote_accounts()).value).current:
        await asyncio.sleep(0.1)
    assert len(votes.current) == 1 and votes.current[0].activated_stake > 0, votes
    assert (await client.get_supply()).value.total > 0
    assert (await client.get_inflation_governor()).value is not None
    assert len((await client.get_slot_leaders(0, 4)).value) == 4


async def main() -> None:
    cases = [
        the_node_introduces_itself,
        a_transfer_is_confirmed,
        an_overdrawn_transfer_is_refused,
        tokens_move,
        changes_are_told,
    ]
    async with AsyncClient(URL, Confirmed) as client:
        for case in cases:
            await case(client)
            print(" ", case.__name__.replace("_", " "))
    print("ok")


asyncio.run(asyncio.wait_for(main(), DEADLINE_S))
