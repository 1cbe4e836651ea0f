#pragma once
// Marks functions that also run on the GPU: formulas shared by CPU and CUDA kernels.
#ifdef __CUDACC__
#define SLUICE_HD __host__ __device__
#else
#define SLUICE_HD
#endif
