#include "bulk/shard_plan.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "base/sha256.h"
#include "bulk/checkpoint.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "os/output_file.h"

namespace penstock::bulk {
namespace {

constexpr int64_t kPlanVersion = 1;
constexpr size_t kPlanBytesMax = 256 << 20;
constexpr size_t kPartBytesMax = 1 << 20;
constexpr size_t kInputsMax = 1 << 20;

void WriteMaker(const ShardMaker& maker, JsonWriter* json) {
  json->Key("maker").BeginObject().Field("model", maker.model).Field("dtype", maker.dtype);
  json->Field("program", maker.program).Field("isa", maker.isa);
  json->Field("fingerprint", maker.fingerprint).EndObject();
}

Expected<ShardMaker> ReadMaker(const JsonObject& object) {
  ShardMaker maker;
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject from, object.GetObject("maker"));
  PENSTOCK_ASSIGN_OR_RETURN(maker.model, from.GetString("model"));
  PENSTOCK_ASSIGN_OR_RETURN(maker.dtype, from.GetString("dtype"));
  PENSTOCK_ASSIGN_OR_RETURN(maker.program, from.GetString("program"));
  PENSTOCK_ASSIGN_OR_RETURN(maker.isa, from.GetString("isa"));
  PENSTOCK_ASSIGN_OR_RETURN(maker.fingerprint, from.GetString("fingerprint"));
  return maker;
}

std::string TextOf(const ShardPlan& plan, bool whole) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("penstock_plan", kPlanVersion).Field("command", plan.command);
  json.Field("shards", plan.shards).Field("parts", plan.parts).Field("settings", plan.settings);
  json.Key("inputs").BeginArray();
  for (const auto& input : plan.inputs) {
    json.BeginObject();
    if (whole) json.Field("file", input.name);
    json.Field("bytes", input.bytes).Field("digest", input.digest).EndObject();
  }
  json.EndArray();
  if (whole) WriteMaker(plan.maker, &json);
  json.EndObject();
  text += '\n';
  return text;
}

Expected<ShardPlan> PlanOf(const JsonDocument& document) {
  ShardPlan plan;
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  PENSTOCK_RETURN_IF_ERROR(object.GetInt("penstock_plan", kPlanVersion, kPlanVersion).status());
  PENSTOCK_ASSIGN_OR_RETURN(plan.command, object.GetString("command"));
  PENSTOCK_ASSIGN_OR_RETURN(plan.shards,
                            object.GetInt("shards", 1, corpus::ShardedInput::kShardsMax));
  PENSTOCK_ASSIGN_OR_RETURN(plan.parts, object.GetString("parts"));
  PENSTOCK_ASSIGN_OR_RETURN(plan.settings, object.GetString("settings"));
  PENSTOCK_ASSIGN_OR_RETURN(const auto inputs, object.GetArray("inputs", kInputsMax));
  for (const auto element : inputs) {
    JsonObject from;
    if (!element.Get(&from)) return Status::InvalidArgument("'inputs' must hold objects");
    corpus::ShardedInput::File input;
    PENSTOCK_ASSIGN_OR_RETURN(input.name, from.GetString("file"));
    PENSTOCK_ASSIGN_OR_RETURN(input.bytes, from.GetInt("bytes", 0, kCountMax));
    PENSTOCK_ASSIGN_OR_RETURN(input.digest, from.GetString("digest"));
    plan.inputs.push_back(std::move(input));
  }
  PENSTOCK_ASSIGN_OR_RETURN(plan.maker, ReadMaker(object));
  return plan;
}

Expected<ShardPart> PartOf(const JsonDocument& document) {
  ShardPart part;
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  PENSTOCK_RETURN_IF_ERROR(object.GetInt("penstock_part", kPlanVersion, kPlanVersion).status());
  PENSTOCK_ASSIGN_OR_RETURN(part.plan, object.GetString("plan"));
  PENSTOCK_ASSIGN_OR_RETURN(part.rows, object.GetInt("rows", 0, kCountMax));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t dimensions, object.GetInt("dimensions", 0, 1 << 20));
  part.dimensions = static_cast<int32_t>(dimensions);
  PENSTOCK_ASSIGN_OR_RETURN(part.input, object.GetString("input"));
  PENSTOCK_ASSIGN_OR_RETURN(part.bytes, object.GetInt("bytes", 0, kCountMax));
  PENSTOCK_ASSIGN_OR_RETURN(part.sha256, object.GetString("sha256"));
  PENSTOCK_ASSIGN_OR_RETURN(part.ids_sha256, object.GetString("ids_sha256"));
  PENSTOCK_ASSIGN_OR_RETURN(part.skipped, object.GetInt("skipped", 0, kCountMax));
  PENSTOCK_ASSIGN_OR_RETURN(part.tokens, object.GetInt("tokens", 0, kCountMax));
  PENSTOCK_ASSIGN_OR_RETURN(part.cut, object.GetInt("cut", 0, kCountMax));
  PENSTOCK_ASSIGN_OR_RETURN(part.seconds, object.GetNumber("seconds", 0, 1e12));
  PENSTOCK_ASSIGN_OR_RETURN(part.maker, ReadMaker(object));
  return part;
}

