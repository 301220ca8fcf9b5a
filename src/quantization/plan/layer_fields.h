// Room: quantization/plan. The fields of single layers' schemes (LayerOptions), made into what the writers go by.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/graph_view.h"
#include "seqto/quantize.h"

namespace seqto::internal {

using LayerSet = std::unordered_set<LayerId>;

// Throws Error{kUsage} naming layer and field where the scheme has not the field, or not this value of it.
void validate_fields(const LayerId& layer, Scheme scheme, const LayerOptions& fields, const QuantizeOptions& options);

// The options as a layer of this scheme with these fields has them.
QuantizeOptions with_fields(const QuantizeOptions& options, Scheme scheme, const LayerOptions& fields);

// The options of each layer, for writers that go node by node.
class LayerwiseOptions {
 public:
  explicit LayerwiseOptions(const QuantizeOptions& common) : common_(common) {}
  void set(const LayerId& layer, Scheme scheme, const LayerOptions& fields);
  const QuantizeOptions& common() const { return common_; }
  const QuantizeOptions& of(const LayerId& layer) const;

 private:
  const QuantizeOptions& common_;
  std::map<std::pair<Scheme, LayerOptions>, QuantizeOptions> made_;  // few, however many layers have them
  std::unordered_map<LayerId, const QuantizeOptions*> layers_;
};

// A static layer of a candidate.
struct StaticLayer {
  size_t node = 0;
  bool wide = false;                     // int8w_int16a
  const LayerOptions* fields = nullptr;  // none: as the options
};
// In graph order, of those nodes that are selected, all of which the plan makes static.
std::vector<StaticLayer> static_layers(const Model& model, const Plan& plan, const std::vector<bool>& selected);
// The options of a candidate in QDQ form: what single layers want as overrides of the tensors that they read and write.
QuantizeOptions static_options(const Model& model, const GraphView& index, const QuantizeOptions& options,
                               const std::vector<StaticLayer>& layers);
// The ranges of a candidate: those of the layers' methods where they have one. Throws Error{kUsage} for a name that
// `named` has not.
Ranges ranges_of_methods(const Model& model, const GraphView& index, const Ranges& ranges,
                         const std::map<std::string, Ranges>& named, const std::vector<StaticLayer>& layers);

}  // namespace seqto::internal
