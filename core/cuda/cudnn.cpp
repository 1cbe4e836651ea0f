#include "core/cuda/cudnn.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "core/cuda/algorithm_cache.h"
#include "core/cuda/cudnn_kind.h"
#include "core/cuda/cudnn_tuning.h"
#include "core/cuda/launch.h"
#include "core/cuda/trial.h"

namespace sluice::cudnn {

namespace {

using cublas::AlgorithmCache;
using cublas::AlgorithmWords;

/// What SLUICE_CUDNN says.
enum class Use { where_faster, never, wherever_possible };
Use use() {
  const char* value = std::getenv("SLUICE_CUDNN");
  if (!value || !*value) return Use::where_faster;
  return std::strcmp(value, "0") == 0 ? Use::never : Use::wherever_possible;
}

std::string key_of(const Cuda& cuda, const Kind& kind) {
  return join(cublas::key_of(cuda.description()), "cuDNN ", version_text(), ": ", text_of(kind));
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

/// A choice as the cache keeps it: none of cuDNN's, or the place of one among its proposals, with the number of its engine as a check.
struct Choice {
  bool is_own = true;
  int64_t place = 0, engine = 0;

  AlgorithmWords words() const { return {is_own ? uint64_t{0} : uint64_t{1}, static_cast<uint64_t>(place), static_cast<uint64_t>(engine)}; }
  static Choice of(const AlgorithmWords& words) { return {words[0] == 0, static_cast<int64_t>(words[1]), static_cast<int64_t>(words[2])}; }
};

bool slices_are_aligned(const Attention& of, Addresses addresses) {
  bool are = are_aligned(addresses);
  if (are) for_slices(of, addresses, [&](Addresses slice) { are = are && are_aligned(slice); });
  return are;
}

struct Call {
  Addresses on;  ///< of the graph's tensors, for the whole call
  void* workspace;
};

/// What a plan of this kind may need.
int64_t workspace_bytes_for(const Kind& kind) {
  const auto* attention = std::get_if<Attention>(&kind);
  return attention ? std::max(Cuda::kWorkspaceBytes, attention->slices.workspace_bytes) : Cuda::kWorkspaceBytes;
}

/// What a device keeps: the library's handle, and the plans of all kinds that it ran.
class Chooser {
 public:
  explicit Chooser(Cuda& cuda);
  ~Chooser() {
    plans_.clear();
    gpu_.reset();
    if (handle_) library_->Destroy(handle_);
  }
  Chooser(const Chooser&) = delete;
  Chooser& operator=(const Chooser&) = delete;

  bool run(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own);

 private:
  std::optional<Plan> choose(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own);
  std::optional<Plan> chosen_before(const Kind& kind, const Choice& choice) const;
  void run_slices(const Plan& plan, const Kind& kind, const Call& call) const {
    for_slices(kind, call.on, [&](Addresses slice) { plan.run(handle_, slice, call.workspace); });
  }
  /// Nothing where it needs more than there is, or the library refuses it after all.
  std::optional<Plan> plan_of(const Kind& kind, const std::shared_ptr<const Graph>& graph, Proposal proposal) const;
  Tuned tuned(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own) const;
  std::vector<Proposal> proposals_of(const Kind& kind, const Graph& graph) const {
    return proposals(graph, *gpu_, may_use_tensor_cores(kind));
  }

  const Library* library_ = nullptr;
  cudnnHandle_t handle_ = nullptr;  ///< null where the library cannot serve this device
  std::optional<Descriptor> gpu_;
  std::map<Kind, std::optional<Plan>> plans_;
};

Chooser::Chooser(Cuda& cuda) : library_(library()) {
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

bool Chooser::run(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own) {
  if (!handle_) return false;
  auto found = plans_.find(kind);
  if (found == plans_.end()) found = plans_.emplace(kind, choose(cuda, kind, call, own)).first;
  if (!found->second) return false;
  run_slices(*found->second, kind, call);
  after_launch(cuda, "cudnnBackendExecute");
  return true;
}

Tuned Chooser::tuned(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own) const {
  const auto graph = graph_of(*library_, slice_of(kind));
  auto all = proposals_of(kind, *graph);
  std::vector<Candidate> candidates;
  for (size_t place = 0; place < all.size(); ++place) {
    const int64_t engine = all[place].engine;
    if (auto plan = plan_of(kind, graph, std::move(all[place])))
      candidates.push_back({static_cast<int64_t>(place), engine, *std::move(plan)});
  }
  if (candidates.empty()) return {};
  return fastest_of(std::move(candidates), cuda,
                    {.text = key_of(cuda, kind),
                     .results = results_of(kind, call.on),
                     .own_may_win = use() != Use::wherever_possible,
                     .own = own,
                     .enqueue = [&](const Plan& plan) { run_slices(plan, kind, call); }});
}

bool is_captured(const Cuda& cuda) {
  cudaStreamCaptureStatus status{};
  CUDA_TRY(cudaStreamIsCapturing(cuda.stream(), &status));
  return status != cudaStreamCaptureStatusNone;
}

std::optional<Plan> Chooser::choose(Cuda& cuda, const Kind& kind, const Call& call, const std::function<void()>& own) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);  // also while it tunes: trials of two devices would disturb each other
  static AlgorithmCache cache(cublas::algorithm_cache_file(cublas::kCudnnFile));
  const bool forced = use() == Use::wherever_possible;
  const std::string key = key_of(cuda, kind) + (forced ? ", wherever possible" : "");
  try {
    if (const auto words = cache.find(key)) {
      if (Choice::of(*words).is_own) return std::nullopt;
      if (auto plan = chosen_before(kind, Choice::of(*words))) return plan;
    }
    if ((wants_trials() || forced) && !is_captured(cuda)) {
      auto [best, is_certain] = tuned(cuda, kind, call, own);
      const auto words = (best ? Choice{false, best->place, best->engine} : Choice{}).words();
      forced || !is_certain ? cache.remember(key, words) : cache.keep(key, words);
      return best ? std::optional(std::move(best->plan)) : std::nullopt;
    }
  } catch (const CallError& error) {
    if (!error.is_refusal()) warn(join(error.what(), "; Sluice's own kernels run ", key_of(cuda, kind)));
  }
  cache.remember(key, Choice{}.words());
  return std::nullopt;
}

std::optional<Plan> Chooser::chosen_before(const Kind& kind, const Choice& choice) const {
  const auto graph = graph_of(*library_, slice_of(kind));
  auto all = proposals_of(kind, *graph);
  if (choice.place < 0 || choice.place >= static_cast<int64_t>(all.size()) || all[choice.place].engine != choice.engine)
    return std::nullopt;
  return plan_of(kind, graph, std::move(all[choice.place]));
}

std::optional<Plan> Chooser::plan_of(const Kind& kind, const std::shared_ptr<const Graph>& graph, Proposal proposal) const {
  try {
    Plan plan(graph, std::move(proposal), *gpu_);
    return plan.workspace_bytes() <= workspace_bytes_for(kind) ? std::optional(std::move(plan)) : std::nullopt;
  } catch (const CallError&) {
    return std::nullopt;
  }
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
  return cuda.state<Chooser>().run(cuda, ConvolutionKind{of, of.dtype == DType::f32 && cuda.allows_tf32()}, {addresses, cuda.workspace()},
                                   own);
}

bool attend(Cuda& cuda, const Attention& of, const AttentionOperands& on, const std::function<void()>& own) {
  const auto read = [](const void* address) { return const_cast<void*>(address); };
  const std::array<void*, 5> forward{read(on.q), read(on.k), read(on.v), on.y, on.log_sum_exp};
  const std::array<void*, 10> backward{read(on.q),     read(on.k),  read(on.v), on.y,  read(on.dy),
                                       on.log_sum_exp, on.row_sums, on.dq,      on.dk, on.dv};
  const Addresses addresses = of.backward ? Addresses(backward) : Addresses(forward);
  if (use() == Use::never || !can_be_served(of) || !slices_are_aligned(of, addresses)) return false;
  return cuda.state<Chooser>().run(cuda, of, {addresses, on.workspace ? on.workspace : cuda.workspace()}, own);
}

}  // namespace sluice::cudnn
