#include "core/cuda/cudnn.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "core/cuda/choices.h"
#include "core/cuda/cudnn_kind.h"
#include "core/cuda/cudnn_tuning.h"
#include "core/cuda/launch.h"
#include "core/cuda/trial.h"

namespace sluice::cudnn {

namespace {

/// What SLUICE_CUDNN says.
enum class Use { where_faster, never, wherever_possible };
Use use() {
  const char* value = std::getenv("SLUICE_CUDNN");
  if (!value || !*value) return Use::where_faster;
  return std::strcmp(value, "0") == 0 ? Use::never : Use::wherever_possible;
}

std::string key_of(const Cuda& cuda, const Kind& kind) {
  return join(gpu_prefix(cuda.description()), "cuDNN ", version_text(), ": ", text_of(kind));
}

using Addresses = std::span<void* const>;

bool are_aligned(Addresses addresses) {
  return std::all_of(addresses.begin(), addresses.end(),
                     [](const void* address) { return address && reinterpret_cast<uintptr_t>(address) % kAlignment == 0; });
}

/// Not what `attend` never takes; rows of every tensor begin at whole 16 bytes.
bool can_be_served(const Attention& of) {
  constexpr int64_t kPack = kAlignment / 2;
  const auto has_packs = [](const HeadStrides& at) { return at.sample % kPack == 0 && at.token % kPack == 0 && at.head % kPack == 0; };
  const bool has_elements = of.samples * of.heads * of.queries * of.keys * of.width > 0;
  return has_elements && of.width % kPack == 0 && (!of.causal || of.queries == of.keys) && (!of.backward || of.heads == of.key_heads) &&
         has_packs(of.q) && has_packs(of.k) && has_packs(of.v) && has_packs(of.y) && has_packs(of.dy) && has_packs(of.dq) &&
         has_packs(of.dk) && has_packs(of.dv);
}

bool slices_are_aligned(const Attention& of, Addresses addresses) {
  bool are = are_aligned(addresses);
  if (are) for_slices(of, addresses, [&](Addresses slice) { are = are && are_aligned(slice); });
  return are;
}

struct Call {
  Addresses on;  ///< of the graph's tensors, for the whole call
  void* workspace;
};

/// What a device keeps: the library's handle, and the plans of all kinds that it ran.
class Served {
 public:
  explicit Served(Cuda& cuda);
  ~Served() {
    chosen_.clear();
    gpu_.reset();
    if (handle_) library_->Destroy(handle_);
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  bool run(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own);

 private:
  struct Chosen {
    std::string choice;
    std::optional<Plan> plan;  ///< nothing: the own kernels
    uint64_t version = 0;      ///< of Choices, when it was asked for
  };
  void choose(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own, Chosen& chosen) const;
  Trial trial_of(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own) const;
  void run(const Plan& plan, const Kind& kind, const Call& call) const {
    for_slices(kind, call.on, [&](Addresses slice) { plan.run(handle_, slice, call.workspace); });
  }

  const Library* library_ = nullptr;
  cudnnHandle_t handle_ = nullptr;  ///< null where the library cannot serve this device
  std::optional<Descriptor> gpu_;
  std::map<Kind, Chosen> chosen_;
};

Served::Served(Cuda& cuda) : library_(library()) {
  if (!library_) return;
  cuda.activate();
  try {
    cudnn_try(*library_, library_->Create(&handle_), "cudnnCreate");
    cudnn_try(*library_, library_->SetStream(handle_, cuda.stream()), "cudnnSetStream");
    gpu_.emplace(*library_, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    gpu_->set(CUDNN_ATTR_DEVICEPROP_HANDLE, handle_);
    gpu_->finalize();
  } catch (const CallError& error) {
    warn(join(error.what(), "; Sluice's own kernels run instead"));
    if (handle_) library_->Destroy(std::exchange(handle_, nullptr));
  }
}

bool Served::run(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own) {
  if (!handle_) return false;
  Chosen& chosen = chosen_[kind];
  if (const uint64_t version = Choices::of_process().version(); chosen.version != version) {
    choose(cuda, kind, call, own, chosen);
    chosen.version = version;
  }
  if (!chosen.plan) return false;
  run(*chosen.plan, kind, call);
  after_launch(cuda, "cudnnBackendExecute");
  return true;
}

Trial Served::trial_of(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own) const {
  return {.text = key_of(cuda, kind),
          .results = results_of(kind, call.on),
          .own_may_win = use() != Use::wherever_possible,
          .own = own,
          .enqueue = [this, &kind, call](const Plan& plan) { run(plan, kind, call); }};
}

/// A plan that is still the choice is not made again.
void Served::choose(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own, Chosen& chosen) const {
  const bool is_forced = use() == Use::wherever_possible;
  const Trial trial = trial_of(cuda, kind, call, own);
  Proposals proposals(*library_, *gpu_, kind);
  std::string choice = kOwn;
  try {
    choice = Choices::of_process().choose(
        {.key = trial.text + (is_forced ? ", wherever possible" : ""),
         .can_run = [&](const std::string& known) { return known == kOwn || known == chosen.choice || proposals.plan(known); },
         .untried = [] { return kOwn; },
         .candidates = [&](int) { return candidates_of(proposals, cuda, trial); },
         .may_be_tried = !is_captured(cuda),
         .is_kept = !is_forced});
    if (choice != chosen.choice) chosen.plan = choice == kOwn ? std::nullopt : proposals.take(choice);
  } catch (const CallError& error) {
    if (!error.is_refusal()) warn(join(error.what(), "; Sluice's own kernels run ", trial.text));
    chosen.plan.reset();
  }
  chosen.choice = choice;
}

}  // namespace

std::string unavailable_reason() {
  if (use() == Use::never) return "SLUICE_CUDNN=0 is set";
  return library_missing_reason();
}

std::string version_text() {
  if (!library()) return "";
  const size_t version = library()->GetVersion();
  return join(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

bool convolve(Cuda& cuda, const Convolution& of, const Operands& on, const std::function<void()>& own) {
  void* const addresses[] = {const_cast<void*>(on.first), const_cast<void*>(on.second), on.result};
  if (of.dtype == DType::f64 || !are_aligned(addresses) || use() == Use::never) return false;
  return cuda.state<Served>().run(cuda, ConvolutionKind{of, of.dtype == DType::f32 && cuda.allows_tf32()}, {addresses, cuda.workspace()},
                                  own);
}

bool attend(Cuda& cuda, const Attention& of, const AttentionOperands& on, const std::function<void()>& own) {
  const auto read = [](const void* address) { return const_cast<void*>(address); };
  const std::array<void*, 5> forward{read(on.q), read(on.k), read(on.v), on.y, on.log_sum_exp};
  const std::array<void*, 10> backward{read(on.q),     read(on.k),  read(on.v), on.y,  read(on.dy),
                                       on.log_sum_exp, on.row_sums, on.dq,      on.dk, on.dv};
  const Addresses addresses = of.backward ? Addresses(backward) : Addresses(forward);
  if (use() == Use::never || !can_be_served(of) || !slices_are_aligned(of, addresses)) return false;
  return cuda.state<Served>().run(cuda, of, {addresses, on.workspace ? on.workspace : cuda.workspace()}, own);
}

}  // namespace sluice::cudnn
