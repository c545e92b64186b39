#include "client/text_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "base/seeded_hash.h"
#include "json/json.h"

namespace penstock::client {
namespace {

constexpr int64_t kCountMax = int64_t{1} << 50;

// A number that JSON holds as a float's shortest digits.
bool ReadScore(JsonElement value, float* score) {
  double number = 0;
  if (!value.Get(&number)) return false;
  *score = static_cast<float>(number);
  return std::isfinite(*score);
}

bool ReadOffset(JsonElement token, const char* key, uint32_t* offset) {
  uint64_t number = 0;
  const auto value = token[key];
  if (value.missing() || value.is_null()) return true;  // a token without text
  if (!value.Get(&number) || number > std::numeric_limits<uint32_t>::max()) {
    return false;
  }
  *offset = static_cast<uint32_t>(number);
  return true;
}

Status ReadCounts(const JsonObject& object, encode::Usage* usage, encode::Truncation* truncation) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject used, object.GetObjectOrEmpty("usage"));
  PENSTOCK_ASSIGN_OR_RETURN(usage->prompt_tokens, used.GetIntOr("prompt_tokens", 0, 0, kCountMax));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject cut, object.GetObjectOrEmpty("truncated"));
  PENSTOCK_ASSIGN_OR_RETURN(truncation->inputs, cut.GetIntOr("inputs", 0, 0, kCountMax));
  PENSTOCK_ASSIGN_OR_RETURN(truncation->tokens, cut.GetIntOr("tokens", 0, 0, kCountMax));
  PENSTOCK_ASSIGN_OR_RETURN(truncation->unread_bytes,
                            cut.GetIntOr("unread_bytes", 0, 0, kCountMax));
  return Status::Ok();
}

void AddCounts(const encode::Usage& usage, const encode::Truncation& truncation,
               encode::Usage* usage_sum, encode::Truncation* truncation_sum) {
  usage_sum->prompt_tokens += usage.prompt_tokens;
  truncation_sum->inputs += truncation.inputs;
  truncation_sum->tokens += truncation.tokens;
  truncation_sum->unread_bytes += truncation.unread_bytes;
}

// "documents[3]" of a part that begins at row 1024 is "documents[1027]" of the request.
Status OfWhole(const Status& status, size_t begin) {
  const std::string& field = status.field();
  const size_t bracket = field.find('[');
  size_t index = 0;
  if (begin == 0 || bracket == std::string::npos ||
      std::from_chars(field.data() + bracket + 1, field.data() + field.size(), index).ec !=
          std::errc()) {
    return status;
  }
  const std::string whole = fmt::format("{}[{}]", field.substr(0, bracket), begin + index);
  const std::string part = fmt::format("{}[{}]", field.substr(0, bracket), index);
  std::string message = status.message();
  for (size_t at = 0; (at = message.find(part, at)) != std::string::npos; at += whole.size()) {
    message.replace(at, part.size(), whole);
  }
  return {status.code(), std::move(message), whole};
}

Expected<std::vector<api::ClassifyResponse::Label>> ReadLabels(
    JsonElement item, SeededMap<std::string_view, int32_t>* ids, std::vector<std::string>* names) {
  JsonArray predictions;
  if (!item["predictions"].Get(&predictions)) {
    return Garbled("'data' holds no 'predictions'");
  }
  std::vector<api::ClassifyResponse::Label> labels;
  for (const JsonElement prediction : predictions) {
    std::string_view name;
    api::ClassifyResponse::Label label;
    const auto score = prediction["score"];
    if (!prediction["label"].Get(&name) || !ReadScore(score, &label.score)) {
      return Garbled("a prediction without label or score");
    }
    const auto [known, first] = ids->try_emplace(name, static_cast<int32_t>(names->size()));
    if (first) names->emplace_back(name);
    label.id = known->second;
    labels.push_back(label);
  }
  return labels;
}

Expected<api::TokenizeResponse::Token> ReadToken(JsonElement item) {
  api::TokenizeResponse::Token token;
  int64_t id = 0;
  std::string_view text;
  if (!item["id"].Get(&id) || id < 0 || id > std::numeric_limits<int32_t>::max() ||
      !item["text"].Get(&text) || !item["special"].Get(&token.special) ||
      !ReadOffset(item, "start", &token.offset.begin) ||
      !ReadOffset(item, "stop", &token.offset.end)) {
    return Garbled("a token without id, text, special, start or stop");
  }
  token.id = static_cast<int32_t>(id);
  token.text = text;
  return token;
}

}  // namespace

