// Server reflection: the descriptors of all services that the front end has, for tools that have no
// .proto files. Asks for no key.
#pragma once

#include "grpc/grpc_front_end.h"

namespace penstock::grpc {

// grpc.reflection.v1 and v1alpha.
void AddReflection(GrpcFrontEnd* front_end);

}  // namespace penstock::grpc
