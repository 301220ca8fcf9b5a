#include "quantization/arithmetic/blocks.h"

#include <algorithm>
#include <cstring>

namespace seqto::internal {
namespace {

// The shortest equal parts of at most `longest` that `length` can be cut into as few of.
int64_t equal_part(int64_t length, int64_t longest) {
  int64_t parts = (length + longest - 1) / longest;
  return (length + parts - 1) / parts;
}

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

std::vector<int64_t> shape(const Grouping& g) { return {g.outer, g.before, g.channels, g.after}; }

}  // namespace

Cut cut_into_blocks(const Grouping& whole, int64_t block_size) {
  Cut cut{whole, whole, whole};
  if (block_size <= 0 || block_size >= whole.before * whole.after) return cut;
  if (whole.before > 1) {
    int64_t rows = equal_part(whole.before, std::max<int64_t>(1, block_size / whole.after));
    cut.padded.before = round_up(whole.before, rows);
    cut.blocks = {whole.outer * (cut.padded.before / rows), rows, whole.channels, whole.after};
  } else {
    int64_t block = equal_part(whole.after, block_size);
    cut.padded.after = round_up(whole.after, block);
    cut.blocks = {whole.outer, 1, whole.channels * (cut.padded.after / block), block};
  }
  return cut;
}

Tensor pad(const Tensor& weight, const Cut& cut) {
  const Grouping &from = cut.whole, &to = cut.padded;
  if (!cut.is_padded()) return weight.reshaped(shape(to));
  // Padding is at the end of a run: of all channels' rows, or of one channel.
  bool rows = to.before != from.before;
  int64_t runs = rows ? from.outer : from.outer * from.channels;
  size_t unit = element_bits(weight.type()) / 8;
  size_t old_run = unit * static_cast<size_t>(weight.element_count() / runs);
  size_t new_run =
      old_run / static_cast<size_t>(rows ? from.before : from.after) * static_cast<size_t>(rows ? to.before : to.after);
  std::vector<std::byte> bytes(new_run * static_cast<size_t>(runs));
  for (size_t r = 0; r < static_cast<size_t>(runs); ++r)
    std::memcpy(bytes.data() + r * new_run, weight.bytes().data() + r * old_run, old_run);
  return Tensor::from(weight.type(), shape(to), std::move(bytes));
}

std::optional<std::vector<int64_t>> scale_dims(const std::vector<int64_t>& dims, const Grouping& g) {
  std::vector<int64_t> result;
  size_t d = 0;
  auto consume = [&](int64_t count, bool keep) {
    for (int64_t n = 1; n < count; n *= dims[d++]) {
      if (d == dims.size() || count % (n * dims[d]) != 0) return false;
      result.push_back(keep ? dims[d] : 1);
    }
    return true;
  };
  if (!consume(g.outer, true) || !consume(g.before, false) || !consume(g.channels, true) || !consume(g.after, false))
    return {};
  result.resize(dims.size(), 1);
  return result;
}

}  // namespace seqto::internal
