#include "parallel/run/certificate.h"

#include <array>

#include "core/build_id.h"
#include "core/cpu/instruction_set.h"
#include "core/file/hash.h"
#include "layers/model_digest.h"
#include "parallel/program/byte_stream.h"

namespace sluice::parallel {

namespace {

constexpr std::string_view kCertificateMagic = "SlCe";
constexpr int64_t kCertificateVersion = 1;

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
    Part{&Certificate::config, "config", "start all ranks with the same config file and the same settings"},
    Part{&Certificate::model, "model", "give all ranks the same code of the model, and the same files that it is made from"},
    Part{&Certificate::plan, "plan", "start the job again; if it happens twice, please report it"},
};

}  // namespace

Certificate make_certificate(std::string_view plan, const layers::Graph& graph, std::string_view config) {
  return {.plan = sluice::hash_of(plan),
          .model = layers::model_digest(graph),
          .config = sluice::hash_of(config),
          .build = build_id(),
          .instruction_set = instruction_set()};
}

std::string difference(const Certificate& mine, const Certificate& root, bool allow_other_hardware) {
  std::string words;
  for (const auto& [value, name, cure] : kParts) {
    const bool is_allowed = allow_other_hardware && value == &Certificate::instruction_set;
    if (is_allowed || mine.*value == root.*value) continue;
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
