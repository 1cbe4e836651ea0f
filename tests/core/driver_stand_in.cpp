// A libcuda.so.1 for machines without NVIDIA's driver: cuDNN compiles its fused kernels while it makes a plan and hands them to the driver.
// This one takes them and runs nothing: all that asks for a GPU fails.

namespace {
constexpr int kSuccess = 0, kStub = 34;  // CUDA_SUCCESS, CUDA_ERROR_STUB_LIBRARY
char something;
}  // namespace

extern "C" {
int cuDeviceGetCount(int* count) {
  *count = 0;
  return kSuccess;
}
int cuLibraryLoadData(void** library, const void*, int*, void**, unsigned, int*, void**, unsigned) {
  *library = &something;
  return kSuccess;
}
int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = &something;
  return kSuccess;
}
int cuLibraryUnload(void*) { return kSuccess; }

#define SLUICE_FAILS(name) \
  int name() { return kStub; }
SLUICE_FAILS(cuInit)
SLUICE_FAILS(cuGetErrorName)
SLUICE_FAILS(cuGetErrorString)
SLUICE_FAILS(cuCtxGetCurrent)
SLUICE_FAILS(cuCtxGetLimit)
SLUICE_FAILS(cuCtxPopCurrent)
SLUICE_FAILS(cuCtxPushCurrent)
SLUICE_FAILS(cuStreamGetCtx)
SLUICE_FAILS(cuLinkCreate)
SLUICE_FAILS(cuLinkAddData)
SLUICE_FAILS(cuLinkComplete)
SLUICE_FAILS(cuLinkDestroy)
SLUICE_FAILS(cuLaunchKernel)
SLUICE_FAILS(cuLaunchKernelEx)
SLUICE_FAILS(cuLaunchCooperativeKernel)
SLUICE_FAILS(cuDeviceGet)
SLUICE_FAILS(cuDriverGetVersion)
SLUICE_FAILS(cuLibraryLoadFromFile)
SLUICE_FAILS(cuKernelSetAttribute)
SLUICE_FAILS(cuKernelGetAttribute)
SLUICE_FAILS(cuOccupancyMaxPotentialClusterSize)
#undef SLUICE_FAILS
}
