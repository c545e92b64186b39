// Phi-3: q, k and v in one tensor, gate and up in another; longrope, which older files call "su" or
// "yarn".
#include "families/decoder_family.h"

namespace penstock::families {

extern constexpr DecoderFamily kPhi3 = {
    .name = "phi3",
    .model_type = "phi3",
    .defaults = {.vocab_size = 32064,
                 .hidden_size = 3072,
                 .intermediate_size = 8192,
                 .layers = 32,
                 .heads = 32,
                 .context = 4096,
                 .original_context = 4096,
                 .rms_epsilon = 1e-5,
                 .bos = 1,
                 .eos = 32000,
                 .pad = 32000},
    .tensors = {.qkv = "self_attn.qkv_proj", .gate_up = "mlp.gate_up_proj"},
    .yarn_is_longrope = true,
    .has_window = [](const WindowSettings&, const DecoderLayerConfig&, size_t) { return true; },
    .gguf = {.name = "phi3", .window_in_all_layers = true},
};

}  // namespace penstock::families
