"""Where the parts live and how they are driven."""
