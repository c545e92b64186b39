// Checks of a request before any work is done on it. Each Status names the field and the limit.
#pragma once

#include <string>
#include <string_view>

#include "api/service.h"
#include "api/service_metrics.h"
#include "api/types.h"
#include "engine/encoder_engine.h"
#include "registry/registry.h"

namespace penstock::api {

// {"index":1234,"score":0.123456789}, besides the label or document.
inline constexpr int64_t kPrintedScoreBytes = 64;

// kUnprocessable, saying what the model can do, unless it offers the behaviour.
Status CheckTask(const std::string& model, families::ModelTask task, Behaviour behaviour);

// What models of a task offer: "embed, embed_all and similarity".
const char* OfferedBy(families::ModelTask task);

// What a model does and offers, for messages behind its name: "generates text: it offers chat and
// completions".
std::string PurposeText(const engine::ModelPurpose& purpose);
// Why the model of that name takes no tensors, and which one does.
Status CannotInfer(const registry::Registry& registry, const std::string& name);

// Checks that a list of `count` entries is neither empty nor over the limit.
Status CheckCount(size_t count, const char* field, const ServiceOptions& limits);
Status CheckBytes(std::string_view text, const std::string& field, const ServiceOptions& limits);

// The text to put before each input, "" for none. `with_ids`: some inputs are token ids, which take
// no prompt: only an explicit one is an error.
Expected<std::string> ResolvePrompt(const engine::EncoderEngine& engine, const TextOptions& options,
                                    bool with_ids, const ServiceOptions& limits);
// The prompt by its name; kInvalidArgument lists the names the model has.
Expected<std::string> PromptByName(const engine::EncoderEngine& engine, const std::string& name);
// For behaviours that take no prompt.
Status CheckNoPrompt(const TextOptions& options, Behaviour behaviour);

}  // namespace penstock::api
