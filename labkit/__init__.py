"""labkit: the simulations, figures and panels of the course on memory for LLM agents."""

__version__ = "0.1.0"
