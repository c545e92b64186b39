#include "dialects/shared/embed_lines.h"

#include <algorithm>

#include "dialects/shared/event_pump.h"
#include "frontend/request_policy.h"
#include "http/accept.h"
#include "http/stream.h"
#include "http/stream_formats.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

using serving::ErrorBody;
using serving::PrintError;
using serving::RouteCall;

// A part of the body is about a quarter of what may be unread, so that some are under way.
constexpr int64_t kPartsOfUnread = 4;
// Parts under way at once: one with the model, one on its way there. More would fill the model's
// queue where many streams begin at once.
constexpr int64_t kPartsOutMax = 2;

int64_t PartBytes(const RouteCall& call) {
  return std::max<int64_t>(1, call.options->stream_unread_bytes_max / kPartsOfUnread);
}

// Takes rows from the Service, prints them on a worker and hands them to the connection. Starts
// parts while the bytes under way and unread stay below the bound.
//
// The EmbedEnd is the last event and releases everything.
class LinePump final : public EventPump {
 public:
  LinePump(const RouteCall& call, const EmbeddingFormat& format, frontend::FieldNames names)
      : EventPump(call.service, call.request->context.priority, PartBytes(call)),
        service_(call.service),
        request_(call.request),
        respond_(call.respond),
        error_body_(call.route->error_body),
        writer_(format),
        number_bytes_(PrintedNumberBytes(format)),
        names_(std::move(names)),
        unread_max_(call.options->stream_unread_bytes_max),
        part_bytes_(PartBytes(call)) {}

  // Instead of Start.
  void Refuse(const Status& why) {
    respond_.Send(PrintError(error_body_, frontend::WithWireNames(why, names_), request_->id));
  }

  void Start(api::EmbedRequest request) {
    // The sink holds this object until the EmbedEnd is taken.
    sink_ = std::make_shared<api::Sink<api::EmbedEvent>>(api::EmbedStream::kEvents, Waker());
    api::EmbedPartOptions options;
    options.part_bytes = part_bytes_;
    options.printed_value_bytes = number_bytes_;
    Hold();  // early events wait
    try {
      parts_ = service_->EmbedInParts(std::move(request), request_->context, options, sink_);
    } catch (...) {
      sink_.reset();
      throw;
    }
    if (parts_ != nullptr && !RunGuarded("stream", [this] { StartParts(); })) Lose();
    // Rows are printed on a worker. A refusal is in the sink already.
    Resume();
  }

 private:
  void Drain() override {
    while (sink_ != nullptr) {
      auto event = sink_->Pop();
      if (!event) break;
      if (auto* const rows = std::get_if<api::EmbedRows>(&*event)) {
        --parts_out_;
        Write(std::move(*rows));
      } else {
        End(std::get<api::EmbedEnd>(*event));
      }
    }
    if (parts_ != nullptr) StartParts();
  }

  void Write(api::EmbedRows rows) {
    if (stream_ == nullptr) {
      if (lost_) return;
      http::HttpResponse head;
      head.content_type = http::kNdjsonType;
      AddRunStages(*service_, &head);
      stream_ = respond_.Begin(std::move(head), Waker());
    }
    if (stream_->gone()) return;
    const auto dimensions = static_cast<size_t>(rows.dimensions);
    const size_t count = rows.values.size() / dimensions;
    std::string text;
    text.reserve(rows.values.size() * static_cast<size_t>(number_bytes_) + count * 48);
    for (size_t i = 0; i < count; ++i) {
      AppendEmbeddingLine(rows.first + i,
                          std::span(rows.values).subspan(i * dimensions, dimensions), &writer_,
                          &text);
    }
    std::vector<float>().swap(rows.values);
    // From here on the text is what the part holds.
    if (rows.memory) rows.memory->Give(rows.memory->held() - static_cast<int64_t>(text.size()));
    stream_->Write(text, static_cast<int64_t>(count), std::move(rows.memory));
  }

