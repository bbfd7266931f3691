"""web3.py 8, unmodified: transfer, deploy, call, event, revert reason, filters, subscription.

reads   RPC_URL, KEYS: as the scripts beside this one; CONTRACTS: a file that `contracts.mjs` has written
"""

import asyncio
import json
import os

from eth_account import Account
from eth_account.messages import encode_defunct
from web3 import AsyncWeb3, Web3, WebSocketProvider
from web3.exceptions import ContractCustomError, ContractLogicError, Web3RPCError
from web3.middleware import SignAndSendRawMiddlewareBuilder

URL = os.environ["RPC_URL"]
ALICE, BOB = (Account.from_key(key) for key in os.environ["KEYS"].split(",")[:2])
with open(os.environ["CONTRACTS"], encoding="utf-8") as file:
    TOKEN = json.load(file)["Token"]

w3 = Web3(Web3.HTTPProvider(URL))
w3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build([ALICE, BOB]), layer=0)


def done(sent):
    receipt = w3.eth.wait_for_transaction_receipt(sent, poll_latency=0.02)
    assert receipt["status"] == 1, receipt
    return receipt


def transfer():
    assert w3.is_connected()
    assert w3.client_version.startswith("Hearth/")
    before = w3.eth.get_balance(BOB.address)
    receipt = done(w3.eth.send_transaction({"from": ALICE.address, "to": BOB.address, "value": 10**18}))
    assert w3.eth.get_balance(BOB.address) == before + 10**18
    found = w3.eth.get_transaction(receipt["transactionHash"])
    assert found["blockNumber"] == receipt["blockNumber"] and found["from"] == ALICE.address
    block = w3.eth.get_block(receipt["blockNumber"], full_transactions=True)
    assert block["transactions"][0]["hash"] == receipt["transactionHash"]
    legacy = {"from": ALICE.address, "to": BOB.address, "value": 1, "gas": 21_000, "gasPrice": w3.eth.gas_price * 2}
    done(w3.eth.send_transaction(legacy))
    history = w3.eth.fee_history(3, "latest", [50])
    assert len(history["baseFeePerGas"]) == len(history["gasUsedRatio"]) + 1
    signature = w3.eth.sign(w3.eth.accounts[0], text="hello")
    assert Account.recover_message(encode_defunct(text="hello"), signature=signature) == w3.eth.accounts[0]
    try:
        w3.eth.send_raw_transaction(b"\xde\xad")
        raise AssertionError("garbage was taken")
    except Web3RPCError as error:
        assert error.rpc_response["error"]["code"] == -32000, error


def contract():
    factory = w3.eth.contract(abi=TOKEN["abi"], bytecode=TOKEN["bytecode"])
    sent = factory.constructor("Copper", "CU", 10**21).transact({"from": ALICE.address})
    token = w3.eth.contract(address=done(sent)["contractAddress"], abi=TOKEN["abi"])
    assert token.functions.symbol().call() == "CU"
    assert token.functions.balanceOf(ALICE.address).call() == 10**21
    watch = token.events.Transfer.create_filter(from_block="latest")
    blocks = w3.eth.filter("latest")
    receipt = done(token.functions.transfer(BOB.address, 5).transact({"from": ALICE.address}))
    [event] = token.events.Transfer().process_receipt(receipt)
    assert (event["args"]["to"], event["args"]["value"]) == (BOB.address, 5)
    assert [entry["args"]["value"] for entry in watch.get_new_entries()] == [5]
    assert receipt["blockHash"] in blocks.get_new_entries()
    logs = token.events.Transfer().get_logs(from_block=receipt["blockNumber"])
    assert [log["transactionHash"] for log in logs] == [receipt["transactionHash"]]
    try:
        token.functions.transferFrom(ALICE.address, BOB.address, 1).call({"from": BOB.address})
        raise AssertionError("it did not revert")
    except ContractLogicError as error:
        assert "allowance too small" in str(error), error
    try:
        token.functions.transfer(ALICE.address, 10**20).estimate_gas({"from": BOB.address})
        raise AssertionError("it did not revert")
    except ContractCustomError as error:
        assert error.data.startswith(Web3.keccak(text="TooLittle(uint256,uint256)")[:4].to_0x_hex()), error
    return token


async def subscription(token):
    async with AsyncWeb3(WebSocketProvider(URL.replace("http", "ws", 1))) as socket:
        heads = await socket.eth.subscribe("newHeads")
        logs = await socket.eth.subscribe("logs", {"address": token.address})
        done(token.functions.transfer(BOB.address, 6).transact({"from": ALICE.address}))
        notified = {}
        async for message in socket.socket.process_subscriptions():
            notified[message["subscription"]] = message["result"]
            if heads in notified and logs in notified:
                break
        assert notified[logs]["address"] == token.address
        assert notified[heads]["number"] >= notified[logs]["blockNumber"]
        assert await socket.eth.unsubscribe(heads)


transfer()
asyncio.run(asyncio.wait_for(subscription(contract()), 60))
print("web3.py: ok")
