// What each kernel of a device takes, beside the least that the device needs for it.
#pragma once

#include <string>
#include <vector>

namespace penstock::program {

// An encoder of BERT's form: four times as wide within, heads of 64.
struct KernelTimeOptions {
  int width = 768;  // a multiple of 64
  std::vector<int> tokens = {32, 512, 4096, 32768};
  int length = 128;   // tokens of a sequence, at most
  int launches = 24;  // of a graph, which is replayed
  int rounds = 5;     // the median counts
};

struct KernelTime {
  std::string kernel;
  std::string shape;
  double seconds = 0;        // of one launch, behind others
  double operations = 0;     // of floating point
  double bytes = 0;          // least that is moved, each once
  double floor_seconds = 0;  // by the device's rates of both, caches left out; 0: not known
};

}  // namespace penstock::program
