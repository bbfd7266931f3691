// Formats numbers and names in the same style as `hearth monitor`. Needs no document.

/** With separators: `12,345`. */
export const grouped = (value) => Math.round(Math.max(0, value)).toLocaleString('en-US');

/** With three digits or a few more: `950`, `12.3K`, `4.56M`. */
export function scaled(value) {
  if (value > 0 && value < 10) return value.toFixed(1);
  if (value < 1e3) return value.toFixed(0);
  if (value < 1e6) return `${(value / 1e3).toFixed(1)}K`;
  if (value < 1e9) return `${(value / 1e6).toFixed(2)}M`;
  return `${(value / 1e9).toFixed(2)}G`;
}

/** Bits per second: `12.3 Kbps`. */
export const bps = (bits) => `${scaled(bits).replace(/[KMG]?$/, (unit) => ` ${unit}`)}bps`;

export const percent = (share) => (100 * share).toFixed(2);

/** A count with its growth: `1234 +5`; without growth the count alone. */
export const withDelta = (count, delta) => (delta ? `${count} +${delta}` : `${count}`);

export function duration(seconds) {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 0.1) return `${(seconds * 1e3).toFixed(2)} ms`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(0)} ms`;
  if (seconds < 100) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 360000) return `${(seconds / 60).toFixed(0)} min`;
  return `${(seconds / 86400).toFixed(0)} d`;
}

/** Formats a whole number of smallest units as a decimal number of the unit with that many decimals. */
export function decimal(units, decimals) {
  const all = BigInt(units);
  const [sign, amount] = all < 0n ? ['−', -all] : ['', all];
  const one = 10n ** BigInt(decimals);
  const rest = (amount % one).toString().padStart(decimals, '0').replace(/0+$/, '');
  return `${sign}${(amount / one).toLocaleString('en-US')}${rest && `.${rest}`}`;
}

/** The beginning and end of a long name. */
export const short = (name) => (name.length > 14 ? `${name.slice(0, 6)}…${name.slice(-6)}` : name);

const iso = (unixSeconds) => new Date(unixSeconds * 1000).toISOString().slice(0, 19).replace('T', ' ');

/** `2026-11-22 11:00:00 UTC`, and the reader's local time, that many minutes ahead of UTC, if it differs. */
export function when(unixSeconds, ahead = -new Date(unixSeconds * 1000).getTimezoneOffset()) {
  const [utc, here] = [iso(unixSeconds), iso(unixSeconds + 60 * ahead)];
  if (here === utc) return `${utc} UTC`;
  const isSameDay = here.slice(0, 10) === utc.slice(0, 10);
  return `${utc} UTC (${isSameDay ? here.slice(11) : here} here)`;
}

/** The largest exact integer in a browser; no chain gets there. */
const NUMBER_MAX = BigInt(Number.MAX_SAFE_INTEGER);

/** The user's input, quoted for a sentence. */
export const named = (words) => (words.length > 40 ? `${words.slice(0, 40)}…` : words);

/** Parses the number of a slot or block: `{value}`, or `{why}` it is invalid; undefined if it is not a number. */
export function counted(text, thing) {
  if (!/^[0-9][0-9,_ ]{0,30}$/.test(text)) return undefined;
  const number = BigInt(text.replace(/[,_ ]/g, ''));
  return number > NUMBER_MAX ? { why: `“${text}” is no ${thing}: it is larger than any that a chain comes to.` } : { value: String(number) };
}
