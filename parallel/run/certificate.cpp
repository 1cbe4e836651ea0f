#include "parallel/run/certificate.h"

#include <array>
#include <set>

#include "core/build_id.h"
#include "core/cpu/instruction_set.h"
#include "core/cuda/cuda.h"
#include "core/cuda/tuned.h"
#include "core/file/hash.h"
#include "layers/model_digest.h"
#include "parallel/program/byte_stream.h"

namespace sluice::parallel {

namespace {

constexpr std::string_view kCertificateMagic = "SlCe";
constexpr int64_t kCertificateVersion = 3;

struct Part {
  std::string Certificate::*value;
  const char* name;
  const char* cure;
};

/// What brings about the others comes first.
constexpr std::array kParts{
    Part{&Certificate::build, "build", "install the same build on all hosts"},
    Part{
        &Certificate::instruction_set, "instruction set",
        "use hosts with one kind of processor, or set pipeline.allow_other_hardware = true, with which bits depend on which rank has which "
        "stage"},
    Part{&Certificate::gpus, "kind of GPU",
         "use GPUs of one model, with one driver, cuBLAS and cuDNN, or set pipeline.allow_other_hardware = true, with which bits depend on "
         "which rank has which stage"},
    Part{&Certificate::config, "config", "start all ranks with the same config file and the same settings"},
    Part{&Certificate::settings, "settings", "give the trainers of all ranks the same TrainerOptions and optimizer"},
    Part{&Certificate::model, "model", "give all ranks the same code of the model, and the same files that it is made from"},
    Part{&Certificate::plan, "plan", "start the job again; if it happens twice, please report it"},
};

/// Each kind once.
std::string kinds_of_gpus(const std::vector<DevicePtr>& devices) {
  std::set<std::string> kinds;
  for (const auto& device : devices) {
    if (device->kind() != DeviceKind::cuda) continue;
    const GpuDescription gpu = describe_gpu(*device);
    kinds.insert(join(gpu.name, " with ", gpu.multiprocessors, " multiprocessors, driver ", gpu.driver_version, ", ", gpu_libraries()));
  }
  std::string text;
  for (const std::string& kind : kinds) text += (text.empty() ? "" : "; ") + kind;
  return text;
}

}  // namespace

Certificate make_certificate(std::string_view plan, const layers::Graph& graph, std::string_view config,
                             const std::vector<DevicePtr>& devices) {
  return {.plan = sluice::hash_of(plan),
          .model = layers::model_digest(graph),
          .config = sluice::hash_of(config),
          .build = build_id(),
          .instruction_set = instruction_set(),
          .gpus = kinds_of_gpus(devices)};
}

std::string difference(const Certificate& mine, const Certificate& root, bool allow_other_hardware) {
  std::string words;
  for (const auto& [value, name, cure] : kParts) {
    const bool is_hardware = value == &Certificate::instruction_set || value == &Certificate::gpus;
    if ((allow_other_hardware && is_hardware) || mine.*value == root.*value) continue;
    words += join(words.empty() ? "" : ". ", "the rank needs the ", name, " of the root, which is '", root.*value, "', got '", mine.*value,
                  "'; ", cure);
  }
  return words;
}

std::string encode(const Certificate& certificate) {
  ByteWriter out(kCertificateMagic, kCertificateVersion);
  for (const Part& part : kParts) out.text(certificate.*part.value);
  return std::move(out).take();
}

Certificate decode_certificate(std::string_view bytes) {
  ByteReader in("certificate", bytes, kCertificateMagic, kCertificateVersion);
  Certificate certificate;
  for (const Part& part : kParts) certificate.*part.value = in.text();
  in.finish();
  return certificate;
}

}  // namespace sluice::parallel
