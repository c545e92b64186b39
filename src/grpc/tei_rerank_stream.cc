#include "grpc/tei_rerank_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/service.h"
#include "common/exception_status.h"
#include "grpc/tei_calls.h"

namespace penstock {

void TeiRerankStream::Start(GrpcFrontEnd* front_end, int32_t method,
                            const std::shared_ptr<Rpc>& rpc, Expected<std::string> model) {
  StartCall(std::shared_ptr<TeiRerankStream>(new TeiRerankStream(front_end, rpc, std::move(model))),
            method);
}

// The next message is read after this, so one thread at a time is here.
void TeiRerankStream::OnParsed(TeiRerankItem* item) {
  if (count_ == 0) {
    raw_scores_ = item->request.raw_scores();
    return_text_ = item->request.return_text();
  }
  item->request.set_raw_scores(raw_scores_);
  item->rank.set_index(count_++);
}

void TeiRerankStream::Work(const std::shared_ptr<StreamRequest>& request,
                           const StreamReply& reply) {
  if (!model_.ok()) return reply.End(model_.status());
  auto* const item = static_cast<TeiRerankItem*>(request.get());
  if (!item->parsed.ok()) return reply.End(item->parsed);
  RunTei(front_end_->service(), *model_, &item->request, reply, [=](const RerankResponse& result) {
    const float score = result.items.at(0).score;
    reply.Print(0,
                [item, score, tokens = result.usage.prompt_tokens, trace = reply.context().trace] {
                  item->rank.set_score(score);
                  item->work = TeiWorkOf(TeiChars(item->request), tokens, trace.get());
                });
  });
}

// Keeps the rank for the answer.
Expected<OrderedStream::Written> TeiRerankStream::Write(StreamRequest* request) {
  TeiRerankItem& item = *static_cast<TeiRerankItem*>(request);
  if (return_text_) item.rank.set_allocated_text(item.request.release_text());
  const size_t bytes = sizeof(tei::v1::Rank) + item.rank.ByteSizeLong();
  PENSTOCK_RETURN_IF_ERROR(call_.context().memory->Take(static_cast<int64_t>(bytes)));
  answer_bytes_ += static_cast<int64_t>(item.rank.ByteSizeLong());
  const int64_t bytes_max = front_end_->service()->options().response_bytes;
  if (answer_bytes_ > bytes_max) {
    return Status(
        StatusCode::kPayloadTooLarge,
        fmt::format("the ranks have more than {} bytes (--max-response-bytes)", bytes_max));
  }
  response_.add_ranks()->Swap(&item.rank);
  work_.chars += item.work.chars;
  work_.tokens += item.work.tokens;
  work_.tokenize_ns += item.work.tokenize_ns;
  work_.queue_ns += item.work.queue_ns;
  work_.inference_ns += item.work.inference_ns;
  return Written::kDone;
}

Status TeiRerankStream::FillAnswer(std::optional<RpcMessage>* message) {
  const int64_t count = response_.ranks_size();
  if (count == 0) return Status::InvalidArgument("the stream has no texts", "text");
  // In the order of the stream so far, which ties keep.
  std::stable_sort(response_.mutable_ranks()->pointer_begin(),
                   response_.mutable_ranks()->pointer_end(),
                   [](const auto* a, const auto* b) { return a->score() > b->score(); });
  TeiWork work = TeiWorkOf(work_.chars, work_.tokens, call_.context().trace.get());
  // Of a text, as TEI has it: the texts were worked on side by side.
  work.tokenize_ns = work_.tokenize_ns / count;
  work.queue_ns = work_.queue_ns / count;
  work.inference_ns = work_.inference_ns / count;
  ToTei(work, response_.mutable_metadata());
  auto printed = Printed(response_);
  if (printed.ok()) *message = *std::move(printed);
  return printed.status();
}

void TeiRerankStream::Close(const Status& status) {
  Status end = status;
  std::optional<RpcMessage> message;
  if (end.ok()) {
    try {
      end = FillAnswer(&message);
    } catch (...) {
      end = ExceptionStatus();
    }
  }
  CloseWith(end, std::move(message));
}

}  // namespace penstock
