// Parses searches and formats amounts of this chain. Needs no document.
import { counted, decimal, named } from '../format.mjs';

/** Formats lamports as SOL. */
export const sol = (lamports) => `${decimal(lamports, 9)} SOL`;

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/** Length in bytes of a base58 text; undefined if it is not base58. */
export function base58Length(text) {
  let value = 0n;
  for (const letter of text) {
    const digit = ALPHABET.indexOf(letter);
    if (digit < 0) return undefined;
    value = value * 58n + BigInt(digit);
  }
  const zeros = text.length - text.replace(/^1+/, '').length;
  return zeros + (value > 0n ? Math.ceil(value.toString(16).length / 2) : 0);
}

/** Parses a search: `{kind, value}`, or `{why}` it cannot be anything on this chain. */
export function understand(query) {
  const value = query.trim();
  if (value === '') return { why: 'Type a signature, an address or a slot.' };
  // A text of 32 digits or more may be an address: that of the system program is 32 ones.
  const number = counted(value, 'slot');
  if (number) return { kind: number.why ? undefined : 'slot', ...number };
  const bytes = value.length <= 100 ? base58Length(value) : undefined;
  if (bytes === 32) return { kind: 'address', value };
  if (bytes === 64) return { kind: 'transaction', value };
  const found = bytes === undefined ? 'it is not base58' : `it is base58 of ${bytes} bytes`;
  return { why: `“${named(value)}” is no slot (a number), no address (base58 of 32 bytes) and no signature (of 64): ${found}.` };
}