// What `parse` makes of the file. nullopt: it is not there. `what`: what it should be.
template <typename T>
Expected<std::optional<T>> ReadAs(const std::string& path, size_t bytes_max, const char* what,
                                  Expected<T> (*parse)(const JsonDocument&)) {
  const auto document = JsonDocument::ParseFile(path, bytes_max);
  if (!document.ok()) {
    if (document.status().code() == StatusCode::kNotFound) return std::optional<T>();
    return document.status().Annotate(path);
  }
  auto made = parse(*document);
  if (!made.ok()) return made.status().Annotate(fmt::format("{} is not {}", path, what));
  return std::optional<T>(*std::move(made));
}

}  // namespace

Expected<std::optional<ShardPlan>> ShardPlan::Read(const std::string& folder) {
  return ReadAs(PathIn(folder), kPlanBytesMax, "a plan of shards", &PlanOf);
}

Expected<ShardPlan> ShardPlan::PutDown(const std::string& folder) const {
  PENSTOCK_ASSIGN_OR_RETURN(auto there, Read(folder));
  if (there) return *std::move(there);
  char host[256] = {};
  (void)gethostname(host, sizeof host - 1);
  const std::string path = PathIn(folder);
  const std::string mine = fmt::format("{}.{}.{}", path, host, getpid());
  PENSTOCK_RETURN_IF_ERROR(ReplaceFile(mine, TextOf(*this, /*whole=*/true)));
  // Whole or not at all, and the first one stays.
  const int error = link(mine.c_str(), path.c_str()) == 0 ? 0 : errno;
  unlink(mine.c_str());
  if (error != 0 && error != EEXIST) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("cannot write {}: {}", path, strerror(error)));
  }
  PENSTOCK_ASSIGN_OR_RETURN(there, Read(folder));
  if (!there) return Status(StatusCode::kUnavailable, path + " has gone");
  return *std::move(there);
}

std::string ShardPlan::DifferenceFrom(const ShardPlan& other) const {
  const auto differ = [](const char* what, const auto& mine, const auto& theirs) {
    return fmt::format("{} is {}, and was {}", what, mine, theirs);
  };
  if (command != other.command) return differ("the command", command, other.command);
  if (shards != other.shards) return differ("the number of shards", shards, other.shards);
  if (parts != other.parts) return differ("the form of the parts", parts, other.parts);
  if (settings != other.settings) return differ("what was asked for", settings, other.settings);
  if (inputs.size() != other.inputs.size()) {
    return differ("the number of files", inputs.size(), other.inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].bytes != other.inputs[i].bytes) {
      return inputs[i].name + ": " + differ("its size", inputs[i].bytes, other.inputs[i].bytes);
    }
    if (inputs[i].digest != other.inputs[i].digest) {
      return inputs[i].name + ": its contents are not those of " + other.inputs[i].name;
    }
  }
  return "";
}

std::string ShardPlan::Id() const { return Sha256Hex(TextOf(*this, /*whole=*/false)); }

std::string ShardPart::StemOf(const std::string& folder, int64_t shard, int64_t shards) {
  return fmt::format("{}/part-{:05}-of-{:05}", folder, shard, shards);
}

Status ShardPart::Write(const std::string& stem) const {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("penstock_part", kPlanVersion).Field("plan", plan).Field("rows", rows);
  json.Field("dimensions", dimensions).Field("input", input).Field("bytes", bytes);
  json.Field("sha256", sha256).Field("ids_sha256", ids_sha256).Field("skipped", skipped);
  json.Field("tokens", tokens).Field("cut", cut).Field("seconds", seconds);
  WriteMaker(maker, &json);
  json.EndObject();
  text += '\n';
  return ReplaceFile(stem + ".json", text);
}

Expected<std::optional<ShardPart>> ShardPart::Read(const std::string& stem) {
  return ReadAs(stem + ".json", kPartBytesMax, "the record of a part", &PartOf);
}

std::optional<int64_t> ShardNumber(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || number < 0) return std::nullopt;
  if (number > corpus::ShardedInput::kShardsMax) return std::nullopt;
  return number;
}

Expected<std::vector<bool>> DoneShards(const std::string& folder, int64_t shards) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
  if (entries == nullptr) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("cannot read {}: {}", folder, strerror(errno)));
  }
  const std::string behind = fmt::format("-of-{:05}.json", shards);
  std::vector<bool> done(static_cast<size_t>(shards));
  while (const dirent* const entry = readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (!name.starts_with("part-") || !name.ends_with(behind)) continue;
    const auto shard =
        ShardNumber(std::string_view(name).substr(5, name.size() - 5 - behind.size()));
    if (shard && *shard < shards) done[static_cast<size_t>(*shard)] = true;
  }
  return done;
}

}  // namespace penstock::bulk
