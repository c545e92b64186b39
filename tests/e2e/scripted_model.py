"""A model folder that says what a test wants, so that calls of tools can be tested over HTTP.

It is a Llama whose layers add nothing: the next token depends on the last one alone, by a table.
A script is a text that begins it (the end of a prompt) and the pieces that follow, a token each.
"""
import array
import json
import pathlib
import struct

TINY = pathlib.Path(__file__).resolve().parents[1] / "golden" / "decoders" / "llama"
WIDTH, HEADS, HEAD_SIZE, INNER = 320, 2, 16, 32
END = 257  # <|end|> of TINY's tokenizer
CONTEXT = 1024


def write(folder, scripts, template, special=()):
    """`scripts`: the begin, and its pieces. A piece may stand in one script alone, and once in it.

    `special`: the pieces that are special tokens. The model's name is that of the folder.
    """
    tokenizer = json.loads((TINY / "tokenizer.json").read_text())
    ids, after = {}, {}
    for begin, pieces in scripts.items():
        before = None
        for piece in (begin, *pieces):
            assert piece not in ids, f"{piece!r} stands in the scripts twice"
            ids[piece] = 260 + len(ids)
            after[before] = ids[piece]
            before = ids[piece]
        after[before] = END
    after.pop(None)
    tokenizer["added_tokens"] += [
        {"id": token, "content": piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": piece in special or piece in scripts} for piece, token in ids.items()]
    tokenizer["post_processor"] = None
    vocabulary = 260 + len(ids)
    assert vocabulary <= WIDTH
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "chat_template.jinja").write_text(template)
    config = json.loads((TINY / "config.json").read_text())
    config.update(vocab_size=vocabulary, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=1,
                  num_attention_heads=HEADS, num_key_value_heads=1, head_dim=HEAD_SIZE, torch_dtype="float32",
                  max_position_embeddings=CONTEXT)
    (folder / "config.json").write_text(json.dumps(config))
    write_weights(folder / "model.safetensors", vocabulary, after)
    return folder


def write_weights(path, vocabulary, after):
    ones = array.array("f", [1]) * WIDTH
    embedding = array.array("f", [0]) * (vocabulary * WIDTH)  # a token is its number
    head = array.array("f", [0]) * (vocabulary * WIDTH)
    for token in range(vocabulary):
        embedding[token * WIDTH + token] = 1
        head[after.get(token, END) * WIDTH + token] = 1
    layer = "model.layers.0."
    tensors = {"model.embed_tokens.weight": ((vocabulary, WIDTH), embedding),
               "lm_head.weight": ((vocabulary, WIDTH), head), "model.norm.weight": ((WIDTH,), ones),
               layer + "input_layernorm.weight": ((WIDTH,), ones),
               layer + "post_attention_layernorm.weight": ((WIDTH,), ones)}
    for name, rows, columns in (("self_attn.q_proj", HEADS * HEAD_SIZE, WIDTH), ("self_attn.k_proj", HEAD_SIZE, WIDTH),
                                ("self_attn.v_proj", HEAD_SIZE, WIDTH), ("self_attn.o_proj", WIDTH, HEADS * HEAD_SIZE),
                                ("mlp.gate_proj", INNER, WIDTH), ("mlp.up_proj", INNER, WIDTH),
                                ("mlp.down_proj", WIDTH, INNER)):
        tensors[f"{layer}{name}.weight"] = ((rows, columns), array.array("f", [0]) * (rows * columns))
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = values.tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head_bytes = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head_bytes)) + head_bytes + data)


# The form of Hermes and Qwen, with thinking: the model is asked, calls, and answers once it is told.
TEMPLATE = """\
{%- if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>{% endif -%}
{%- for message in messages %}
{{- '<|turn|>' + message.role + '\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson)
    + '}</tool_call>' }}
{%- endfor %}
{{- '<|end|>\\n' }}
{%- endfor %}
{#- Thoughts end with </think>. #}
{%- if add_generation_prompt %}
{{- '<|told|>' if messages[-1].role == 'tool' else '<|asked|>' if tools else '<|chat|>' }}
{%- endif %}"""
SCRIPTS = {
    "<|asked|>": ["<think>", "Ask ", "the ", "station.", "</think>", "Let me ", "look.", "<tool_call>",
                  "\n{\"name\": \"weath", "er\", \"arguments\": {\"at", "\": \"Ulm", "\"}}\n", "</tool_call>"],
    "<|told|>": ["It ", "rains ", "in Ulm."],
    "<|chat|>": ["Good ", "day."],
}
SPECIAL = ("<think>", "</think>", "<tool_call>", "</tool_call>")


def write_weather(folder):
    """Calls weather(at="Ulm") if it is given tools and asked, then says that it rains."""
    return write(folder, SCRIPTS, TEMPLATE, SPECIAL)
