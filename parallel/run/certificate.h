#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "layers/graph.h"

namespace sluice::parallel {

/// What all ranks of a job must have in common, so that a training has one answer. Each makes its own before the first action and
/// compares it with the root's.
struct Certificate {
  std::string plan;             ///< hash of its bytes (encode)
  std::string model;            ///< layers::model_digest
  std::string config;           ///< hash of the text of all settings that decide the answer
  std::string build;            ///< build_id
  std::string instruction_set;  ///< that kernels are chosen by when they run: instruction_set()
  /// Models of its devices, their driver and libraries, which decide the bits beside GpuChoices, which ranks agree upon; else empty.
  std::string gpus;
  std::string settings{};  ///< of the trainer and its optimizer, in words
  bool operator==(const Certificate&) const = default;
};

/// Of this process. `plan` is its bytes, `config`  a text; which settings belong to it is the caller's to say. `devices`  those that are here.
/// Errors  DataError when the program's file cannot be read (build_id).
Certificate make_certificate(std::string_view plan, const layers::Graph& graph, std::string_view config,
                             const std::vector<DevicePtr>& devices);

/// Nothing when a rank may take part in the root's training, else a sentence for each thing that differs, with both values and the cure.
/// With `allow_other_hardware` another instruction set or GPU is no difference: then bits depend on which rank has which stage.
std::string difference(const Certificate& mine, const Certificate& root, bool allow_other_hardware = false);

/// As bytes, for the way from rank to rank.
std::string encode(const Certificate& certificate);
/// Errors  DataError naming the byte, also when another version of Sluice wrote it.
Certificate decode_certificate(std::string_view bytes);

}  // namespace sluice::parallel
