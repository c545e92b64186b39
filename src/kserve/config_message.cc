#include "kserve/config_message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <kserve/model_config.pb.h>

#include "json/json_writer.h"
#include "kserve/config_types.h"

namespace penstock::kserve {
namespace {

namespace pb = google::protobuf;

const char* BackendOf(const std::string& platform) {
  if (platform == "onnxruntime_onnx") return "onnxruntime";
  if (platform.starts_with("tensorflow")) return "tensorflow";
  return platform.c_str();
}

template <typename Tensor>
void FillTensor(const signature::TensorSpec& spec, bool batches, Tensor* tensor) {
  tensor->set_name(spec.name);
  tensor->set_data_type(DataTypeOf(spec.type));
  if (!spec.shape) {
    tensor->add_dims(-1);
    return;
  }
  for (size_t i = batches ? 1 : 0; i < spec.shape->size(); ++i) {
    const signature::DimensionRange& size = (*spec.shape)[i];
    tensor->add_dims(size.fixed() ? size.min : -1);
  }
}

// protobuf's own JSON has integers of 64 bits as strings, which clients of Triton do not expect.
class MessageWriter {
 public:
  explicit MessageWriter(std::string* out) : json_(out) {}

  void Write(const pb::Message& message) {
    json_.BeginObject();
    const pb::Descriptor* const type = message.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const pb::FieldDescriptor* const field = type->field(i);
      const bool absent =
          field->has_presence() && !message.GetReflection()->HasField(message, field);
      if (absent) continue;
      json_.Key(field->name());
      if (field->is_map()) {
        WriteMap(message, field);
      } else if (field->is_repeated()) {
        WriteArray(message, field);
      } else {
        WriteValue(message, field);
      }
    }
    json_.EndObject();
  }

 private:
  void WriteArray(const pb::Message& message, const pb::FieldDescriptor* field) {
    json_.BeginArray();
    const pb::Reflection* const reflection = message.GetReflection();
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      WriteElement(message, field, i);
    }
    json_.EndArray();
  }

  // Keys are texts in all maps that are filled.
  void WriteMap(const pb::Message& message, const pb::FieldDescriptor* field) {
    json_.BeginObject();
    const pb::Reflection* const reflection = message.GetReflection();
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      const pb::Message& entry = reflection->GetRepeatedMessage(message, field, i);
      const pb::Descriptor* const type = entry.GetDescriptor();
      json_.Key(entry.GetReflection()->GetString(entry, type->map_key()));
      WriteValue(entry, type->map_value());
    }
    json_.EndObject();
  }

  void WriteValue(const pb::Message& message, const pb::FieldDescriptor* field) {
    const pb::Reflection* const reflection = message.GetReflection();
    switch (field->cpp_type()) {
      case pb::FieldDescriptor::CPPTYPE_BOOL:
        json_.Bool(reflection->GetBool(message, field));
        break;
      case pb::FieldDescriptor::CPPTYPE_INT32:
        json_.Int(reflection->GetInt32(message, field));
        break;
      case pb::FieldDescriptor::CPPTYPE_INT64:
        json_.Int(reflection->GetInt64(message, field));
        break;
      case pb::FieldDescriptor::CPPTYPE_UINT32:
        json_.Uint(reflection->GetUInt32(message, field));
        break;
      case pb::FieldDescriptor::CPPTYPE_UINT64:
        json_.Uint(reflection->GetUInt64(message, field));
        break;
      case pb::FieldDescriptor::CPPTYPE_FLOAT:
        json_.Float(reflection->GetFloat(message, field));
        break;
      case pb::FieldDescriptor::CPPTYPE_DOUBLE:
        json_.Double(reflection->GetDouble(message, field));
        break;
      case pb::FieldDescriptor::CPPTYPE_ENUM:
        json_.String(reflection->GetEnum(message, field)->name());
        break;
      case pb::FieldDescriptor::CPPTYPE_STRING:
        json_.String(reflection->GetString(message, field));
        break;
      case pb::FieldDescriptor::CPPTYPE_MESSAGE:
        Write(reflection->GetMessage(message, field));
        break;
    }
  }

  void WriteElement(const pb::Message& message, const pb::FieldDescriptor* field, int index) {
    const pb::Reflection* const reflection = message.GetReflection();
    switch (field->cpp_type()) {
      case pb::FieldDescriptor::CPPTYPE_INT32:
        json_.Int(reflection->GetRepeatedInt32(message, field, index));
        break;
      case pb::FieldDescriptor::CPPTYPE_INT64:
        json_.Int(reflection->GetRepeatedInt64(message, field, index));
        break;
      case pb::FieldDescriptor::CPPTYPE_STRING:
        json_.String(reflection->GetRepeatedString(message, field, index));
        break;
      case pb::FieldDescriptor::CPPTYPE_MESSAGE:
        Write(reflection->GetRepeatedMessage(message, field, index));
        break;
      default:  // FillModelConfig fills no others
        json_.Null();
    }
  }

  JsonWriter json_;
};

}  // namespace

void FillModelConfig(const ModelConfigParts& parts, inference::ModelConfig* config) {
  const signature::TensorSignature& signature = parts.signature;
  const bool batches = signature.max_batch_size > 0;
  config->set_name(parts.name);
  config->set_platform(parts.platform);
  config->set_backend(BackendOf(parts.platform));
  config->mutable_version_policy()->mutable_latest()->set_num_versions(1);
  config->set_max_batch_size(signature.max_batch_size);
  for (const signature::TensorSpec& spec : signature.inputs)
    FillTensor(spec, batches, config->add_input());
  for (const signature::TensorSpec& spec : signature.outputs)
    FillTensor(spec, batches, config->add_output());
  inference::ModelInstanceGroup* const group = config->add_instance_group();
  group->set_name(parts.name);
  group->set_kind(inference::ModelInstanceGroup::KIND_CPU);
  group->set_count(parts.replicas);
  if (batches) {
    config->mutable_dynamic_batching()->set_max_queue_delay_microseconds(
        static_cast<uint64_t>(parts.linger_us));
  }
}

std::string ModelConfigJson(const ModelConfigParts& parts) {
  inference::ModelConfig config;
  FillModelConfig(parts, &config);
  std::string json;
  MessageWriter(&json).Write(config);
  return json;
}

}  // namespace penstock::kserve
