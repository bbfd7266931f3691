// The stream of samples: reads /dashboard/live, and reconnects when it ends.

/** Pause between two attempts. */
const AGAIN_MS = 1000;
/** A node that sends nothing for this long has stopped, or is unreachable. */
const SILENT_MS = 5000;

/** Calls `onSample` with every sample, and `state` with `live`, `gone` or `refused` (and why) when that changes. */
export async function follow(onSample, state) {
  for (;;) {
    try {
      await once(onSample, state);
    } catch {
      // Whatever the error, the node is not connected.
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

async function once(onSample, state) {
  const gone = new AbortController();
  let silence;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => gone.abort(), SILENT_MS);
  };
  heard();
  try {
    const answer = await fetch('/dashboard/live', { signal: gone.signal, cache: 'no-store' });
    if (!answer.ok) {
      state('refused', (await answer.text()).trim() || `HTTP ${answer.status}`);
      return;
    }
    for await (const event of events(answer.body)) {
      heard();
      if (event === '') continue;
      state('live');
      onSample(JSON.parse(event));
    }
    state('gone');
  } catch (error) {
    state('gone');
    throw error;
  } finally {
    clearTimeout(silence);
    gone.abort();
  }
}

/** The data of a server-sent event; '' if it has none. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n');
      text = text.slice(end + 2);
      yield lines.filter((line) => line.startsWith('data: ')).map((line) => line.slice(6)).join('\n');
    }
  }
}
