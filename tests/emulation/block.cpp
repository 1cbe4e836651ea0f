#include "tests/emulation/block.h"

#include <bit>
#include <cstring>
#include <map>

#include "core/error.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace sluice::emulation {

namespace {

thread_local Block* running_block = nullptr;

std::string text_of(uint3 index) { return join("(", index.x, ",", index.y, ",", index.z, ")"); }

std::string text_of_mask(uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

}  // namespace

Block* Block::running() { return running_block; }

Block::Block() { fibers_.reserve(kMaxThreads); }

void Block::run(const Launch& launch, uint3 index, Random& random) {
  prepare(launch, index, random);
  running_block = this;
  go_on();
  running_block = nullptr;
  if (fault_) throw KernelFault(*fault_);
  if (exited_ < launch.threads()) throw KernelFault(deadlock());
}

void Block::prepare(const Launch& launch, uint3 index, Random& random) {
  launch_ = &launch;
  random_ = &random;
  const uint32_t count = launch.threads();
  threads_.assign(count, {});
  copies_.resize(std::max<size_t>(count, copies_.size()));
  for (Copies& copies : copies_) {
    copies.under_way.clear();
    copies.committed = 0;
  }
  warps_.resize((count + kWarp - 1) / kWarp);
  for (Warp& warp : warps_) {
    warp.exited = 0;
    warp.gatherings.clear();
  }
  ready_.fill(count);
  exited_ = at_barrier_ = barrier_predicates_ = 0;
  fault_.reset();
  fiber_ = &caller_;
  fibers_used_ = 0;
  idle_.clear();
  blockIdx = index;
  blockDim = launch.block;
  gridDim = launch.grid;
}

void Block::fiber_main() {
  Block& block = *running_block;
  block.run_threads();
  block.abandon();
}

/// Returns only when a thread has failed. The fault is thrown so that the frames above run no further.
void Block::run_threads() {
  try {
    for (;;) {
      launch_->thread();
      exit_thread();
    }
  } catch (const KernelFault& fault) {
    fault_ = fault.what();
  } catch (const std::exception& error) {
    set_fault(error.what());
  }
}

void Block::exit_thread() {
  Warp& warp = warps_[current_ / kWarp];
  const uint32_t bit = 1u << lane();
  for (const Gathering& gathering : warp.gatherings)
    if (gathering.mask & bit)
      fail(join("exits while lanes ", text_of_mask(gathering.arrived), " of its warp wait for it at ", gathering.operation->name,
                " with mask ", text_of_mask(gathering.mask), "; all lanes of a mask must make the call"));
  warp.exited |= bit;
  threads_[current_].exited = true;
  ++exited_;
  idle_.push_back(fiber_);
  go_on();
}

void Block::wait(const char* name, uint32_t mask) {
  threads_[current_].waits_for = name;
  threads_[current_].mask = mask;
  go_on();
}

/// Gives way to a random thread that can run, or to the caller of the block when there is none.
void Block::go_on() {
  Fiber& from = *fiber_;
  Fiber* to = &caller_;
  if (!ready_.empty()) {
    current_ = ready_.take(*random_);
    threadIdx = index_of(current_);
    to = &fiber_for(threads_[current_]);
  }
  if (to == &from) return;
  fiber_ = to;
  Fiber::switch_to(from, *to);
}

Fiber& Block::fiber_for(Thread& thread) {
  if (thread.fiber) return *thread.fiber;
  if (!idle_.empty()) {
    thread.fiber = idle_.back();
    idle_.pop_back();
    return *thread.fiber;
  }
  if (fibers_used_ == fibers_.size())
    fibers_.push_back(std::make_unique<Fiber>(fiber_main));
  else
    fibers_[fibers_used_]->restart();
  thread.fiber = fibers_[fibers_used_++].get();
  return *thread.fiber;
}

void Block::make_ready(uint32_t thread) {
  threads_[thread].waits_for = nullptr;
  ready_.put(thread);
}

uint32_t Block::lanes_of_warp() const {
  const uint32_t lanes = launch_->threads() - current_ / kWarp * kWarp;
  return lanes >= kWarp ? ~0u : (1u << lanes) - 1;
}

void Block::warp_operation(const WarpOperation& operation, uint32_t mask, void* operand) {
  Warp& warp = warps_[current_ / kWarp];
  const uint32_t bit = 1u << lane(), named = mask & lanes_of_warp();
  if (!(mask & bit)) fail(join(operation.name, ": mask ", text_of_mask(mask), " does not name the calling lane ", lane()));
  if (named & warp.exited)
    fail(join(operation.name, ": mask ", text_of_mask(mask), " names lanes ", text_of_mask(named & warp.exited), ", which have exited"));
  Gathering& gathering = join_gathering(operation, mask);
  gathering.arrived |= bit;
  gathering.operands[lane()] = operand;
  if (gathering.arrived != named) return wait(operation.name, mask);
  release(warp, gathering, named);
}

Block::Gathering& Block::join_gathering(const WarpOperation& operation, uint32_t mask) {
  Warp& warp = warps_[current_ / kWarp];
  for (Gathering& gathering : warp.gatherings) {
    if (gathering.mask == mask && gathering.operation == &operation) return gathering;
    // Lanes that wait here may be met later; but not those of which this call waits for one.
    if ((gathering.mask >> lane() & 1) && (gathering.arrived & mask))
      fail(join("lane ", lane(), " calls ", operation.name, " with mask ", text_of_mask(mask), " while lanes ",
                text_of_mask(gathering.arrived), " wait for it at ", gathering.operation->name, " with mask ", text_of_mask(gathering.mask),
                "; all lanes of a mask must make the same call with the same mask and type"));
  }
  return warp.gatherings.emplace_back(Gathering{&operation, mask});
}

void Block::release(Warp& warp, Gathering& gathering, uint32_t lanes) {
  gathering.operation->combine(gathering.operands, lanes);
  const uint32_t first = current_ / kWarp * kWarp;
  for_lanes(lanes & ~(1u << lane()), [&](int other) { make_ready(first + other); });
  gathering = warp.gatherings.back();
  warp.gatherings.pop_back();
}

int Block::barrier(const char* name, bool predicate) {
  if (at_barrier_ == 0) barrier_name_ = name;
  if (std::strcmp(barrier_name_, name) != 0)
    fail(join("calls ", name, " while ", at_barrier_, " threads of the block wait at ", barrier_name_, "; all must call the same"));
  ++at_barrier_;
  barrier_predicates_ += predicate;
  if (at_barrier_ < launch_->threads()) {
    wait(name, 0);
    return static_cast<int>(released_predicates_);
  }
  released_predicates_ = barrier_predicates_;
  at_barrier_ = barrier_predicates_ = 0;
  for (uint32_t thread = 0; thread < launch_->threads(); ++thread)
    if (thread != current_) make_ready(thread);
  return static_cast<int>(released_predicates_);
}

void Block::copy_async(void* shared, const void* global, size_t bytes) {
  std::memset(shared, 0xff, bytes);
  copies_[current_].under_way.push_back({shared, global, bytes});
}

void Block::wait_for_copies() {
  Copies& copies = copies_[current_];
  const auto end = copies.under_way.begin() + static_cast<std::ptrdiff_t>(copies.committed);
  for (auto copy = copies.under_way.begin(); copy != end; ++copy)
    if (copy->from)
      std::memcpy(copy->to, copy->from, copy->bytes);
    else
      std::memset(copy->to, 0, copy->bytes);
  copies.under_way.erase(copies.under_way.begin(), end);
  copies.committed = 0;
}

void Block::abandon() {
  Fiber::switch_to(*fiber_, caller_);
  __builtin_unreachable();
}

uint3 Block::index_of(uint32_t thread) const {
  const dim3& size = launch_->block;
  return {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
}

std::string Block::place_of(uint32_t thread) const {
  return join("kernel launch #", launch_->number, ", block ", text_of(blockIdx), ", thread ", text_of(index_of(thread)), ": ");
}

/// Who waits where, threads with the same answer together.
std::string Block::deadlock() const {
  std::map<std::string, std::vector<uint32_t>> groups;
  uint32_t first_waiting = launch_->threads();
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    const Thread& thread = threads_[i];
    if (!thread.exited) first_waiting = std::min(first_waiting, i);
    groups[thread.exited ? "exited"
           : thread.mask ? join("waits at ", thread.waits_for, " with mask ", text_of_mask(thread.mask))
                         : join("waits at ", thread.waits_for)]
        .push_back(i);
  }
  std::string text = place_of(first_waiting) + "no thread of the block can go on:";
  for (const auto& [what, members] : groups)
    text += join(" thread ", text_of(index_of(members.front())), members.size() > 1 ? join(" and ", members.size() - 1, " more: ") : ": ",
                 what, ";");
  return text + " a barrier or warp function stands where only some threads come";
}

void fail(const std::string& what) { throw KernelFault(Block::running()->place() + what); }

unsigned lane() { return Block::running()->lane(); }
uint32_t lanes_of_warp() { return Block::running()->lanes_of_warp(); }
void warp_operation(const WarpOperation& operation, uint32_t mask, void* operand) {
  Block::running()->warp_operation(operation, mask, operand);
}
void copy_async(void* shared, const void* global, size_t bytes, bool is_there) {
  if (reinterpret_cast<uintptr_t>(shared) % bytes != 0 || reinterpret_cast<uintptr_t>(global) % bytes != 0)
    fail(join("cp.async: needs both ends at multiples of ", bytes, " bytes; check the row pitch and the view's offset"));
  Block::running()->copy_async(shared, is_there ? global : nullptr, bytes);
}
void commit_copies() { Block::running()->commit_copies(); }
void wait_for_copies() { Block::running()->wait_for_copies(); }
int block_barrier(const char* name, bool predicate) { return Block::running()->barrier(name, predicate); }

void check_shuffle(const char* name, uint32_t mask, unsigned from, int width) {
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width)))
    fail(join(name, ": width must be a power of two up to 32, got ", width));
  if (!((mask & lanes_of_warp()) >> from & 1))
    fail(join(name, ": lane ", lane(), " reads from lane ", from, ", which is not in mask ", text_of_mask(mask), " or not in the block"));
}

}  // namespace sluice::emulation
