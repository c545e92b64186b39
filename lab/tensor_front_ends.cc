#include "lab/tensor_front_ends.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "api/service.h"
#include "api/shared_memory.h"
#include "grpc/grpc_server.h"
#include "lab/grpc_echo.h"
#include "lab/http_echo.h"
#include "log/step_progress.h"
#include "server/server.h"

namespace penstock::lab {
namespace {

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

std::string HttpRequestOf(const std::string& model, const std::string& head,
                          const std::string& tensor) {
  return fmt::format(
             "POST /v2/models/{}/infer HTTP/1.1\r\nHost: 127.0.0.1\r\n"
             "Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n",
             model, head.size(), head.size() + tensor.size()) +
         head + tensor;
}

// A row in the binary form.
std::string BinaryRequest(const TensorFrontEndOptions& options) {
  const std::string row(static_cast<size_t>(options.width) * 4, '\x3f');
  return HttpRequestOf(
      options.model,
      fmt::format(R"({{"inputs":[{{"name":"INPUT0","shape":[1,{}],"datatype":"FP32","parameters":)"
                  R"({{"binary_data_size":{}}}}}],)"
                  R"("outputs":[{{"name":"OUTPUT0","parameters":{{"binary_data":true}}}}]}})",
                  options.width, row.size()),
      row);
}

// Shared memory with the rows of a request, and room for their results.
class SharedRows {
 public:
  explicit SharedRows(size_t bytes)
      : name_(fmt::format("/penstock-bench-{}", getpid())), bytes_(bytes) {
    const int descriptor = shm_open(name_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (descriptor < 0) return;
    if (ftruncate(descriptor, static_cast<off_t>(2 * bytes)) == 0) {
      void* const at = mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
      if (at != MAP_FAILED) memory_ = static_cast<char*>(at);
    }
    close(descriptor);
    if (memory_ != nullptr) std::memset(memory_, 0x3f, bytes);
  }
  ~SharedRows() {
    if (memory_ != nullptr) munmap(memory_, 2 * bytes_);
    shm_unlink(name_.c_str());
  }
  SharedRows(const SharedRows&) = delete;
  SharedRows& operator=(const SharedRows&) = delete;

  bool ok() const { return memory_ != nullptr; }
  const std::string& name() const { return name_; }
  // Whether the results are there.
  bool Arrived() const { return std::memcmp(memory_, memory_ + bytes_, bytes_) == 0; }

 private:
  const std::string name_;
  const size_t bytes_;
  char* memory_ = nullptr;
};

Status MeasureSharedMemory(api::Service* service, uint16_t port,
                           const TensorFrontEndOptions& options, load::BenchRecords* records) {
  const size_t bytes =
      static_cast<size_t>(options.shared_rows) * static_cast<size_t>(options.width) * sizeof(float);
  const SharedRows shared(bytes);
  if (!shared.ok()) return {StatusCode::kUnavailable, "cannot make shared memory"};
  PENSTOCK_RETURN_IF_ERROR(service->shared_memory().Register(
      {.name = "rows", .key = shared.name(), .offset = 0, .bytes = 2 * bytes}));
  HttpEchoOptions http{
      .port = port,
      .request = HttpRequestOf(options.model,
                               fmt::format(R"({{"inputs":[{{"name":"INPUT0","shape":[{0},{1}],)"
                                           R"("datatype":"FP32","parameters":{{)"
                                           R"("shared_memory_region":"rows",)"
                                           R"("shared_memory_byte_size":{2}}}}}],"outputs":[{{)"
                                           R"("name":"OUTPUT0","parameters":{{)"
                                           R"("shared_memory_region":"rows",)"
                                           R"("shared_memory_byte_size":{2},)"
                                           R"("shared_memory_offset":{2}}}}}]}})",
                                           options.shared_rows, options.width, bytes),
                               ""),
      .connections = options.window,
      .seconds = options.seconds};
  double best = 0;
  StepProgress progress({.steps = options.rounds, .in_log = false});
  for (int round = 0; round < options.rounds; ++round) {
    progress.Next("shared memory");
    PENSTOCK_ASSIGN_OR_RETURN(const HttpEchoResult result, RunHttpEcho(http));
    best = std::max(best, result.requests_per_s);
  }
  progress.Clear();
  service->shared_memory().Unregister("rows");
  if (!shared.Arrived()) return Status::Internal("shared memory does not hold the results");
  fmt::print("  HTTP, shared memory, {} rows a request   {:9.0f} requests/s, {:5.2f} M rows/s\n",
             options.shared_rows, best, best * options.shared_rows / 1e6);
  records->Add("shm.rows_per_s", best * options.shared_rows, "1/s");
  return Status::Ok();
}

}  // namespace

Status MeasureTensorFrontEnds(api::Service* service, metrics::Metrics* metrics,
                              const TensorFrontEndOptions& options, load::BenchRecords* records) {
  http::ServerOptions server;
  server.port = 0;
  server.slow_request = std::chrono::milliseconds(0);
  PENSTOCK_ASSIGN_OR_RETURN(const auto http, server::Server::Start(service, metrics, server));
  grpc::GrpcOptions grpc_options;
  grpc_options.port = 0;
  PENSTOCK_ASSIGN_OR_RETURN(const auto grpc,
                            grpc::GrpcServer::Start(service, metrics, server, grpc_options));

  GrpcEchoOptions ours{.target = fmt::format("127.0.0.1:{}", grpc->port()),
                       .model = options.model,
                       .width = options.width,
                       .window = options.window,
                       .seconds = options.seconds};
  GrpcEchoOptions alone = ours;
  alone.window = 1;
  const HttpEchoOptions binary{.port = http->port(),
                               .request = BinaryRequest(options),
                               .connections = options.window,
                               .seconds = options.seconds};
  std::vector<double> rates, http_rates, http_ratios, lone;
  StepProgress progress({.steps = options.rounds + 1, .in_log = false});
  for (int round = -1; round < options.rounds; ++round) {
    progress.Next(round < 0 ? "front ends, warm-up" : "front ends");
    PENSTOCK_ASSIGN_OR_RETURN(const GrpcEchoResult with_ours, RunGrpcEcho(ours));
    PENSTOCK_ASSIGN_OR_RETURN(const HttpEchoResult with_http, RunHttpEcho(binary));
    PENSTOCK_ASSIGN_OR_RETURN(const GrpcEchoResult with_one, RunGrpcEcho(alone));
    if (round < 0) continue;
    rates.push_back(with_ours.requests_per_s);
    http_rates.push_back(with_http.requests_per_s);
    http_ratios.push_back(with_http.requests_per_s / with_ours.requests_per_s);
    lone.push_back(with_one.p50_us);
  }
  progress.Clear();
  fmt::print("Requests of one row over loopback, {} under way, clients in this process\n",
             options.window);
  fmt::print("  gRPC                      {:9.0f} requests/s\n", Median(rates));
  fmt::print("  gRPC, one alone           {:9.1f} us\n", Median(lone));
  fmt::print("  HTTP, binary              {:9.0f} requests/s, {:.3f} of gRPC\n", Median(http_rates),
             Median(http_ratios));
  records->Add("grpc.requests_per_s", Median(rates), "1/s");
  records->Add("grpc.lone_p50_us", Median(lone), "us");
  records->Add("http_binary.ratio_vs_grpc", Median(http_ratios), "1");
  if (service->options().shared_memory_bytes == 0) return Status::Ok();
  return MeasureSharedMemory(service, http->port(), options, records);
}

Status MeasureGrpcTarget(const std::string& target, const TensorFrontEndOptions& options,
                         load::BenchRecords* records) {
  const GrpcEchoOptions many{.target = target,
                             .model = options.model,
                             .width = options.width,
                             .window = options.window,
                             .seconds = options.seconds};
  GrpcEchoOptions alone = many;
  alone.window = 1;
  std::vector<double> rates, lone;
  StepProgress progress({.steps = options.rounds + 1, .in_log = false});
  for (int round = -1; round < options.rounds; ++round) {
    progress.Next(round < 0 ? "warm-up" : "round");
    PENSTOCK_ASSIGN_OR_RETURN(const GrpcEchoResult result, RunGrpcEcho(many));
    PENSTOCK_ASSIGN_OR_RETURN(const GrpcEchoResult with_one, RunGrpcEcho(alone));
    if (round < 0) continue;
    rates.push_back(result.requests_per_s);
    lone.push_back(with_one.p50_us);
  }
  progress.Clear();
  fmt::print("  gRPC of {}: {:9.0f} requests/s, one alone {:.1f} us\n", target, Median(rates),
             Median(lone));
  records->Add("grpc.requests_per_s", Median(rates), "1/s");
  records->Add("grpc.lone_p50_us", Median(lone), "us");
  return Status::Ok();
}

}  // namespace penstock::lab
