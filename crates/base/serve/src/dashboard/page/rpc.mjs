// JSON-RPC client for the node that serves this page.

/** An error from the node. */
export class Refused extends Error {
  constructor({ code, message, data }) {
    super(message);
    Object.assign(this, { code, data });
  }
}

/** Calls one method and returns the result. */
export async function call(method, ...params) {
  const answer = await ask({ jsonrpc: '2.0', id: 1, method, params });
  if (answer.error) throw new Refused(answer.error);
  return answer.result;
}

async function ask(request) {
  try {
    const response = await fetch('/', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(request) });
    return await response.json();
  } catch {
    throw new Error('the node does not answer');
  }
}

/** Results of several calls `[method, ...params]` in one batch; the first error counts for all. */
export async function together(calls) {
  if (calls.length === 0) return [];
  const answers = await ask(calls.map(([method, ...params], id) => ({ jsonrpc: '2.0', id, method, params })));
  if (!Array.isArray(answers)) throw new Refused(answers.error);
  const byId = new Map(answers.map((answer) => [answer.id, answer]));
  return calls.map((_, id) => {
    const { error, result } = byId.get(id);
    if (error) throw new Refused(error);
    return result;
  });
}

/** Results of several calls in one batch; undefined for each that fails. */
export async function attempted(calls) {
  if (calls.length === 0) return [];
  const answers = await ask(calls.map(([method, ...params], id) => ({ jsonrpc: '2.0', id, method, params })));
  if (!Array.isArray(answers)) return calls.map(() => undefined);
  const results = new Map(answers.map(({ id, result }) => [id, result]));
  return calls.map((_, id) => results.get(id));
}
