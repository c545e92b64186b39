// Owners of the runtime's objects, and the types of elements as it numbers them.
#pragma once

#include <optional>

#include "openvino/runtime.h"
#include "signature/element_type.h"

namespace penstock::openvino {

// Owns an object that the runtime made. `free`: the member of Api that frees it.
template <typename T, auto free>
class Handle {
 public:
  explicit Handle(const Runtime* runtime) : runtime_(runtime) {}
  Handle(Handle&& other) noexcept
      : runtime_(other.runtime_), object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_ != nullptr) (runtime_->api().*free)(object_);
  }

  T* get() const { return object_; }
  // For a function that makes the object; called once.
  T** out() { return &object_; }

 private:
  const Runtime* runtime_;
  T* object_ = nullptr;
};

using ModelHandle = Handle<ApiModel, &Api::model_free>;
using CompiledModelHandle = Handle<ApiCompiledModel, &Api::compiled_model_free>;
using PortHandle = Handle<ApiPort, &Api::output_const_port_free>;
using TensorHandle = Handle<ApiTensor, &Api::tensor_free>;

// nullopt: a type that Penstock does not take, such as FP8 or four bits.
std::optional<signature::ElementType> FromApi(unsigned type);
ApiElementType ToApi(signature::ElementType type);

}  // namespace penstock::openvino
