"""The paper's claims as experiments that a machine can check."""
