"""Modules of onnxruntime that seqto takes the place of."""
