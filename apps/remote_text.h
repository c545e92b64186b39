// Text that a server generates, as it comes: by OpenAI's routes, which most servers have.
#pragma once

#include <functional>
#include <string>

#include "client/server_client.h"
#include "decoder_flags.h"
#include "generate/generated.h"
#include "json/json_writer.h"
#include "reply/reply_parser.h"

namespace penstock::cli {

struct RemoteText {
  generate::FinishReason finish = generate::FinishReason::kStop;
  // -1: the server did not say.
  int64_t prompt_tokens = -1, cached_tokens = -1, completion_tokens = -1;
};

// Posts `body`, which asks for a stream, to /v1/chat/completions or /v1/completions, and passes
// each delta to the caller as it arrives. kCancelled: the client was stopped. kInternal: the stream
// ended early, or the answer is not a stream of events.
Expected<RemoteText> StreamText(client::ServerClient* client, const std::string& path,
                                const std::string& body,
                                const std::function<void(const reply::ReplyDelta&)>& on_delta);

// The settings that were given, as fields of an object that is open. What was not is the server's.
void WriteSampling(const SamplingFlags& flags, JsonWriter* json);

}  // namespace penstock::cli
