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
      credentials: 'omit',
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'The server does not answer.');
  }
  if (answer.ok) return answer;
  const message = messageOf(await answer.text(), answer.status);
  if (answer.status === 401 || answer.status === 403) onRefused(answer.status, message);
  throw new ApiError(answer.status, message);
}

export const getJson = async (path, signal) => (await send(path, {signal})).json();
export const postText = async (path, body, signal) => (await send(path, {body, signal})).text();
export const postJson = async (path, body, signal) => (await send(path, {body, signal})).json();

// Server-sent events (WHATWG HTML 9.2) of a request: yields {event, data}, data as text.
export async function* events(path, options) {
  const answer = await send(path, options);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const lines = rest.slice(0, end).split('\n');
      rest = rest.slice(end + 2);
      const found = {event: 'message', data: []};
      for (const line of lines) {
        if (line.startsWith('data:')) found.data.push(line.slice(5).replace(/^ /, ''));
        else if (line.startsWith('event:')) found.event = line.slice(6).trim();
      }
      if (found.data.length) yield {event: found.event, data: found.data.join('\n')};
    }
  }
}