std::string RerankBody(const api::RerankRequest& request, size_t begin, size_t count) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  if (!request.model.empty()) json.Field("model", request.model);
  json.Field("query", request.query);
  if (request.top_n) json.Field("top_n", *request.top_n);
  if (request.raw_scores) json.Field("raw_scores", *request.raw_scores);
  json.Key("documents").BeginArray();
  for (size_t i = begin; i < begin + count; ++i) json.String(request.documents[i]);
  json.EndArray().EndObject();
  return body;
}

std::string ClassifyBody(const api::ClassifyRequest& request, size_t begin, size_t count) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  if (!request.model.empty()) json.Field("model", request.model);
  if (request.raw_scores) json.Field("raw_scores", true);
  json.Key("input").BeginArray();
  for (size_t i = begin; i < begin + count; ++i) {
    const api::ClassifyInput& input = request.inputs[i];
    if (!input.second) {
      json.String(input.first);
    } else {
      json.BeginArray().String(input.first).String(*input.second).EndArray();
    }
  }
  json.EndArray().EndObject();
  return body;
}

std::string TokenizeBody(const api::TokenizeRequest& request, size_t begin, size_t count) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  if (!request.model.empty()) json.Field("model", request.model);
  json.Field("add_special_tokens", request.add_special_tokens);
  if (request.prompt_name) json.Field("prompt_name", *request.prompt_name);
  json.Key("inputs").BeginArray();
  for (size_t i = begin; i < begin + count; ++i) json.String(request.inputs[i]);
  json.EndArray().EndObject();
  return body;
}

Expected<api::RerankResponse> ParseRerankAnswer(std::string_view body, size_t count) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(body));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray results, object.GetArray("results"));
  api::RerankResponse response;
  std::vector<bool> seen(count);
  for (const JsonElement item : results) {
    api::RerankResponse::Item one;
    uint64_t index = 0;
    const auto score = item["relevance_score"];
    if (!item["index"].Get(&index) || index >= count || seen[index]) {
      return Garbled("'results' holds no index, a strange one, or one twice");
    }
    if (!ReadScore(score, &one.score)) {
      return Garbled(fmt::format("document {} has no score", index));
    }
    seen[index] = true;
    one.index = static_cast<int32_t>(index);
    response.items.push_back(one);
  }
  PENSTOCK_RETURN_IF_ERROR(ReadCounts(object, &response.usage, &response.truncation));
  return response;
}

Expected<api::ClassifyResponse> ParseClassifyAnswer(std::string_view body, size_t count) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(body));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray data, object.GetArray("data"));
  api::ClassifyResponse response;
  SeededMap<std::string_view, int32_t> ids;
  for (const JsonElement item : data) {
    uint64_t index = response.inputs.size();
    if (item["index"].Get(&index) && index != response.inputs.size()) {
      return Garbled(
          fmt::format("input {} is given in place of input {}", index, response.inputs.size()));
    }
    PENSTOCK_ASSIGN_OR_RETURN(auto labels, ReadLabels(item, &ids, &response.labels));
    response.inputs.push_back(std::move(labels));
  }
  if (response.inputs.size() != count) {
    return Garbled(fmt::format("labels of {} inputs for {}", response.inputs.size(), count));
  }
  PENSTOCK_RETURN_IF_ERROR(ReadCounts(object, &response.usage, &response.truncation));
  return response;
}

Expected<api::TokenizeResponse> ParseTokenizeAnswer(std::string_view body, size_t count) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(body));
  JsonArray inputs;
  if (!document.root().Get(&inputs)) return Garbled("no array of inputs");
  api::TokenizeResponse response;
  for (const JsonElement item : inputs) {
    JsonArray tokens;
    if (!item.Get(&tokens)) return Garbled("an input is not an array of tokens");
    auto& read = response.inputs.emplace_back();
    for (const JsonElement token : tokens) {
      PENSTOCK_ASSIGN_OR_RETURN(auto one, ReadToken(token));
      read.push_back(std::move(one));
    }
  }
  if (response.inputs.size() != count) {
    return Garbled(fmt::format("tokens of {} inputs for {}", response.inputs.size(), count));
  }
  return response;
}

