// RoBERTa, XLM-RoBERTa and CamemBERT: BERT with positions that begin behind the padding row. Their
// GGUF files say "bert", and leave those first rows out.
#include "families/bert.h"
#include "families/encoder_json.h"

namespace penstock::families {
namespace {

constexpr EncoderArchitecture RobertaArchitecture() {
  EncoderArchitecture out = BertArchitecture("roberta.");
  out.position_scheme = PositionScheme::kPadded;
  out.head = {.dense = "classifier.dense",
              .activation = HiddenActivation::kTanh,
              .classifier = "classifier.out_proj"};
  return out;
}

Status ReadRoberta(const JsonObject& config, EncoderConfig* out) {
  return ReadBertLike(config, {.vocab_size = 50265, .types = 2, .pad = 1}, out);
}
Status ReadXlmRoberta(const JsonObject& config, EncoderConfig* out) {
  return ReadBertLike(config, {.vocab_size = 30522, .types = 2, .pad = 1}, out);
}

}  // namespace

extern constexpr EncoderFamily kRoberta = {
    .model_type = "roberta", .read_json = ReadRoberta, .architecture = RobertaArchitecture()};
extern constexpr EncoderFamily kXlmRoberta = {.model_type = "xlm-roberta",
                                              .read_json = ReadXlmRoberta,
                                              .architecture = RobertaArchitecture()};
extern constexpr EncoderFamily kCamembert = {
    .model_type = "camembert", .read_json = ReadXlmRoberta, .architecture = RobertaArchitecture()};

}  // namespace penstock::families
