// Requests to the server, with the key. The key stays in this tab (sessionStorage) and goes nowhere
// but into the Authorization header; events are read by fetch, since EventSource sends no headers.

const KEY = 'penstock-key';

export const key = {
  get: () => sessionStorage.getItem(KEY) || '',
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Called with the status when a key is missing (401) or not an administrator's (403).
let onRefused = () => {};
export const whenRefused = (call) => (onRefused = call);

export const isRefused = (error) => error.status === 401 || error.status === 403;

function messageOf(text, status) {
  try {
    const body = JSON.parse(text);
    return (body.error && body.error.message) || body.message || body.error || text;
  } catch {
    return text || `the server answered ${status}`;
  }
}

async function send(path, options = {}) {
  const headers = {...options.headers};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(path, {
      method: options.body === undefined ? 'GET' : 'POST',
      headers,
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
      cache: 'no-store',
      credentials: 'same-origin',  // a proxy may want a client's certificate or a password
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'The server does not answer.');
  }
  if (answer.ok) return answer;
  const message = messageOf(await answer.text(), answer.status);
  const error = new ApiError(answer.status, message);
  if (isRefused(error)) onRefused(error.status, message);
  throw error;
}

export const getJson = async (path, signal) => (await send(path, {signal})).json();
export const postText = async (path, body, signal) => (await send(path, {body, signal})).text();
export const postJson = async (path, body, signal) => (await send(path, {body, signal})).json();

// Reads the data of the tab `root` again and again while it is seen. read() may give the milliseconds
// until the next time, else it is `every`; fail(message) shows an error. What is returned begins it: when
// the tab is shown anew or a key was given. A refusal ends it until then, since each refusal asks for
// the key or says what is forbidden, and a user who has closed that has answered.
export function poller(root, every, read, fail) {
  let timer = 0, turn = 0, refused = false;
  const seen = () => !root.hidden && !document.hidden;
  async function poll() {
    const mine = ++turn;
    clearTimeout(timer);
    let wait = every, failed = null;
    try {
      wait = await read() || every;
    } catch (error) {
      failed = error;
    }
    if (mine !== turn) return;  // a later poll, perhaps with another key, says how it goes on
    refused = failed !== null && isRefused(failed);
    if (failed) fail(failed.message);
    if (!refused) timer = setTimeout(() => seen() && poll(), wait);
  }
  document.addEventListener('visibilitychange', () => seen() && !refused && poll());
  return poll;
}

// The parts of an answer that come one after the other, each ended by `end`. Calls options.heard, if there
// is one, whenever something comes.
async function* parts(path, options, end) {
  const answer = await send(path, options);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    if (options.heard) options.heard();
    const found = (rest + value).split(end);
    rest = found.pop();
    yield* found;
  }
}

// Lines of JSON of a request.
export async function* jsonLines(path, options) {
  for await (const line of parts(path, options, '\n')) if (line) yield JSON.parse(line);
}

// Server-sent events (WHATWG HTML 9.2) of a request: yields {event, data}, data as text.
export async function* events(path, options) {
  for await (const part of parts(path, options, '\n\n')) {
    const found = {event: 'message', data: []};
    for (const line of part.split('\n')) {
      if (line.startsWith('data:')) found.data.push(line.slice(5).replace(/^ /, ''));
      else if (line.startsWith('event:')) found.event = line.slice(6).trim();
    }
    if (found.data.length) yield {event: found.event, data: found.data.join('\n')};
  }
}
