"""Shapes are checked while testing: jaxtyping annotations of `ops` and `nets` are enforced."""

from jaxtyping import install_import_hook

install_import_hook(["agent57.ops", "agent57.nets"], "beartype.beartype")
