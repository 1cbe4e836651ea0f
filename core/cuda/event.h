#pragma once

struct CUevent_st;
struct CUstream_st;

namespace sluice {

/// An event of one GPU, recorded once. Threads  any.
class CudaEvent {
 public:
  CudaEvent(int index, CUstream_st* stream, bool with_time);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool has_passed() const;
  void wait() const;
  double seconds_since(const CudaEvent& earlier) const;
  CUevent_st* handle() const { return event_; }

 private:
  CUevent_st* event_ = nullptr;
};

}  // namespace sluice
