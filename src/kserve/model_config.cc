#include "kserve/model_config.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <kserve/model_config.pb.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/printable.h"
#include "base/regular_file.h"
#include "base/utf8_check.h"
#include "kserve/config_rules.h"
#include "kserve/config_types.h"

namespace penstock::kserve {
namespace {

namespace pb = google::protobuf;
using pb::TextFormat;
using Tree = TextFormat::ParseInfoTree;

constexpr char kFiniteParameter[] = "check_finite";

struct Platform {
  const char* name;
  const char* backend;
  const char* file;  // "": one of several
};
constexpr std::array kPlatforms = {
    Platform{"onnxruntime_onnx", "onnxruntime", "model.onnx"},
    Platform{"tensorflow_savedmodel", "tensorflow", "model.savedmodel"},
    Platform{"tensorflow_graphdef", "tensorflow", "model.graphdef"},
    Platform{"openvino", "openvino", ""},
    Platform{"tflite", "tflite", "model.tflite"},  // Triton has none
};

std::string KnownPlatforms(const char* const Platform::*part) {
  std::set<std::string> names;
  for (const Platform& platform : kPlatforms) names.insert(platform.*part);
  return fmt::format("{}", fmt::join(names, ", "));
}

// The first error of the parser.
class FirstError : public pb::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) return;
    // Lines are counted from 0; below 0: no place.
    text_ = line < 0 ? message : fmt::format("{}:{}: {}", line + 1, column + 1, message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A message with where its fields stand, and the way to it: "input[0]."
struct Place {
  const pb::Message& message;
  const Tree* tree;
  std::string path;
};

class ConfigReader {
 public:
  ConfigReader(const inference::ModelConfig& config, const Tree& tree, std::string file)
      : config_(config), root_{config, &tree, ""}, file_(std::move(file)) {}

  Expected<TensorModelConfig> Read() {
    PENSTOCK_RETURN_IF_ERROR(CheckFields(root_));
    out_.name = config_.name();
    PENSTOCK_RETURN_IF_ERROR(ReadPlatform());
    PENSTOCK_RETURN_IF_ERROR(ReadFile());
    PENSTOCK_RETURN_IF_ERROR(ReadVersions());
    PENSTOCK_RETURN_IF_ERROR(ReadTensors(config_.input(), "input", &out_.tensors.inputs));
    PENSTOCK_RETURN_IF_ERROR(ReadTensors(config_.output(), "output", &out_.tensors.outputs));
    PENSTOCK_RETURN_IF_ERROR(ReadBatching());
    PENSTOCK_RETURN_IF_ERROR(ReadInstances());
    PENSTOCK_RETURN_IF_ERROR(ReadParameters());
    return std::move(out_);
  }

 private:
  static const pb::FieldDescriptor* FieldOf(const Place& place, const char* field) {
    const pb::FieldDescriptor* const found = place.message.GetDescriptor()->FindFieldByName(field);
    PENSTOCK_CHECK(found != nullptr);
    return found;
  }

  // "config.pbtxt:12:3". `index`: of a repeated field, else -1.
  std::string Where(const Place& place, const pb::FieldDescriptor* field, int index) const {
    if (place.tree == nullptr) return file_;
    const int at = field->is_repeated() ? std::max(index, 0) : -1;
    const TextFormat::ParseLocation found = place.tree->GetLocation(field, at);
    return found.line < 0 ? file_
                          : fmt::format("{}:{}:{}", file_, found.line + 1, found.column + 1);
  }

  // The field is bad, or one value of it.
  Status Refuse(StatusCode code, const Place& place, const pb::FieldDescriptor* field, int index,
                const std::string& why) const {
    std::string name = place.path + field->name();
    if (index >= 0) name += fmt::format("[{}]", index);
    return {code, Printable(fmt::format("{}: {} {}", Where(place, field, index), name, why)),
            std::move(name)};
  }
  Status Bad(const Place& place, const char* field, const std::string& why, int index = -1) const {
    return Refuse(StatusCode::kInvalidArgument, place, FieldOf(place, field), index, why);
  }
  Status Unsupported(const Place& place, const char* field, const std::string& why,
                     int index = -1) const {
    return Refuse(StatusCode::kUnsupported, place, FieldOf(place, field), index, why);
  }
  void NoEffect(const Place& place, const pb::FieldDescriptor* field, const std::string& why) {
    out_.no_effect.push_back(Printable(
        fmt::format("{}: {} {}", Where(place, field, -1), place.path + field->name(), why)));
  }

  // A message inside of another.
  Place Nested(const Place& place, const pb::FieldDescriptor* field, int index) const {
    const pb::Reflection* const reflection = place.message.GetReflection();
    const pb::Message& message = field->is_repeated()
                                     ? reflection->GetRepeatedMessage(place.message, field, index)
                                     : reflection->GetMessage(place.message, field);
    std::string path = place.path + field->name();
    if (field->is_repeated()) path += fmt::format("[{}]", index);
    return {message, place.tree == nullptr ? nullptr : place.tree->GetTreeForNested(field, index),
            path + "."};
  }

  // What is refused or has no effect, as config_rules.h says.
  Status CheckFields(const Place& place) {
    std::vector<const pb::FieldDescriptor*> set;
    const pb::Reflection* const reflection = place.message.GetReflection();
    reflection->ListFields(place.message, &set);
    for (const pb::FieldDescriptor* field : set) {
      const FieldRule rule = RuleOf(field->containing_type()->name() + "." + field->name());
      const std::string why = *rule.why == '\0' ? "" : std::string(": ") + rule.why;
      if (rule.use == FieldUse::kRefused) {
        return Refuse(StatusCode::kUnsupported, place, field, -1, "is not supported" + why);
      }
      if (rule.use == FieldUse::kNoEffect) {
        NoEffect(place, field, "has no effect" + why);
      } else if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map()) {
        const int count = field->is_repeated() ? reflection->FieldSize(place.message, field) : 1;
        for (int i = 0; i < count; ++i) {
          PENSTOCK_RETURN_IF_ERROR(
              CheckFields(Nested(place, field, field->is_repeated() ? i : -1)));
        }
      }
    }
    return Status::Ok();
  }

  Status ReadPlatform() {
    out_.platform = config_.platform();
    out_.backend = config_.backend();
    bool platform = out_.platform.empty(), backend = out_.backend.empty(), both = false;
    for (const Platform& known : kPlatforms) {
      const bool same_platform = out_.platform.empty() || out_.platform == known.name;
      const bool same_backend = out_.backend.empty() || out_.backend == known.backend;
      platform = platform || same_platform;
      backend = backend || same_backend;
      both = both || (same_platform && same_backend);
    }
    if (!platform) {
      return Unsupported(root_, "platform",
                         fmt::format("'{}' is not supported; supported: {}", out_.platform,
                                     KnownPlatforms(&Platform::name)));
    }
    if (!backend) {
      return Unsupported(root_, "backend",
                         fmt::format("'{}' is not supported; supported: {}", out_.backend,
                                     KnownPlatforms(&Platform::backend)));
    }
    if (both) return Status::Ok();
    return Bad(root_, "backend",
               fmt::format("'{}' does not go with the platform '{}'", out_.backend, out_.platform));
  }

  Status ReadFile() {
    out_.file = config_.default_model_filename();
    if (out_.file.empty()) return Status::Ok();
    if (out_.file.find('/') == std::string::npos && out_.file[0] != '.' &&
        out_.file.size() <= ModelConfigLimits::kNameBytesMax && Printable(out_.file) == out_.file) {
      return Status::Ok();
    }
    return Bad(root_, "default_model_filename",
               "is to name a file in the folder of a version, without '/' and no hidden one");
  }

  Status ReadVersions() {
    if (!config_.has_version_policy()) return Status::Ok();
    const inference::ModelVersionPolicy& policy = config_.version_policy();
    const char* const one = "has one version served, the highest good one";
    const Place place = Nested(root_, FieldOf(root_, "version_policy"), -1);
    if (policy.has_all()) NoEffect(place, FieldOf(place, "all"), one);
    if (policy.latest().num_versions() > 1) NoEffect(place, FieldOf(place, "latest"), one);
    if (!policy.has_specific()) return Status::Ok();
    const auto& versions = policy.specific().versions();
    if (versions.empty()) return Bad(place, "specific", "names no version");
    if (versions.size() > 1) NoEffect(place, FieldOf(place, "specific"), one);
    const Place specific = Nested(place, FieldOf(place, "specific"), -1);
    for (int i = 0; i < versions.size(); ++i) {
      if (versions[i] < 1) return Bad(specific, "versions", "is to be 1 or more", i);
    }
    out_.versions.assign(versions.begin(), versions.end());
    std::sort(out_.versions.begin(), out_.versions.end());
    return Status::Ok();
  }

  template <typename Tensors>
  Status ReadTensors(const Tensors& given, const char* field,
                     std::vector<signature::DeclaredTensor>* out) {
    const auto count = static_cast<size_t>(given.size());
    if (count > ModelConfigLimits::kTensorsMax) {
      return Bad(
          root_, field,
          fmt::format("is given {} times, at most {}", count, ModelConfigLimits::kTensorsMax));
    }
    std::set<std::string> names;
    for (int i = 0; i < given.size(); ++i) {
      const Place place = Nested(root_, FieldOf(root_, field), i);
      const auto& tensor = given[i];
      if (tensor.name().empty() || tensor.name().size() > ModelConfigLimits::kNameBytesMax) {
        return Bad(place, "name",
                   fmt::format("is to have 1 to {} bytes", ModelConfigLimits::kNameBytesMax));
      }
      if (!names.insert(tensor.name()).second) {
        return Bad(place, "name", fmt::format("'{}' is there twice", tensor.name()));
      }
      const auto type = ElementTypeOf(tensor.data_type());
      if (!type) return Bad(place, "data_type", "is to be TYPE_FP32 or another type");
      signature::DeclaredTensor made{tensor.name(), *type, {}, std::nullopt};
      PENSTOCK_RETURN_IF_ERROR(ReadDims(place, tensor, &made));
      out->push_back(std::move(made));
    }
    return Status::Ok();
  }

  template <typename Tensor>
  Status ReadDims(const Place& place, const Tensor& tensor, signature::DeclaredTensor* made) const {
    constexpr auto kMax = static_cast<int>(ModelConfigLimits::kDimsMax);
    if (tensor.dims().empty()) return Bad(place, "dims", "is missing");
    if (tensor.dims_size() > kMax || tensor.reshape().shape_size() > kMax) {
      return Bad(place, "dims", fmt::format("has over {} dimensions", kMax));
    }
    made->dims.assign(tensor.dims().begin(), tensor.dims().end());
    if (const Status dims = signature::CheckDims(*made); !dims.ok()) {
      return Bad(place, "dims", ": " + dims.message());
    }
    if (!tensor.has_reshape()) return Status::Ok();
    made->reshape.emplace(tensor.reshape().shape().begin(), tensor.reshape().shape().end());
    const Status kept = signature::CheckDims(*made);
    return kept.ok() ? kept : Bad(place, "reshape", ": " + kept.message());
  }

  Status ReadBatching() {
    if (config_.has_max_batch_size()) {
      out_.max_batch_size = config_.max_batch_size();
      if (*out_.max_batch_size < 0 || *out_.max_batch_size > ModelConfigLimits::kBatchMax) {
        return Bad(root_, "max_batch_size",
                   fmt::format("is to be from 0 to {}", ModelConfigLimits::kBatchMax));
      }
    } else if (!out_.tensors.empty()) {
      out_.max_batch_size = 0;  // as in Triton: the dims are those of a whole request
    }
    if (!config_.has_dynamic_batching()) return Status::Ok();
    const Place place = Nested(root_, FieldOf(root_, "dynamic_batching"), -1);
    const uint64_t delay = config_.dynamic_batching().max_queue_delay_microseconds();
    if (delay > static_cast<uint64_t>(ModelConfigLimits::kLingerUsMax)) {
      return Bad(place, "max_queue_delay_microseconds",
                 fmt::format("is to be at most {}", ModelConfigLimits::kLingerUsMax));
    }
    out_.linger_us = static_cast<int32_t>(delay);
    return Status::Ok();
  }

  Status ReadInstances() {
    int64_t replicas = 0;
    for (int i = 0; i < config_.instance_group_size(); ++i) {
      const inference::ModelInstanceGroup& group = config_.instance_group(i);
      const Place place = Nested(root_, FieldOf(root_, "instance_group"), i);
      if (group.kind() == inference::ModelInstanceGroup::KIND_GPU) {
        return Unsupported(place, "kind",
                           "KIND_GPU is not supported: tensor models run on the CPU");
      }
      if (!inference::ModelInstanceGroup::Kind_IsValid(group.kind())) {
        return Bad(place, "kind", "is to be KIND_CPU or KIND_AUTO");
      }
      replicas += group.count() == 0 ? 1 : group.count();
      if (group.count() < 0 || replicas > ModelConfigLimits::kReplicasMax) {
        return Bad(place, "count",
                   fmt::format("is to be 1 or more, and at most {} with other groups",
                               ModelConfigLimits::kReplicasMax));
      }
    }
    if (replicas > 0) out_.replicas = static_cast<int32_t>(replicas);
    return Status::Ok();
  }

  Status ReadParameters() {
    std::set<std::string> others;
    for (const auto& [key, parameter] : config_.parameters()) {
      if (key != kFiniteParameter) {
        others.insert(key);
      } else if (parameter.string_value() == "true" || parameter.string_value() == "false") {
        out_.check_finite = parameter.string_value() == "true";
      } else {
        return Bad(root_, "parameters",
                   fmt::format("'{}' is to be \"true\" or \"false\"", kFiniteParameter));
      }
    }
    if (!others.empty()) {
      NoEffect(root_, FieldOf(root_, "parameters"),
               fmt::format("has keys without effect: {}; known is {}", fmt::join(others, ", "),
                           kFiniteParameter));
    }
    return Status::Ok();
  }

  const inference::ModelConfig& config_;
  const Place root_;
  const std::string file_;
  TensorModelConfig out_;
};

}  // namespace

