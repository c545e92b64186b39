#include "grpc/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/reflection.pb.h>
#include <grpc/reflection_v1alpha.pb.h>

#include <set>
#include <string>
#include <utility>

#include "common/byte_budget.h"
#include "common/printable.h"
#include "grpc/message_stream.h"
#include "grpc/proto_message.h"

namespace penstock {
namespace {

namespace wire = grpc::reflection::v1;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

void Refuse(GrpcCode code, std::string message, wire::ServerReflectionResponse* response) {
  auto* const error = response->mutable_error_response();
  error->set_error_code(static_cast<int32_t>(code));
  error->set_error_message(std::move(message));
}

// A file, and those it imports that were not sent yet.
void AddFile(const FileDescriptor* file, std::set<const FileDescriptor*>* sent,
             wire::FileDescriptorResponse* response) {
  if (!sent->insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) {
    AddFile(file->dependency(i), sent, response);
  }
}

class Reflection final : public MessageStream {
 public:
  Reflection(GrpcFrontEnd* front_end, std::shared_ptr<Rpc> rpc)
      : MessageStream(front_end, std::move(rpc)) {}

 protected:
  std::shared_ptr<StreamAnswer> Take(std::string request, RequestContext&& context) override {
    wire::ServerReflectionResponse response;
    int64_t counted = 0;
    const Status parsed =
        ParseMessage(request, context.memory.get(), response.mutable_original_request(), &counted);
    if (!parsed.ok()) return Refuse(parsed);
    response.set_valid_host(response.original_request().host());
    Fill(&response);
    return std::make_shared<ReadyAnswer>(PrintMessage(response));
  }
  std::shared_ptr<StreamAnswer> Refuse(const Status& status) override {
    wire::ServerReflectionResponse response;
    penstock::Refuse(GrpcCodeOf(status.code()), status.message(), &response);
    return std::make_shared<ReadyAnswer>(PrintMessage(response));
  }

 private:
  void Fill(wire::ServerReflectionResponse* response) {
    const wire::ServerReflectionRequest& request = response->original_request();
    switch (request.message_request_case()) {
      case wire::ServerReflectionRequest::kFileByFilename:
        return FillFile(Pool().FindFileByName(request.file_by_filename()),
                        request.file_by_filename(), response);
      case wire::ServerReflectionRequest::kFileContainingSymbol:
        return FillFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()),
                        request.file_containing_symbol(), response);
      case wire::ServerReflectionRequest::kListServices:
        return FillServices(response->mutable_list_services_response());
      case wire::ServerReflectionRequest::kFileContainingExtension:
      case wire::ServerReflectionRequest::kAllExtensionNumbersOfType:
        return penstock::Refuse(GrpcCode::kNotFound, "messages have no extensions here", response);
      case wire::ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
        break;
    }
    penstock::Refuse(GrpcCode::kInvalidArgument, "the request asks for nothing", response);
  }

  void FillFile(const FileDescriptor* file, const std::string& name,
                wire::ServerReflectionResponse* response) {
    if (file == nullptr) {
      return penstock::Refuse(GrpcCode::kNotFound, "there is no " + Printable(name, 100), response);
    }
    std::set<const FileDescriptor*> sent;
    AddFile(file, &sent, response->mutable_file_descriptor_response());
  }

  void FillServices(wire::ListServiceResponse* response) {
    std::set<std::string_view> names;
    for (const RouteInfo& method : front_end()->methods()) {
      const std::string_view path = method.path;  // "/package.Service/Method"
      names.insert(path.substr(1, path.rfind('/') - 1));
    }
    for (const std::string_view name : names) response->add_service()->set_name(std::string(name));
  }
};

}  // namespace

void AddReflection(GrpcFrontEnd* front_end) {
  // Else the linker leaves its file out.
  grpc::reflection::v1alpha::ServerReflectionRequest::descriptor();
  for (const char* path : {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                           "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    front_end->AddMethod(
        path, /*streams=*/true,
        [front_end](int32_t method, const std::shared_ptr<Rpc>& rpc) {
          MessageStream::Start(std::make_shared<Reflection>(front_end, rpc), method);
        },
        RouteFor::kEveryone, /*endless=*/true);
  }
}

}  // namespace penstock
