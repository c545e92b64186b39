// Conversations that this browser keeps (localStorage), and nobody else has. Each has a key of its own,
// so that two pages do not overwrite each other's. Together they take at most BYTES_MAX: the oldest go first.
const PREFIX = 'penstock-chat-';
const BYTES_MAX = 2 << 20;  // browsers allow about 5 MiB
const TITLE_MAX = 48;

const sizeOf = (key, value) => 2 * (key.length + value.length);  // UTF-16

const isMessage = (one) => (one?.role === 'user' || one?.role === 'assistant') && typeof one.content === 'string';

// Null: there is none, or something else stands there.
export function readChat(id) {
  try {
    const {time, messages} = JSON.parse(localStorage.getItem(PREFIX + id));
    return Array.isArray(messages) && messages.length > 0 && messages.every(isMessage) ? {id, time: Number(time), messages} : null;
  } catch {
    return null;
  }
}

// Those that are kept, newest first: [{id, time, title, bytes}].
export function listChats() {
  const found = [];
  try {
    for (let i = 0; i < localStorage.length; ++i) {
      const name = localStorage.key(i);
      if (!name.startsWith(PREFIX)) continue;
      const chat = readChat(name.slice(PREFIX.length));
      const title = (chat?.messages[0].content || '').replace(/\s+/g, ' ').trim();
      found.push({id: name.slice(PREFIX.length), time: chat?.time || 0, bytes: sizeOf(name, localStorage.getItem(name)),
                  title: title.length > TITLE_MAX ? `${title.slice(0, TITLE_MAX)}…` : title});
    }
  } catch {  // the browser keeps nothing
  }
  return found.sort((a, b) => b.time - a.time);
}

export function dropChat(id) {
  try {
    localStorage.removeItem(PREFIX + id);
  } catch {  // nothing is kept
  }
}

// False: it is too long, or the browser keeps nothing.
export function keepChat({id, messages}) {
  const value = JSON.stringify({time: Date.now(), messages});
  const others = listChats().filter((one) => one.id !== id);
  let free = BYTES_MAX - sizeOf(PREFIX + id, value);
  if (free < 0) return false;
  const fitting = others.findIndex((one) => (free -= one.bytes) < 0);
  if (fitting >= 0) others.splice(fitting).forEach((one) => dropChat(one.id));
  for (;;) {
    try {
      localStorage.setItem(PREFIX + id, value);
      return true;
    } catch {  // other data of this address may fill the browser's own limit
      if (others.length === 0) return false;
      dropChat(others.pop().id);
    }
  }
}