Expected<TensorModelConfig> ParseModelConfig(std::string_view text, const std::string& file) {
  if (text.size() > ModelConfigLimits::kBytesMax) {
    return Status(StatusCode::kPayloadTooLarge,
                  fmt::format("{}: has {} bytes, at most {}", file, text.size(),
                              ModelConfigLimits::kBytesMax));
  }
  if (!IsValidUtf8(text)) {
    return Status::InvalidArgument(file + ": is not text in UTF-8");
  }
  FirstError error;
  Tree tree;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&tree);
  parser.SetRecursionLimit(ModelConfigLimits::kDepthMax);
  inference::ModelConfig config;
  if (!parser.ParseFromString(std::string(text), &config)) {
    return Status::InvalidArgument(Printable(file + ":" + error.text()));
  }
  return ConfigReader(config, tree, file).Read();
}

Expected<TensorModelConfig> ReadModelConfig(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text,
                            ReadRegularFile(path, ModelConfigLimits::kBytesMax));
  return ParseModelConfig(text, path);
}

std::string ModelFileOf(const std::string& platform, const std::string& backend) {
  std::string file;
  for (const Platform& known : kPlatforms) {
    if ((platform.empty() && backend.empty()) || (!platform.empty() && platform != known.name) ||
        (!backend.empty() && backend != known.backend)) {
      continue;
    }
    if (!file.empty()) return "";
    file = known.file;
  }
  return file;
}

}  // namespace penstock::kserve
