"""Architectures of Hugging Face, compiled, beside eager PyTorch: `make models` writes docs/models.md."""
