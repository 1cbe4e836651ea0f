#include "core/where.h"

namespace sluice {

std::string Where::text() const {
  std::string parts;
  const auto add = [&](const std::string& part) { parts += (parts.empty() ? "" : ", ") + part; };
  if (node) add("node '" + std::string(node) + "'");
  if (stage >= 0) add("stage " + std::to_string(stage));
  if (micro_batch >= 0) add("micro-batch " + std::to_string(micro_batch));
  return parts.empty() ? "" : " (" + parts + ")";
}

Where& where() {
  thread_local Where place;
  return place;
}

}  // namespace sluice
