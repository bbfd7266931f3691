// JSON-RPC of the node that serves this page.

/** What the node answered with an error. */
export class Refused extends Error {
  constructor({ code, message }) {
    super(message);
    this.code = code;
  }
}

/** The result of one call. */
export async function call(method, ...params) {
  let answer;
  try {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch('/', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
    answer = await response.json();
  } catch {
    throw new Error('the node does not answer');
  }
  if (answer.error) throw new Refused(answer.error);
  return answer.result;
}

export const CONFIRMED = { commitment: 'confirmed' };
