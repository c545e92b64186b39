// The routes of text-generation-inference.
#include "dialects/shared/answer.h"
#include "dialects/shared/event_stream.h"
#include "dialects/shared/rows.h"
#include "dialects/tgi/tgi.h"

namespace penstock::dialects {

using serving::About;
using serving::Route;
using serving::RouteCall;

void AnswerTgi(const RouteCall& call, const JsonObject& object, bool streams) {
  auto parsed = ParseTgiCall(object, streams);
  if (!parsed.ok()) return call.Fail(parsed.status());
  auto printer = NewTgiPrinter(*parsed);
  AnswerWithText(call, std::move(parsed->request), std::move(printer),
                 {{"max_tokens", "parameters.max_new_tokens"}});
}

namespace {

template <bool kStreams>
void Generate(const RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  AnswerTgi(call, body->object(), kStreams);
}

constexpr Route kTgiRoutes[] = {
    {"POST", "/generate", kTeiErrors, Generate<false>,
     About("A text that goes on after another, as text-generation-inference has it", "TgiRequest",
           "TgiText")},
    {"POST", "/generate_stream", kTeiErrors, Generate<true>,
     About("The same, as events", "TgiRequest", "TgiEvent", "TgiEvent")},
};

}  // namespace

std::span<const serving::Route> TgiRoutes() { return kTgiRoutes; }

}  // namespace penstock::dialects
