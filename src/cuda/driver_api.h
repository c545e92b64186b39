// The functions of NVIDIA's driver that Penstock calls, as libcuda.so.1 exports them since CUDA 12.0.
// (Source: the CUDA driver API, https://docs.nvidia.com/cuda/cuda-driver-api.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::cuda::driver {

using Result = int;  // CUresult
inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNoDevice = 100;
using DeviceNumber = int;            // CUdevice
using Pointer = unsigned long long;  // CUdeviceptr
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;

// Constants of its enums.
inline constexpr int kMultiprocessorCount = 16, kCapabilityMajor = 75, kCapabilityMinor = 76;
inline constexpr int kClockKilohertz = 13, kMemoryClockKilohertz = 36, kMemoryBusBits = 37;
inline constexpr int kMaxDynamicSharedBytes = 8;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr int kCaptureThreadLocal = 1;
inline constexpr int kProgrammaticSerialization = 6;                 // of launch attributes
inline constexpr int kUint16 = 1, kSwizzle128 = 3, kPromote256 = 3;  // of tile maps

struct alignas(8) LaunchAttribute {  // CUlaunchAttribute
  int id;
  int padding;
  union {
    int allowed;  // of kProgrammaticSerialization
    char bytes[64];
  } value;
};
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// X(name, arguments)
#define PENSTOCK_DRIVER_FUNCTIONS(X)                                                        \
  X(cuInit, (unsigned))                                                                     \
  X(cuGetErrorString, (Result, const char**))                                               \
  X(cuDriverGetVersion, (int*))                                                             \
  X(cuDeviceGetCount, (int*))                                                               \
  X(cuDeviceGet, (DeviceNumber*, int))                                                      \
  X(cuDeviceGetName, (char*, int, DeviceNumber))                                            \
  X(cuDeviceGetAttribute, (int*, int, DeviceNumber))                                        \
  X(cuDeviceTotalMem_v2, (size_t*, DeviceNumber))                                           \
  X(cuDevicePrimaryCtxRetain, (Context*, DeviceNumber))                                     \
  X(cuDevicePrimaryCtxRelease_v2, (DeviceNumber))                                           \
  X(cuCtxSetCurrent, (Context))                                                             \
  X(cuMemGetInfo_v2, (size_t*, size_t*))                                                    \
  X(cuMemAlloc_v2, (Pointer*, size_t))                                                      \
  X(cuMemFree_v2, (Pointer))                                                                \
  X(cuMemHostAlloc, (void**, size_t, unsigned))                                             \
  X(cuMemFreeHost, (void*))                                                                 \
  X(cuMemcpyHtoDAsync_v2, (Pointer, const void*, size_t, Stream))                           \
  X(cuMemcpyDtoHAsync_v2, (void*, Pointer, size_t, Stream))                                 \
  X(cuStreamCreate, (Stream*, unsigned))                                                    \
  X(cuStreamDestroy_v2, (Stream))                                                           \
  X(cuStreamSynchronize, (Stream))                                                          \
  X(cuModuleLoadData, (Module*, const void*))                                               \
  X(cuModuleUnload, (Module))                                                               \
  X(cuModuleGetFunction, (Function*, Module, const char*))                                  \
  X(cuFuncSetAttribute, (Function, int, int))                                               \
  X(cuLaunchKernelEx, (const LaunchConfig*, Function, void**, void**))                      \
  X(cuTensorMapEncodeTiled, (void*, int, unsigned, void*, const uint64_t*, const uint64_t*, \
                             const uint32_t*, const uint32_t*, int, int, int, int))         \
  X(cuStreamBeginCapture_v2, (Stream, int))                                                 \
  X(cuStreamEndCapture, (Stream, Graph*))                                                   \
  X(cuGraphInstantiateWithFlags, (GraphExec*, Graph, unsigned long long))                   \
  X(cuGraphDestroy, (Graph))                                                                \
  X(cuGraphLaunch, (GraphExec, Stream))                                                     \
  X(cuGraphExecDestroy, (GraphExec))                                                        \
  X(cuEventCreate, (Event*, unsigned))                                                      \
  X(cuEventDestroy_v2, (Event))                                                             \
  X(cuEventRecord, (Event, Stream))                                                         \
  X(cuEventSynchronize, (Event))                                                            \
  X(cuEventElapsedTime, (float*, Event, Event))

struct Api {
#define PENSTOCK_DRIVER_MEMBER(name, arguments) Result(*name) arguments = nullptr;
  PENSTOCK_DRIVER_FUNCTIONS(PENSTOCK_DRIVER_MEMBER)
#undef PENSTOCK_DRIVER_MEMBER
};

}  // namespace penstock::cuda::driver
