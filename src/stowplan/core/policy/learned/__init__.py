"""The learned policy: a network of a release, served by ONNX Runtime."""
