"""Speed of each part, compared with the limits of this machine."""
