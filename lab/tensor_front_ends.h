// penstock-lab tensors, second part: the same requests over gRPC and HTTP, on loopback, with
// servers and clients in this process.
//
// Both take turns; the median of the ratios of neighbours counts.
#pragma once

#include <string>

#include "base/status.h"
#include "load/records.h"

namespace penstock::api {
class Service;
}  // namespace penstock::api

namespace penstock::metrics {
class Metrics;
}  // namespace penstock::metrics

namespace penstock::lab {

struct TensorFrontEndOptions {
  std::string model;   // gives INPUT0, FP32 [rows, width], back as OUTPUT0
  int width = 32;      // elements of a row
  int window = 64;     // requests under way
  double seconds = 1;  // of a round
  int rounds = 5;
  int shared_rows = 64;  // of a request over shared memory
};

// Prints a table and adds the records grpc.requests_per_s, grpc.lone_p50_us,
// http_binary.ratio_vs_grpc and, where the service allows shared memory, shm.rows_per_s.
Status MeasureTensorFrontEnds(api::Service* service, metrics::Metrics* metrics,
                              const TensorFrontEndOptions& options, load::BenchRecords* records);

// Requests of one row a second that another server's gRPC takes, of its model `model`. Adds
// grpc.requests_per_s and grpc.lone_p50_us.
Status MeasureGrpcTarget(const std::string& target, const TensorFrontEndOptions& options,
                         load::BenchRecords* records);

}  // namespace penstock::lab
