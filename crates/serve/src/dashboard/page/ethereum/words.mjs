// What people search on this chain, and its amounts. No document is needed here.
import { counted, decimal, named } from '../format.mjs';

/** Wei as ether. */
export const ether = (wei) => `${decimal(wei, 18)} ETH`;

/** Wei of a price of gas. */
export const gwei = (wei) => `${decimal(wei, 9)} gwei`;

/** What JSON-RPC writes as a quantity, where a browser can count so far. */
export const number = (quantity) => Number(BigInt(quantity));

export const quantity = (value) => `0x${BigInt(value).toString(16)}`;

/** How many bytes of data there are. */
export const byteCount = (data) => (data.length - 2) / 2;

const HASH_DIGITS = 64;
const ADDRESS_DIGITS = 40;

/** What somebody searches: `{kind, value}`, or `{why}` it is nothing that a chain has. */
export function understand(query) {
  const words = query.trim();
  if (words === '') return { why: 'Type a hash, an address or a block.' };
  const decimals = counted(words, 'block');
  if (decimals) return { kind: decimals.why ? undefined : 'block', ...decimals };
  const [, prefix, digits] = words.match(/^(0x)?([0-9a-f]+)$/i) ?? [];
  if (digits?.length === HASH_DIGITS) return { kind: 'transaction', value: `0x${digits.toLowerCase()}` };
  if (digits?.length === ADDRESS_DIGITS) return { kind: 'address', value: `0x${digits}` };
  // A block's number as JSON-RPC writes it.
  if (prefix && digits.length <= 13) return { kind: 'block', value: String(parseInt(digits, 16)) };
  const found = digits === undefined ? 'it is not hexadecimal' : `it has ${digits.length} hexadecimal digits`;
  return { why: `“${named(words)}” is no block (a number), no address (40 hexadecimal digits) and no hash (64): ${found}.` };
}