  void StartParts() {
    if (stream_ != nullptr && stream_->gone()) {
      return parts_->Stop({StatusCode::kCancelled, "the client left"});
    }
    if (lost_) return parts_->Stop(MakeStatus(StatusCode::kInternal, "the stream was lost"));
    if (Status wanted = request_->context.CheckWanted(
            Clock::now(), "the request's time ran out before all of it was answered");
        !wanted.ok()) {
      return parts_->Stop(std::move(wanted));
    }
    while (parts_out_ < kPartsOutMax) {
      const int64_t unread = stream_ == nullptr ? 0 : static_cast<int64_t>(stream_->unread());
      const int64_t part_bytes = parts_->part_bytes();
      const int64_t held = parts_out_ * part_bytes + unread;
      if (held > 0 && held + part_bytes > unread_max_) {
        if (parts_out_ > 0) return;  // Drain runs again when its rows come
        // Until half of it is taken: a client that reads on finds more. A part of more than half
        // has to fit too; one of more than all goes alone.
        const int64_t below = std::clamp<int64_t>(unread_max_ - part_bytes, 1, unread_max_ / 2);
        if (stream_->CallWhenBelow(static_cast<size_t>(below))) return;
        if (stream_->gone()) return StartParts();
      }
      ++parts_out_;
      if (!parts_->StartPart()) {
        --parts_out_;
        return;
      }
    }
  }

  void End(const api::EmbedEnd& end) {
    sink_.reset();
    parts_.reset();
    const auto stream = std::move(stream_);
    if (lost_) return;
    if (stream == nullptr) {
      return respond_.Send(
          PrintError(error_body_, frontend::WithWireNames(end.status, names_), request_->id));
    }
    std::string text;
    int status = 200;
    if (end.status.ok()) {
      AppendUsageLine(end, writer_, &text);
    } else {
      const http::HttpResponse error =
          PrintError(error_body_, frontend::WithWireNames(end.status, names_), request_->id);
      status = error.status;
      text = error.body + "\n";
    }
    stream->End(text, status);
  }

  // Without memory for a part of the answer: the connection is closed, so that the client sees it
  // is not whole.
  void Lose() noexcept override {
    lost_ = true;
    stream_.reset();
    if (parts_ != nullptr) {
      RunGuarded("stream", [this] {
        const auto parts = parts_;
        parts->Stop(MakeStatus(StatusCode::kInternal, "the stream was lost"));
      });
    }
  }

  api::Service* const service_;
  const std::shared_ptr<const http::HttpRequest> request_;
  const http::Responder respond_;
  const ErrorBody error_body_;
  EmbeddingWriter writer_;  // used by Drain alone
  const int64_t number_bytes_;
  const frontend::FieldNames names_;
  const int64_t unread_max_;
  const int64_t part_bytes_;

  // Used by Drain and Lose only.
  std::shared_ptr<api::Sink<api::EmbedEvent>> sink_;
  std::shared_ptr<api::EmbedStream> parts_;
  std::unique_ptr<http::Stream> stream_;
  int64_t parts_out_ = 0;  // started, and their rows not seen
  bool lost_ = false;
};

}  // namespace

bool WantsLines(const http::HttpRequest& request) {
  return http::WantsNdjson(request.Header("accept"));
}

void AnswerInLines(const RouteCall& call, api::EmbedRequest request, const EmbeddingFormat& format,
                   const frontend::FieldNames& native_to_wire) {
  frontend::FieldNames names = native_to_wire;
  names.emplace_back("bulk_run", frontend::kBulkIdHeader);
  const auto pump = std::make_shared<LinePump>(call, format, std::move(names));
  const auto owned = std::make_shared<api::EmbedRequest>(std::move(request));
  call.service->AwaitEmbedder(owned->model, call.request->context,
                              [pump, owned](const Status& status) {
                                if (!status.ok()) return pump->Refuse(status);
                                pump->Start(std::move(*owned));
                              });
}

void AppendEmbeddingLine(size_t index, std::span<const float> row, EmbeddingWriter* writer,
                         std::string* out) {
  JsonWriter json(out);
  json.BeginObject().Field("index", index).Key("embedding");
  writer->Write(row, &json, out);
  json.EndObject();
  *out += '\n';
}

void AppendUsageLine(const api::EmbedEnd& end, const EmbeddingWriter& writer, std::string* out) {
  JsonWriter json(out);
  json.BeginObject().Field("model", end.model).Key("usage").BeginObject();
  json.Field("prompt_tokens", end.usage.prompt_tokens);
  json.Field("total_tokens", end.usage.prompt_tokens).EndObject();
  writer.WriteRange(&json);
  WriteTruncation(end.truncation, &json);
  json.EndObject();
  *out += '\n';
}

}  // namespace penstock::dialects
