// Numbers and names for people; the same forms as `hearth monitor` has. No document is needed here.

/** `12,345` */
export const grouped = (value) => Math.round(Math.max(0, value)).toLocaleString('en-US');

/** Three digits or a little more: `950`, `12.3K`, `4.56M`. */
export function scaled(value) {
  if (value > 0 && value < 10) return value.toFixed(1);
  if (value < 1e3) return value.toFixed(0);
  if (value < 1e6) return `${(value / 1e3).toFixed(1)}K`;
  if (value < 1e9) return `${(value / 1e6).toFixed(2)}M`;
  return `${(value / 1e9).toFixed(2)}G`;
}

export const percent = (share) => (100 * share).toFixed(2);

/** `1234 +5`; without growth the count alone. */
export const withDelta = (count, delta) => (delta ? `${count} +${delta}` : `${count}`);

export function duration(seconds) {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 0.1) return `${(seconds * 1e3).toFixed(2)} ms`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(0)} ms`;
  if (seconds < 100) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 360000) return `${(seconds / 60).toFixed(0)} min`;
  return `${(seconds / 86400).toFixed(0)} d`;
}

/** Lamports as SOL. */
export function sol(lamports) {
  const all = BigInt(lamports);
  const [sign, amount] = all < 0n ? ['−', -all] : ['', all];
  const whole = (amount / 1_000_000_000n).toLocaleString('en-US');
  const rest = (amount % 1_000_000_000n).toString().padStart(9, '0').replace(/0+$/, '');
  return `${sign}${whole}${rest && `.${rest}`} SOL`;
}

/** The ends of a long name. */
export const short = (name) => (name.length > 14 ? `${name.slice(0, 6)}…${name.slice(-6)}` : name);

const iso = (unixSeconds) => new Date(unixSeconds * 1000).toISOString().slice(0, 19).replace('T', ' ');

/** `2026-11-22 11:00:00 UTC`, and what clocks show where the reader is, so many minutes ahead of that, where it differs. */
export function when(unixSeconds, ahead = -new Date(unixSeconds * 1000).getTimezoneOffset()) {
  const [utc, here] = [iso(unixSeconds), iso(unixSeconds + 60 * ahead)];
  if (here === utc) return `${utc} UTC`;
  const isSameDay = here.slice(0, 10) === utc.slice(0, 10);
  return `${utc} UTC (${isSameDay ? here.slice(11) : here} here)`;
}

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/** How many bytes a base58 text stands for; undefined where it is none. */
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

/** Slots are counted in 64 bits; beyond this a browser cannot count them, and no chain comes there. */
const SLOT_MAX = BigInt(Number.MAX_SAFE_INTEGER);

/** What somebody searches: `{kind, value}`, or `{why}` it is nothing that a chain has. */
export function understand(query) {
  const value = query.trim();
  if (value === '') return { why: 'Type a signature, an address or a slot.' };
  // From 32 digits on it may be an address: that of the system program is 32 ones.
  if (/^[0-9][0-9,_ ]{0,30}$/.test(value)) {
    const slot = BigInt(value.replace(/[,_ ]/g, ''));
    if (slot > SLOT_MAX) return { why: `“${value}” is no slot: it is larger than any that a chain comes to.` };
    return { kind: 'slot', value: String(slot) };
  }
  const bytes = value.length <= 100 ? base58Length(value) : undefined;
  if (bytes === 32) return { kind: 'address', value };
  if (bytes === 64) return { kind: 'transaction', value };
  const found = bytes === undefined ? 'it is not base58' : `it is base58 of ${bytes} bytes`;
  const named = value.length > 40 ? `${value.slice(0, 40)}…` : value;
  return { why: `“${named}” is no slot (a number), no address (base58 of 32 bytes) and no signature (of 64): ${found}.` };
}
