// Parses searches and formats amounts of this chain. Needs no document.
import { counted, decimal, named } from '../format.mjs';

/** Formats wei as ether. */
export const ether = (wei) => `${decimal(wei, 18)} ETH`;

/** Formats a gas price in wei. */
export const gwei = (wei) => `${decimal(wei, 9)} gwei`;

/** Parses a JSON-RPC quantity, if it is exact in a browser. */
export const number = (quantity) => Number(BigInt(quantity));

export const quantity = (value) => `0x${BigInt(value).toString(16)}`;

/** Number of bytes in hex data. */
export const byteCount = (data) => (data.length - 2) / 2;

/** An owner of outputs: bech32m of 32 bytes. The node verifies the checksum. */
const OWNER = /^hearth1[02-9ac-hj-np-z]{58}$/;
const HASH_DIGITS = 64;
const ADDRESS_DIGITS = 40;

/** Parses a search: `{kind, value}`, or `{why}` it cannot be anything on this chain. */
export function understand(query) {
  const words = query.trim();
  if (words === '') return { why: 'Type a hash, an address or a block.' };
  const decimals = counted(words, 'block');
  if (decimals) return { kind: decimals.why ? undefined : 'block', ...decimals };
  if (/^hearth1/i.test(words)) {
    const owner = words.toLowerCase();
    return OWNER.test(owner) ? { kind: 'owner', value: owner } : { why: `“${named(words)}” is not an owner’s address: one has 65 characters, hearth1 and 58 of bech32m.` };
  }
  // An output is shown with the transaction that created it.
  const [, made] = words.match(/^(0x[0-9a-f]{64}):\d+$/i) ?? [];
  if (made) return { kind: 'transaction', value: made.toLowerCase() };
  const [, prefix, digits] = words.match(/^(0x)?([0-9a-f]+)$/i) ?? [];
  if (digits?.length === HASH_DIGITS) return { kind: 'transaction', value: `0x${digits.toLowerCase()}` };
  if (digits?.length === ADDRESS_DIGITS) return { kind: 'address', value: `0x${digits}` };
  // A block number as a JSON-RPC quantity.
  if (prefix && digits.length <= 13) return { kind: 'block', value: String(parseInt(digits, 16)) };
  const found = digits === undefined ? 'it is not hexadecimal' : `it has ${digits.length} hexadecimal digits`;
  return { why: `“${named(words)}” is no block (a number), no address (40 hexadecimal digits, or hearth1…) and no hash (64): ${found}.` };
}
