// Resampling of 8-bit RGB pictures, equal to Pillow's to the last bit; see
// docs/design/decisions/0002-image-resampling.md.
#pragma once

#include "data/decode_image.h"
#include "seqto/dataset.h"

namespace seqto::internal {

struct Window {
  int x = 0, y = 0, width = 0, height = 0;
};

// The part `window` of the picture resized to width x height; only that part is computed.
Image resize(Image image, int width, int height, Preprocess::Filter filter, const Window& window);

// Resizes and crops as the recipe says, but for a letterbox. Throws Error{kInvalidInput} naming the image where it is
// smaller than the crop.
Image fit(Image image, const Preprocess& recipe, const std::string& name);

// Where in a letterbox an image of this size lies, in pixels.
Window within_letterbox(int width, int height, const Preprocess& recipe);
// The image there, resized, and the fill around it.
Image letterbox(Image image, const Preprocess& recipe);

}  // namespace seqto::internal