Status TextClient::InParts(const std::string& path, size_t rows,
                           const std::function<size_t(size_t)>& bytes_of,
                           const std::function<std::string(const Part&)>& body_of,
                           const std::function<Status(const Part&, std::string_view body)>& take) {
  Part part;
  do {  // at least once: without rows the server reports the error
    const size_t rows_max = std::min(rows_max_.load(), rows - part.begin);
    size_t bytes = 0;
    part.count = 0;
    while (part.count < rows_max) {
      bytes += bytes_of(part.begin + part.count);
      if (bytes > kTextBytesMax && part.count > 0) break;
      ++part.count;
    }
    PENSTOCK_ASSIGN_OR_RETURN(const PostAnswer answer, server_.Post(path, body_of(part)));
    if (answer.status != 200) {
      const Status status = StatusOfAnswer(answer);
      // One row over a limit stays over it.
      const bool of_a_row = status.field().find('[') != std::string::npos;
      if (answer.status != 413 || part.count < 2 || of_a_row) return OfWhole(status, part.begin);
      rows_max_ = std::min(rows_max_.load(), part.count / 2);
      continue;
    }
    PENSTOCK_RETURN_IF_ERROR(take(part, answer.body));
    part.begin += part.count;
  } while (part.begin < rows);
  return Status::Ok();
}

Expected<api::RerankResponse> TextClient::Rerank(const api::RerankRequest& request) {
  api::RerankResponse whole;
  size_t parts = 0;
  PENSTOCK_RETURN_IF_ERROR(InParts(
      "/v1/rerank", request.documents.size(),
      [&](size_t row) { return request.documents[row].size(); },
      [&](const Part& part) { return RerankBody(request, part.begin, part.count); },
      [&](const Part& part, std::string_view body) -> Status {
        PENSTOCK_ASSIGN_OR_RETURN(auto response, ParseRerankAnswer(body, part.count));
        for (api::RerankResponse::Item& item : response.items) {
          item.index += static_cast<int32_t>(part.begin);
          whole.items.push_back(item);
        }
        AddCounts(response.usage, response.truncation, &whole.usage, &whole.truncation);
        ++parts;
        return Status::Ok();
      }));
  if (parts < 2) return whole;
  // Among equal scores those of earlier documents come first, as in each part.
  std::stable_sort(whole.items.begin(), whole.items.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  if (request.top_n && whole.items.size() > static_cast<size_t>(*request.top_n)) {
    whole.items.resize(static_cast<size_t>(*request.top_n));
  }
  return whole;
}

Expected<api::ClassifyResponse> TextClient::Classify(const api::ClassifyRequest& request) {
  api::ClassifyResponse whole;
  PENSTOCK_RETURN_IF_ERROR(InParts(
      "/v1/classify", request.inputs.size(),
      [&](size_t row) {
        const api::ClassifyInput& input = request.inputs[row];
        return input.first.size() + (input.second ? input.second->size() : 0);
      },
      [&](const Part& part) { return ClassifyBody(request, part.begin, part.count); },
      [&](const Part& part, std::string_view body) -> Status {
        PENSTOCK_ASSIGN_OR_RETURN(auto response, ParseClassifyAnswer(body, part.count));
        const auto offset = static_cast<int32_t>(whole.labels.size());
        for (auto& labels : response.inputs) {
          for (api::ClassifyResponse::Label& label : labels) label.id += offset;
          whole.inputs.push_back(std::move(labels));
        }
        for (std::string& label : response.labels) whole.labels.push_back(std::move(label));
        AddCounts(response.usage, response.truncation, &whole.usage, &whole.truncation);
        return Status::Ok();
      }));
  return whole;
}

Expected<api::TokenizeResponse> TextClient::Tokenize(const api::TokenizeRequest& request) {
  api::TokenizeResponse whole;
  PENSTOCK_RETURN_IF_ERROR(InParts(
      "/tokenize", request.inputs.size(), [&](size_t row) { return request.inputs[row].size(); },
      [&](const Part& part) { return TokenizeBody(request, part.begin, part.count); },
      [&](const Part& part, std::string_view body) -> Status {
        PENSTOCK_ASSIGN_OR_RETURN(auto response, ParseTokenizeAnswer(body, part.count));
        for (auto& tokens : response.inputs) whole.inputs.push_back(std::move(tokens));
        return Status::Ok();
      }));
  return whole;
}

}  // namespace penstock::client
