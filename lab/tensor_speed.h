// penstock-lab tensors: how many requests and rows a second a tensor model takes that does
// nothing but copy, from the api to the result in this process: what is measured is the way to the
// model.
#pragma once

#include <string>

#include "base/status.h"
#include "load/records.h"

namespace penstock::api {
class Service;
}  // namespace penstock::api

namespace penstock::lab {

struct TensorSpeedOptions {
  std::string model;   // gives its one input, FP32 [rows, width], back
  int width = 32;      // elements of a row
  int callers = 2;     // threads that submit
  int window = 1024;   // requests of each that are under way
  double seconds = 2;  // of a measurement
  int rounds = 3;      // the best counts
};

// Prints a table and adds the records tensor.in_process_requests_per_s (requests of one row) and
// tensor.in_process_rows_per_s (of 16). Fails where a result is not that of its request.
Status MeasureTensorSpeed(api::Service* service, const TensorSpeedOptions& options,
                          load::BenchRecords* records);

}  // namespace penstock::lab
