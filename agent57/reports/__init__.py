"""Charts and pages about runs."""
