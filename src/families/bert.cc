// BERT.
#include "families/bert.h"

#include "families/encoder_json.h"

namespace penstock::families {

extern constexpr EncoderFamily kBert = {
    .model_type = "bert",
    .read_json =
        [](const JsonObject& config, EncoderConfig* out) {
          return ReadBertLike(config, {.vocab_size = 30522, .types = 2, .pad = 0}, out);
        },
    .architecture = BertArchitecture("bert."),
    .gguf = {.name = "bert", .class_name = "BertModel"},
};

}  // namespace penstock::families
