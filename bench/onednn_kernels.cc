// oneDNN's linear layers, for `penstock-lab kernels` to compare with ours. A library of its own,
// loaded by that command alone: Penstock does not depend on oneDNN.
//
// The same job as ours: f32 activations in and out, weights packed beforehand, bias, GELU (erf).
// bf16: rounding the activations is timed too. int8: u8 x s8 with one fixed scale for the
// activations and one a row for the weights; ours finds the scales of the activations as it goes.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace {

using dnnl::memory;

constexpr int kF32 = 0, kBf16 = 2;  // of penstock::DType; any other: int8

struct Product {
  int threads = 1;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  memory source, packed_source, weights, bias, result;
  dnnl::reorder pack;
  bool packs = false;
  dnnl::inner_product_forward product;
};

void Fill(const memory& m, size_t floats) {
  auto* data = static_cast<float*>(m.get_data_handle());
  for (size_t i = 0; i < floats; ++i) data[i] = static_cast<float>(i % 17) / 17 - 0.5f;
}

std::unique_ptr<Product> Make(int dtype, long rows, long in, long out, bool gelu, int threads) {
  using type = memory::data_type;
  using tag = memory::format_tag;
  omp_set_num_threads(threads);
  auto p = std::make_unique<Product>();
  p->threads = threads;
  const type x_type = dtype == kF32 ? type::f32 : (dtype == kBf16 ? type::bf16 : type::u8);
  const type w_type = dtype == kF32 ? type::f32 : (dtype == kBf16 ? type::bf16 : type::s8);
  const memory::desc x({rows, in}, x_type, tag::any), w({out, in}, w_type, tag::any);
  const memory::desc b({out}, type::f32, tag::x), y({rows, out}, type::f32, tag::nc);
  dnnl::primitive_attr attributes;
  if (gelu) {
    dnnl::post_ops post;
    post.append_eltwise(1, dnnl::algorithm::eltwise_gelu_erf, 0, 0);
    attributes.set_post_ops(post);
  }
  if (x_type == type::u8) {
    attributes.set_output_scales(2, std::vector<float>(static_cast<size_t>(out), 1e-4f));
  }
  const dnnl::inner_product_forward::primitive_desc description(
      {dnnl::prop_kind::forward_inference, x, w, b, y}, attributes, p->engine);
  p->product = dnnl::inner_product_forward(description);

  p->source = memory({{rows, in}, type::f32, tag::nc}, p->engine);
  Fill(p->source, static_cast<size_t>(rows * in));
  p->packed_source = memory(description.src_desc(), p->engine);
  p->packs = description.src_desc() != p->source.get_desc();
  dnnl::primitive_attr scaled;
  if (x_type == type::u8) scaled.set_output_scales(0, {100});
  p->pack = dnnl::reorder(p->source, p->packed_source, scaled);
  if (!p->packs) p->packed_source = p->source;
  memory plain({{out, in}, type::f32, tag::nc}, p->engine);
  Fill(plain, static_cast<size_t>(out * in));
  p->weights = memory(description.weights_desc(), p->engine);
  dnnl::primitive_attr weight_scale;
  if (w_type == type::s8) weight_scale.set_output_scales(0, {200});
  dnnl::reorder(plain, p->weights, weight_scale).execute(p->stream, plain, p->weights);
  p->bias = memory(b, p->engine);
  Fill(p->bias, static_cast<size_t>(out));
  p->result = memory(y, p->engine);
  p->stream.wait();
  return p;
}

}  // namespace

extern "C" {

// Null where oneDNN does not offer it on this processor.
void* penstock_onednn_make(int dtype, long rows, long in, long out, int gelu, int threads) {
  try {
    return Make(dtype, rows, in, out, gelu != 0, threads).release();
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

// Seconds of one run.
double penstock_onednn_run(void* product) {
  auto* p = static_cast<Product*>(product);
  omp_set_num_threads(p->threads);
  const auto start = std::chrono::steady_clock::now();
  if (p->packs) p->pack.execute(p->stream, p->source, p->packed_source);
  p->product.execute(p->stream, {{DNNL_ARG_SRC, p->packed_source},
                                 {DNNL_ARG_WEIGHTS, p->weights},
                                 {DNNL_ARG_BIAS, p->bias},
                                 {DNNL_ARG_DST, p->result}});
  p->stream.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void penstock_onednn_free(void* product) { delete static_cast<Product*>(product); }

}  // extern "C"
