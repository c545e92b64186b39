// The playground's chat: conversations that are streamed, shown as Markdown and kept by the browser.
import {h, setText, number, ms, percent, copyButton, clock} from './dom.js';
import {events, getJson} from './api.js';
import {chatSnippet, curlLine} from './snippets.js';
import {Markdown, showMarkdown} from './markdown.js';
import {dropChat, keepChat, listChats, readChat} from './chats.js';

const STATE_POLL_MS = 400;  // of a model that may be loaded for an answer
const NEAR_END_PX = 60;
const ASK_AGAIN_MS = 3000;

const field = (label, name, attributes) => h('label', {class: 'field small'}, label, h('input', {type: 'number', name, ...attributes}));
const newChat = () => ({id: Date.now().toString(36) + Math.random().toString(36).slice(2, 8), messages: []});

// What is said until the first token comes.
function waitText(life) {
  if (life?.state === 'waiting') return 'The model waits to be loaded';
  if (life?.state !== 'loading') return 'The model reads the message';
  return `The model is being loaded${life.load_percent === undefined ? '' : `: ${percent(life.load_percent / 100)}`}`;
}

export class Chat {
  constructor(snippets, model, say) {
    this.snippets = snippets;
    this.model = model;  // () => the chosen model's id
    this.say = say;
    this.chat = newChat();
    this.abort = null;
    this.log = h('div', {class: 'chat-log', role: 'log', 'aria-label': 'Conversation', tabindex: '0'});
    this.input = h('textarea', {rows: '3', id: 'chat-input', placeholder: 'Write a message'});
    this.sendButton = h('button', {class: 'main', type: 'submit'}, 'Send');
    this.stopButton = h('button', {class: 'quiet', type: 'button', disabled: true, onclick: () => this.stop()}, 'Stop');
    this.pace = h('p', {class: 'muted small pace', role: 'status'});
    this.system = h('textarea', {rows: '2', id: 'chat-system'});
    const form = h('form', {novalidate: true}, h('label', {for: 'chat-input'}, 'Message'), this.input,
      h('div', {class: 'row compose'}, this.sendButton, this.stopButton,
        field('Temperature', 'temperature', {min: '0', max: '2', step: '0.1', placeholder: 'model’s'}),
        field('Tokens at most', 'max_completion_tokens', {min: '1', step: '1', value: '256'})), this.pace);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.send();
    });
    this.input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    const settings = h('details', {}, h('summary', {}, 'More parameters'),
      h('label', {for: 'chat-system'}, 'System message'), this.system,
      h('div', {class: 'fields'}, field('Top p', 'top_p', {min: '0', max: '1', step: '0.05', placeholder: 'model’s'}),
        field('Seed', 'seed', {min: '0', step: '1', placeholder: 'any'})));
    this.node = h('div', {class: 'chat'}, this.keptRow(), settings, this.log, form);
    this.node.addEventListener('input', () => this.show());
    this.showKept();
  }

  // ---- The conversations
  keptRow() {
    this.kept = h('select', {'aria-label': 'Conversation', onchange: () => this.open(this.kept.value)});
    this.dropButton = h('button', {class: 'quiet', type: 'button', onclick: () => this.drop()});
    addEventListener('storage', () => this.showKept());  // another page of this browser kept or deleted one
    return h('div', {class: 'row kept'}, this.kept,
      h('button', {class: 'quiet', type: 'button', onclick: () => {
        this.begin(newChat());
        this.input.focus();
      }}, 'New chat'), this.dropButton);
  }

  showKept() {
    const chats = listChats();
    const isKept = chats.some((one) => one.id === this.chat.id);
    const option = (id, text) => h('option', {value: id}, text);
    this.kept.replaceChildren(isKept ? '' : option(this.chat.id, 'New chat'),
      ...chats.map((one) => option(one.id, `${one.title || 'Without words'} · ${new Date(one.time).toLocaleDateString('en-GB')} ${clock(one.time).slice(0, 5)}`)));
    this.kept.value = this.chat.id;
    this.kept.hidden = chats.length === 0;
    this.dropButton.hidden = !isKept;
    setText(this.dropButton, 'Delete');
  }

  open(id) {
    const chat = readChat(id);
    if (chat) this.begin({id, messages: chat.messages});
    else this.showKept();
  }

  // Deletes at the second press.
  drop() {
    if (this.dropButton.textContent === 'Delete') {
      setText(this.dropButton, 'Really delete?');
      setTimeout(() => setText(this.dropButton, 'Delete'), ASK_AGAIN_MS);
      return;
    }
    const {chat} = this;
    this.begin(newChat());
    dropChat(chat.id);
    chat.dropped = true;  // so that an answer that ends now does not bring it back
    this.showKept();
  }

  begin(chat) {
    this.stop();
    this.chat = chat;  // another object, by which ask() knows that its conversation is over
    this.log.replaceChildren();
    for (const {role, content, model} of chat.messages) {
      const bubble = this.bubble(role, model);
      if (role === 'user') setText(bubble.text, content);
      else {
        showMarkdown(bubble.text, content);
        this.finish(bubble, content);
      }
    }
    this.log.scrollTop = this.log.scrollHeight;
    setText(this.pace, '');
    this.showKept();
    this.show();
  }

  // ---- A request
  body(text) {
    const system = this.system.value ? [{role: 'system', content: this.system.value}] : [];
    const said = this.chat.messages.map(({role, content}) => ({role, content}));
    const body = {model: this.model(), messages: [...system, ...said, {role: 'user', content: text}], stream: true,
                  stream_options: {include_usage: true}};
    for (const input of this.node.querySelectorAll('input')) {
      if (input.value !== '') body[input.name] = Number(input.value);
    }
    return body;
  }

  show() {
    const body = this.body(this.input.value || 'Hello');
    this.snippets.update(curlLine('v1/chat/completions', body), chatSnippet(body));
  }

  bubble(role, model) {
    const thought = h('p', {class: 'muted thought', hidden: true});
    const text = h('div', {class: role === 'user' ? 'said' : 'md'});
    const wait = h('div', {class: 'muted small wait', role: 'status', hidden: true});
    const actions = h('div', {class: 'row actions', hidden: true});
    const node = h('div', {class: `bubble ${role}`},
      h('span', {class: 'who'}, role === 'user' ? 'You' : model || 'Model'), wait, thought, text, actions);
    this.log.append(node);
    return {node, text, thought, wait, actions};
  }

  // An answer that is whole can be copied; the last one can be asked for again.
  finish({text, actions}, content) {
    for (const other of this.log.querySelectorAll('.retry')) other.remove();
    actions.replaceChildren(copyButton(() => content, 'Copy the reply'),
      h('button', {class: 'quiet mini retry', type: 'button', 'aria-label': 'Ask for the reply again', onclick: () => this.retry()}, 'Retry'));
    actions.hidden = false;
    if (!content) text.append(h('p', {class: 'muted'}, 'The model wrote nothing.'));
  }

  async send() {
    const text = this.input.value.trim();
    if (!text || this.abort) return;
    const {chat} = this;
    const question = this.bubble('user');
    setText(question.text, text);
    this.input.value = '';
    if (await this.ask(text)) return;
    // A message that got no answer is no part of the conversation: the next request would carry it as
    // well, and fail as this one did. Its text goes back into the field, before what was typed meanwhile.
    question.node.remove();
    if (this.chat !== chat) return;
    this.input.value = [text, this.input.value].filter(Boolean).join('\n');
    this.show();
  }

  // Asks for the last answer again, and keeps it where no other one comes.
  async retry() {
    if (this.abort) return;
    const {chat} = this;
    const [question, answer] = chat.messages.splice(-2);
    const old = this.log.lastElementChild;
    old.hidden = true;
    if (await this.ask(question.content)) return old.remove();
    chat.messages.push(question, answer);
    old.hidden = false;
    if (this.chat === chat) this.show();
  }

  async tellWait(wait, model, signal) {
    wait.hidden = false;
    setText(wait, waitText());
    while (!wait.hidden && !signal.aborted) {
      try {
        const {data} = await getJson('v1/models', signal);
        setText(wait, waitText(data.find((one) => one.id === model)?.lifecycle));
      } catch {
        return;  // the answer says what is wrong
      }
      await new Promise((go) => setTimeout(go, STATE_POLL_MS));
    }
  }

  // Whether an answer came, if only a part of one; else its bubble is gone.
  async ask(text) {
    const {chat} = this;
    const current = () => this.chat === chat;  // until another conversation is shown
    const body = this.body(text);
    this.snippets.update(curlLine('v1/chat/completions', body), chatSnippet(body));
    const answer = this.bubble('assistant', body.model);
    let near = true;
    const markdown = new Markdown(answer.text, () => {
      if (near) this.log.scrollTop = this.log.scrollHeight;
    });
    this.abort = new AbortController();
    const {signal} = this.abort;
    this.busy(true);
    this.tellWait(answer.wait, body.model, signal);
    this.log.scrollTop = this.log.scrollHeight;
    const begin = performance.now();
    let first = 0, last = 0, parts = 0, content = '', why = '', failed = false;
    const pace = (tokens, now) => {
      const rate = tokens > 1 ? (tokens - 1) / ((now - first) / 1000) : null;
      const times = first ? `, first after ${ms(first - begin)}, then ${number(rate)} tokens/s` : '';
      if (current()) setText(this.pace, `${number(tokens)} tokens${times}${why}`);
    };
    try {
      for await (const {data} of events('v1/chat/completions', {body, signal})) {
        if (data === '[DONE]') break;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Error(chunk.error.message);
        const delta = chunk.choices[0]?.delta;
        const piece = delta?.content || '', thought = delta?.reasoning_content || '';
        if (piece || thought) {
          last = performance.now();
          if (!first) first = last;
          ++parts;
          answer.wait.hidden = true;
          near = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR_END_PX;
          content += piece;
          markdown.write(piece);
          answer.thought.append(thought);
          if (thought) answer.thought.hidden = false;
          pace(parts, last);
        }
        if (chunk.choices[0]?.finish_reason === 'length') why = '; the limit of tokens was reached';
        if (chunk.usage && first) pace(chunk.usage.completion_tokens, last);
      }
    } catch (error) {
      failed = true;
      if (error.name === 'AbortError') {
        why = '; stopped';
        pace(parts, performance.now());
      } else if (current()) {
        this.say(error.message);
      }
    }
    answer.wait.hidden = true;
    markdown.end();
    const answered = !failed || content !== '';
    if (answered) {
      chat.messages.push({role: 'user', content: text}, {role: 'assistant', content, model: body.model});
      if (current()) this.finish(answer, content);
      if (near) this.log.scrollTop = this.log.scrollHeight;
      const full = !chat.dropped && !keepChat(chat);
      if (current() && full) this.say('This browser does not keep this conversation: it is too long, or nothing may be kept.');
      this.showKept();
    } else {
      answer.node.remove();
    }
    this.abort = null;
    this.busy(false);
    return answered;
  }

  busy(on) {
    this.log.setAttribute('aria-busy', String(on));
    this.sendButton.disabled = on;
    this.stopButton.disabled = !on;
  }

  stop() {
    if (!this.abort) return;
    this.abort.abort();
    this.input.focus();
  }
}
