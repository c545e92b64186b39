// Mistral: all layers have the window. Its GGUF files say "llama".
#include "families/config_fields.h"
#include "families/decoder_family.h"
#include "families/decoder_json.h"

namespace penstock::families {

extern constexpr DecoderFamily kMistral = {
    .name = "mistral",
    .model_type = "mistral",
    .defaults = {.vocab_size = 32000,
                 .hidden_size = 4096,
                 .intermediate_size = 14336,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 8,
                 .context = 131072,
                 .bos = 1,
                 .eos = 2,
                 .window = 4096},
    .has_window = [](const WindowSettings&, const DecoderLayerConfig&, size_t) { return true; },
    .read_json = [](const JsonSource& from,
                    DecoderConfig*) { return RefuseIfSet(from.model, {"layer_types"}); },
};

}  // namespace penstock::families
