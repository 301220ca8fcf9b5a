"""The kinds of nodes that generated graphs are made of: an emitter reads live tensors of a Builder and adds nodes.

It answers False where no tensor fits. The order of these imports is that of EMITTERS, which seeds count on.
"""
from emitters import EMITTERS, emitter, rank4  # noqa: F401
import layer_emitters  # noqa: F401
import shape_emitters  # noqa: F401
