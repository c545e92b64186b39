// What a model's settings say of its inputs and outputs: checked against the model, and kept where
// it differs: narrower shapes, other dimensions of the same elements, fewer outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "signature/tensor_runner.h"

namespace penstock::signature {

struct DeclaredTensor {
  std::string name;
  ElementType type = ElementType::kFp32;
  // As users see it; without the dimension of rows where the model has batches. -1: any size.
  std::vector<int64_t> dims;
  // What the model has in place of `dims`, with the same elements in the same order.
  std::optional<std::vector<int64_t>> reshape;
};

// Empty: as the model has them.
struct DeclaredTensors {
  std::vector<DeclaredTensor> inputs, outputs;

  bool empty() const { return inputs.empty() && outputs.empty(); }
};

// OK: dimensions are -1, or 1 or more, and a reshape keeps the elements: it has the same number of
// dimensions of any size, in order, and between them the products are equal. kInvalidArgument says
// what is wrong.
Status CheckDims(const DeclaredTensor& tensor);

// The signature that users get: the model's in its own order, with the shapes declared, and of
// outputs the declared ones. kInvalidArgument names the tensor: the model has none of that name, it
// is of another type, its shape does not take what is declared; or an input of the model is not
// declared while others are.
Expected<TensorSignature> DeclareTensors(const TensorSignature& model,
                                         const DeclaredTensors& declared);

// Runs `runner`, whose tensors are those of `model`, as a model with the tensors of
// DeclareTensors(model, declared), which must have succeeded. Shapes are named anew, nothing is
// copied; but where rows are of fixed shape only as declared, outputs are. kInternal: an output is
// not as declared.
std::unique_ptr<TensorRunner> NewDeclaredRunner(std::unique_ptr<TensorRunner> runner,
                                                const TensorSignature& model,
                                                const DeclaredTensors& declared);

}  // namespace penstock::signature
