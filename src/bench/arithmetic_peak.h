// The arithmetic peak of this processor, which shares of it are counted by.
#pragma once

#include "cpu/kernels.h"
#include "numbers/dtype.h"
#include "threads/thread_pool.h"

namespace penstock::bench {

// Operations a second of the multiply-adds of `dtype` on registers alone, on all threads: the best
// of three measurements of about 1.5 ms.
double ArithmeticPeak(const cpu::Kernels& kernels, numbers::DType dtype, ThreadPool* pool);

}  // namespace penstock::bench
