"""The decoders of tests/golden/decoders, for make_decoder_goldens.py.

`config` is config.json as it is written: mostly as published models have it (rope_theta and
rope_scaling), some as transformers 5 saves it (rope_parameters, layer_types).
"""

import copy

VOCABULARY = 96
POSITIONS = 256

SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": POSITIONS,
    "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}


def decoder(about, model_type, classes, config, **more):
    """`more`: dtype of the weights; context that the model is to be loaded with; prompt, tokens before
    the generated ones; norms, the mean of their weights; embedding, how far its values spread.
    """
    whole = {"architectures": [classes], "model_type": model_type, **copy.deepcopy(SIZES), **config}
    # A key that is None is left out; "null" is written as null.
    whole = {key: None if value == "null" else value for key, value in whole.items() if value is not None}
    whole["torch_dtype"] = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[more.get("dtype", "BF16")]
    return {"about": about, "config": whole, **more}


def llama(about, config, **more):
    return decoder(about, "llama", "LlamaForCausalLM", {"hidden_act": "silu", "rope_theta": 1e4, **config}, **more)


def phi3(about, config, **more):
    return decoder(about, "phi3", "Phi3ForCausalLM", {
        "hidden_act": "silu", "num_attention_heads": 2, "num_key_value_heads": 1, "rope_theta": 1e4,
        "sliding_window": "null", **config}, **more)


# Phi-4-mini's scaling for heads of 16 of which 8 values are rotated; the factors rise as in it.
LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.05, 1.25, 1.6], "long_factor": [1.0, 1.8, 9.5, 21.0]}

DECODERS = {
    "llama": llama(
        "two heads share keys and values; weights that F16 and Q8_0 hold exactly; a tokenizer of bytes",
        {"vocab_size": 260, "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258},
        dtype="F16", tokenizer=True, prompt_text="The quick brown fox"),
    "llama_biases": llama("biases of attention and feed-forward; one head of keys and values",
                          {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1}),
    "llama_linear": llama("rotary scaling linear; the output is the embedding",
                          {"rope_scaling": {"type": "linear", "factor": 4.0}, "tie_word_embeddings": True}),
    "llama_llama3": llama(
        "rotary scaling llama3: frequencies kept, mixed and divided; heads of 32 in a model of 64",
        {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2, "head_dim": 32,
         "rope_theta": 1e3,
         "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 64}}),
    "llama_yarn": llama(
        "rotary scaling yarn with borders inside; rope_parameters as transformers 5 writes them",
        {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "rope_theta": None,
         "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e3, "factor": 4.0, "beta_fast": 4.0, "beta_slow": 1.0,
                             "original_max_position_embeddings": 64}}),
    "mistral": decoder(
        "window of 16 tokens in every layer; heads that together are wider than the model",
        "mistral", "MistralForCausalLM",
        {"hidden_act": "silu", "rope_theta": 1e4, "head_dim": 24, "sliding_window": 16}, dtype="F16"),
    "smollm3": decoder(
        "the second layer has no rotary embedding", "smollm3", "SmolLM3ForCausalLM",
        {"hidden_act": "silu", "rope_theta": 5e4, "no_rope_layers": [1, 0, 1], "no_rope_layer_interval": 2,
         "use_sliding_window": False, "sliding_window": "null", "tie_word_embeddings": True}),
    "granite": decoder(
        "multipliers of embedding, attention, residual and logits", "granite", "GraniteForCausalLM",
        {"hidden_act": "silu", "rope_theta": 1e4, "embedding_multiplier": 3.0, "attention_multiplier": 0.21,
         "residual_multiplier": 0.7, "logits_scaling": 1.6, "attention_bias": False, "mlp_bias": False}),
    "qwen2": decoder(
        "biases of q, k and v", "qwen2", "Qwen2ForCausalLM",
        {"hidden_act": "silu", "rope_theta": 1e6, "sliding_window": 32, "use_sliding_window": False,
         "max_window_layers": 1}),
    "qwen2_windows": decoder(
        "biases of q, k and v; a window of 24 tokens from the second layer on", "qwen2", "Qwen2ForCausalLM",
        {"hidden_act": "silu", "rope_theta": 1e4, "sliding_window": 24, "use_sliding_window": True,
         "max_window_layers": 1, "tie_word_embeddings": True}),
    "qwen3": decoder(
        "norms of every head of q and k; heads that together are wider than the model", "qwen3", "Qwen3ForCausalLM",
        {"hidden_act": "silu", "rope_theta": 1e6, "head_dim": 16, "num_hidden_layers": 2, "attention_bias": False,
         "sliding_window": "null", "use_sliding_window": False, "max_window_layers": 2}, dtype="F32"),
    "gemma2": decoder(
        "caps of scores and logits, windows of 16 in every other layer, norms after attention and feed-forward",
        "gemma2", "Gemma2ForCausalLM",
        {"hidden_activation": "gelu_pytorch_tanh", "rope_theta": 1e4, "head_dim": 16, "sliding_window": 16,
         "query_pre_attn_scalar": 12, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 8.0,
         "tie_word_embeddings": True}, norms=0.0, embedding=0.05),
    "gemma3": decoder(
        "two thetas, linear scaling in the layer without a window, norms of heads; config as published",
        "gemma3_text", "Gemma3ForCausalLM",
        {"hidden_activation": "gelu_pytorch_tanh", "rope_theta": 1e5, "rope_local_base_freq": 1e3, "head_dim": 16,
         "sliding_window": 16, "sliding_window_pattern": 3, "query_pre_attn_scalar": 20,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "tie_word_embeddings": True},
        norms=0.0, embedding=0.05),
    "gemma3_new_config": decoder(
        "full attention first; layer_types and rope_parameters as transformers 5 writes them",
        "gemma3_text", "Gemma3ForCausalLM",
        {"hidden_activation": "gelu_pytorch_tanh", "head_dim": 16, "num_hidden_layers": 2, "sliding_window": 16,
         "layer_types": ["full_attention", "sliding_attention"], "query_pre_attn_scalar": 20,
         "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e5},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 1e3}},
         "tie_word_embeddings": True},
        norms=0.0, embedding=0.05),
    "phi3": phi3("fused tensors, half of each head rotated, a window of 24 tokens",
                 {"partial_rotary_factor": 0.5, "sliding_window": 24, "original_max_position_embeddings": POSITIONS}),
    "phi3_longrope_short": phi3(
        "rotary scaling longrope, texts up to the original context: short factors",
        {"partial_rotary_factor": 0.5, "rope_scaling": LONGROPE, "original_max_position_embeddings": 160,
         "max_position_embeddings": 640}),
    "phi3_longrope_long": phi3(
        "rotary scaling longrope, texts beyond the original context: long factors",
        {"partial_rotary_factor": 0.5, "rope_scaling": LONGROPE, "original_max_position_embeddings": 12}, prompt=16),
}
