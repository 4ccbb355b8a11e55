"""Charts, reports and pages about runs."""
