"""How fast each part is, beside what it cannot avoid on this machine."""
