"""openvino-genai, which reads GGUF by itself."""
import numpy as np
import openvino
import openvino_genai


def variants():
    return ["PA", "SDPA"]  # its two forms of attention


def measure(file, text, ids, tokens, threads, variant, repeats):
    options = {"ATTENTION_BACKEND": variant, "INFERENCE_NUM_THREADS": threads}
    if variant == "PA":
        # Else a prompt that was seen before costs nothing.
        options["scheduler_config"] = openvino_genai.SchedulerConfig()
        options["scheduler_config"].enable_prefix_caching = False
    pipe = openvino_genai.LLMPipeline(file, "CPU", **options)
    config = openvino_genai.GenerationConfig()
    config.do_sample = False
    config.ignore_eos = True

    def generate(some, count):
        config.max_new_tokens = count
        row = np.array([some], np.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(row), openvino.Tensor(np.ones_like(row)))
        metrics = pipe.generate(inputs, config).perf_metrics
        if metrics.get_num_generated_tokens() != count:
            raise RuntimeError(f"{metrics.get_num_generated_tokens()} tokens instead of {count}")
        return metrics

    generate(ids[:64], 4)
    out = {"prefill": [], "decode": [], "prompt_tokens": len(ids)}
    for _ in range(repeats):
        metrics = generate(ids, tokens)
        out["prefill"].append(len(ids) * 1e3 / metrics.get_ttft().mean)
        if tokens > 1:
            out["decode"].append(1e3 / metrics.get_tpot().mean)
    return out
