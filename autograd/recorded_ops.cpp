#include "autograd/recorded_ops.h"

#include <locale>
#include <map>
#include <sstream>

namespace sluice {

namespace {

/// The nodes from which `root` was made, in the order of their creation.
std::vector<NodePtr> recorded_before(const NodePtr& root) {
  std::map<uint64_t, NodePtr> found;
  std::vector<NodePtr> open{root};
  while (!open.empty()) {
    const NodePtr node = open.back();
    open.pop_back();
    if (node && found.try_emplace(node->order, node).second) open.insert(open.end(), node->inputs.begin(), node->inputs.end());
  }
  std::vector<NodePtr> nodes;
  for (const auto& [order, node] : found) nodes.push_back(node);
  return nodes;
}

}  // namespace

std::string recorded_ops(const NodePtr& root, bool attributes) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::hexfloat;
  for (const auto& node : recorded_before(root)) {
    out << "; " << node->op << ' ' << name_of(node->dtype);
    for (const auto& input : node->inputs) out << (input ? '+' : '-');
    for (const auto& saved : node->saved)
      if (saved.defined()) out << ' ' << name_of(saved.dtype()) << saved.shape();
    if (attributes) node->attributes.write(out);
  }
  return std::move(out).str();
}

}  // namespace sluice
