// Llama, and the many models of its shape, SmolLM 1 and 2 among them.
#include "families/decoder_family.h"

namespace penstock::families {

extern constexpr DecoderFamily kLlama = {
    .name = "llama",
    .model_type = "llama",
    .defaults = {.vocab_size = 32000,
                 .hidden_size = 4096,
                 .intermediate_size = 11008,
                 .layers = 32,
                 .heads = 32,
                 .context = 2048,
                 .bos = 1,
                 .eos = 2},
    .attention_bias = true,
    .mlp_bias = true,
    .gguf = {.name = "llama", .interleaved = true, .window_in_all_layers = true},
};

}  // namespace penstock::families
