#include "core/external_kernel.h"

#include "core/dispatch.h"

namespace sluice {

namespace {

struct Runner {
  const char* op;
  const ExternalKernel& kernel;

  void operator()(Cpu& cpu) const {
    require(kernel.cpu != nullptr, op, ": has no kernel for a CPU; give ExternalKernel::cpu, or move its operands to a GPU");
    kernel.cpu(cpu);
  }
  void operator()(Cuda& cuda) const {
    require(kernel.cuda != nullptr, op, ": has no kernel for a GPU; give ExternalKernel::cuda, or compute it from ops of the library");
    kernel.cuda(cuda.stream());
  }
};

}  // namespace

void run_external(const char* op, std::initializer_list<Operand> operands, const Cost& cost, const ExternalKernel& kernel) {
  run_kernel(op, operands, cost, Runner{op, kernel});
}

}  // namespace sluice
