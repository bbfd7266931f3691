// The schemas that the execution API publishes, and requests whose answers are held to them.
//
// reads   `schemas.json`: the results of https://github.com/ethereum/execution-apis (CC0), from the file
//         `refs-openrpc.json` of its branch `assembled-spec-main`, commit f56fd1d7d221, without `engine_` and without
//         descriptions; and the numbers of errors that it names
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import Ajv from 'ajv/dist/2019.js';
import { url } from './common.mjs';

const { methods, errors, schemas } = JSON.parse(readFileSync(new URL('schemas.json', import.meta.url), 'utf8'));
// An empty list is one of hashes and one of logs, so that by its letter no filter could ever be silent.
schemas.FilterResults = { anyOf: schemas.FilterResults.oneOf };
// A schema says what is there; what it does not know is no error of its own.
const ajv = new Ajv.default({ allErrors: true, strict: false, validateFormats: false });
ajv.addSchema({ $id: 'api', components: { schemas } });
const absolute = (schema) => JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"api#/components'));
/** Of each method whether a result is valid; the faults are in `errors`. */
export const valid = Object.fromEntries(
  Object.entries(methods).map(([name, schema]) => [name, ajv.compile(absolute(schema))]),
);

// The schemas do refuse.
assert.ok(valid.eth_chainId('0x1') && !valid.eth_chainId('0x01') && !valid.eth_chainId(1));
assert.ok(!valid.eth_getBlockByNumber({}) && !valid.eth_getTransactionReceipt({ status: '0x1' }));

/** How often each method was answered: with a result, with null, with an error. */
export const counts = Object.fromEntries(Object.keys(methods).map((name) => [name, { result: 0, null: 0, error: 0 }]));
let id = 0;
/** The last error: its number, and all of it for a message. */
let failure = { code: 0, shown: '' };
/** Asks, and holds the answer to the schema: its result, or undefined after an error. */
export const ask = async (method, ...params) => {
  id += 1;
  const body = JSON.stringify({ jsonrpc: '2.0', id, method, params });
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  const answer = await response.json();
  const shown = `${method}(${JSON.stringify(params).slice(0, 300)}): ${JSON.stringify(answer).slice(0, 2_000)}`;
  assert.equal(answer.jsonrpc, '2.0', shown);
  assert.equal(answer.id, id, shown);
  if ('error' in answer) {
    assert.ok(!('result' in answer), shown);
    const { code, message, ...more } = answer.error;
    assert.ok(Number.isInteger(code) && typeof message === 'string' && message !== '', shown);
    assert.deepEqual(Object.keys(more).filter((name) => name !== 'data'), [], shown);
    // Numbers besides those that JSON-RPC reserves are the schema's.
    assert.ok((code >= -32_768 && code <= -32_000) || errors[method]?.includes(code), shown);
    if (counts[method]) counts[method].error += 1;
    failure = { code, shown };
    return undefined;
  }
  const { result } = answer;
  if (valid[method]) {
    const is = valid[method];
    assert.ok(is(result), `${shown}\n${ajv.errorsText(is.errors, { dataVar: 'result' })}`);
    counts[method][result === null ? 'null' : 'result'] += 1;
  }
  return result;
};
/** Asks what must have a result. */
export const result = async (...request) => {
  const answer = await ask(...request);
  assert.notEqual(answer, undefined, failure.shown);
  assert.notEqual(answer, null, `${request[0]} has no result`);
  return answer;
};
/** Asks what must be null. */
export const nothing = async (...request) => assert.equal(await ask(...request), null, JSON.stringify(request));
/** Asks what must fail; returns the error's number. */
export const error = async (...request) => {
  assert.equal(await ask(...request), undefined, JSON.stringify(request));
  return failure.code;
};
/** How many answers of all methods were a `result`, a `null` or an `error`. */
export const sum = (kind) => Object.values(counts).reduce((all, count) => all + count[kind], 0);
