// Measurements of Penstock's ring alone, for `penstock-lab batcher` (beside peers:
// batcher_cell.h).
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::lab {

// Reservations a second of `producers` threads that reserve one row, publish it, and go on, while
// an executor takes the batches.
double MeasureReservations(uint32_t producers, double seconds);

struct AddedLatency {
  std::vector<double> direct_us;  // calling the model, sorted
  std::vector<double> leader_us;  // through the ring, the submitting thread runs the batch
  std::vector<double> handed_us;  // through the ring, an executor thread runs it
};
// A lone request `rate` times a second, at random times: from when it was to be sent until its
// result is read. The three ways take turns within one run.
AddedLatency MeasureAddedLatency(double rate, double seconds);

// Processor seconds a second of this process while an executor waits for work.
double MeasureIdleProcessor(double seconds);

}  // namespace penstock::lab
