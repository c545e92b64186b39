#include "grpc/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/reflection.pb.h>
#include <grpc/reflection_v1alpha.pb.h>

#include <set>
#include <string>
#include <utility>

#include "base/printable.h"
#include "grpc/typed_call.h"

namespace penstock::grpc {
namespace {

namespace reflection = ::grpc::reflection::v1;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

void Refuse(GrpcCode code, std::string message, reflection::ServerReflectionResponse* response) {
  auto* const error = response->mutable_error_response();
  error->set_error_code(static_cast<int32_t>(code));
  error->set_error_message(std::move(message));
}

// A file, and those it imports that were not sent yet.
void AddFile(const FileDescriptor* file, std::set<const FileDescriptor*>* sent,
             reflection::FileDescriptorResponse* response) {
  if (!sent->insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) {
    AddFile(file->dependency(i), sent, response);
  }
}

void FillFile(const FileDescriptor* file, const std::string& name,
              reflection::ServerReflectionResponse* response) {
  if (file == nullptr) {
    return Refuse(GrpcCode::kNotFound, "there is no " + Printable(name, 100), response);
  }
  std::set<const FileDescriptor*> sent;
  AddFile(file, &sent, response->mutable_file_descriptor_response());
}

void FillServices(const GrpcFrontEnd& front_end, reflection::ListServiceResponse* response) {
  std::set<std::string_view> names;
  for (const frontend::RouteInfo& method : front_end.methods()) {
    const std::string_view path = method.path;  // "/package.Service/Method"
    names.insert(path.substr(1, path.rfind('/') - 1));
  }
  for (const std::string_view name : names) response->add_service()->set_name(std::string(name));
}

void FillReflection(const GrpcFrontEnd& front_end,
                    const reflection::ServerReflectionRequest& request,
                    reflection::ServerReflectionResponse* response) {
  response->set_valid_host(request.host());
  *response->mutable_original_request() = request;
  switch (request.message_request_case()) {
    case reflection::ServerReflectionRequest::kFileByFilename:
      return FillFile(Pool().FindFileByName(request.file_by_filename()), request.file_by_filename(),
                      response);
    case reflection::ServerReflectionRequest::kFileContainingSymbol:
      return FillFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()),
                      request.file_containing_symbol(), response);
    case reflection::ServerReflectionRequest::kListServices:
      return FillServices(front_end, response->mutable_list_services_response());
    case reflection::ServerReflectionRequest::kFileContainingExtension:
    case reflection::ServerReflectionRequest::kAllExtensionNumbersOfType:
      return Refuse(GrpcCode::kNotFound, "messages have no extensions here", response);
    case reflection::ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      break;
  }
  Refuse(GrpcCode::kInvalidArgument, "the request asks for nothing", response);
}

// What fails is an answer too.
class Reflection final : public TypedRequest<reflection::ServerReflectionRequest,
                                             reflection::ServerReflectionResponse> {
 public:
  using TypedRequest::TypedRequest;
  bool Refuse(const Status& failure) override {
    penstock::grpc::Refuse(GrpcCodeOf(failure.code()), failure.message(), &response_);
    return true;
  }
};

}  // namespace

void AddReflection(GrpcFrontEnd* front_end) {
  // Else the linker leaves its file out.
  ::grpc::reflection::v1alpha::ServerReflectionRequest::descriptor();
  for (const char* path : {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                           "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    AddCalls<reflection::ServerReflectionRequest, reflection::ServerReflectionResponse, Reflection>(
        front_end,
        {.path = path, .streams = true, .who = frontend::RouteFor::kEveryone, .endless = true},
        [front_end](const CallReply& reply, const reflection::ServerReflectionRequest& request,
                    reflection::ServerReflectionResponse* response) {
          FillReflection(*front_end, request, response);
          reply.End(Status::Ok());
        });
  }
}

}  // namespace penstock::grpc
